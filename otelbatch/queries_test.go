package otelbatch

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The words of PromQL in the queries here that are not names.
var (
	operators   = []string{"and", "or", "unless", "offset", "bool"}
	aggregators = []string{"sum", "max", "min", "avg", "count", "group"}
	groupings   = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}

	queryToken = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]|[0-9][\w.]*|[A-Za-z_][\w:]*|\S`)
	wordStart  = regexp.MustCompile(`^[A-Za-z_]`)
)

// namesOfQuery returns the metrics and the labels in a query. Errors of grammar are left to
// promtool.
func namesOfQuery(query string) (metrics, labels []string) {
	tokens := queryToken.FindAllString(query, -1)
	inBraces, inGrouping := false, false
	for i, tok := range tokens {
		next := ""
		if i+1 < len(tokens) {
			next = tokens[i+1]
		}
		switch {
		case tok == "{" || tok == "}":
			inBraces = tok == "{"
		case tok == ")":
			inGrouping = false
		case !wordStart.MatchString(tok):
		case inBraces || inGrouping:
			labels = append(labels, tok)
		case slices.Contains(groupings, tok):
			inGrouping = true
		case next == "(", slices.Contains(operators, tok), slices.Contains(aggregators, tok):
		default:
			metrics = append(metrics, tok)
		}
	}
	return metrics, labels
}

func TestNamesOfQueries(t *testing.T) {
	for query, want := range map[string][2]string{
		`max(a)`: {"a", ""},
		`sum by (job, x) (rate(a_total{y=~"b|c",z!="d"}[5m])) > 0.05 * e`: {"a_total e", "job x y z"},
		`histogram_quantile(0.99, sum by (le) (rate(a_bucket[10m])))`:     {"a_bucket", "le"},
		`absent(a) or sum(b unless b offset 1h) == 0`:                     {"a b b", ""},
		`a / on (job) group_left () b`:                                    {"a b", "job"},
	} {
		metrics, labels := namesOfQuery(query)
		assert.Equal(t, want, [2]string{strings.Join(metrics, " "), strings.Join(labels, " ")}, query)
	}
}

// exportedNames returns the names in Prometheus, each with its labels and their values.
func exportedNames(t *testing.T) map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for _, d := range allDefinitions(t) {
		of := map[string][]string{"job": nil, "instance": nil}
		for _, l := range d.labels {
			of[strings.ReplaceAll(l.key, ".", "_")] = append(slices.Clone(l.values), otherValue, "")
		}
		name := prometheusName(d)
		if d.kind != "histogram" {
			all[name] = of
			continue
		}
		all[name+"_count"], all[name+"_sum"] = of, of
		buckets := map[string][]string{"le": nil}
		maps.Copy(buckets, of)
		all[name+"_bucket"] = buckets
	}
	return all
}

var labelMatcher = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"([^"]*)"`)

// checkQuery fails the test if a query has a metric, a label or a value that does not exist. All
// values of a label are in a list of this package, so none is an id or a lane.
func checkQuery(t *testing.T, all map[string]map[string][]string, where, query string) (metrics []string) {
	t.Helper()
	metrics, labels := namesOfQuery(query)
	assert.NotEmpty(t, metrics, where)
	values := map[string][]string{}
	for _, name := range metrics {
		of, known := all[name]
		assert.True(t, known, "%s: %s is no metric", where, name)
		for key, v := range of {
			values[key] = append(values[key], v...)
		}
	}
	for _, l := range labels {
		_, known := values[l]
		assert.True(t, known, "%s: none of %v has the label %s", where, metrics, l)
	}
	for _, m := range labelMatcher.FindAllStringSubmatch(query, -1) {
		if m[1] == "job" || m[1] == "instance" {
			continue
		}
		for v := range strings.SplitSeq(m[2], "|") {
			assert.Contains(t, values[m[1]], v, "%s: %s has no value %q", where, m[1], v)
		}
	}
	return metrics
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
	Panels  []panel
}

type dashboard struct {
	Templating struct {
		List []struct{ Name, Query string }
	}
	Annotations struct{ List []struct{ Expr string } }
	Panels      []panel
}

// Every query of the dashboard has metrics and labels that exist, and its legend has labels of the
// query. Every metric is on the dashboard. promtool parses each query.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	all, shown := exportedNames(t), map[string]bool{}
	var queries []string
	legend := regexp.MustCompile(`\{\{(\w+)\}\}`)
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		assert.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				assert.Empty(t, places[[2]int{x, y}], "%s is upon it", p.Title)
				places[[2]int{x, y}] = p.Title
				assert.Less(t, x, 24, p.Title)
			}
		}
		if p.Type == "row" {
			assert.Empty(t, p.Panels)
			continue
		}
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			for _, name := range checkQuery(t, all, p.Title, target.Expr) {
				shown[name] = true
			}
			_, labels := namesOfQuery(target.Expr)
			for _, l := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, labels, l[1], p.Title)
			}
			queries = append(queries, target.Expr)
		}
	}
	for _, def := range allDefinitions(t) {
		name := prometheusName(def)
		assert.True(t, shown[name] || shown[name+"_bucket"], "%s is on no panel", name)
	}
	for _, v := range d.Templating.List {
		if name, label, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(v.Query, "label_values("), ")"), ", "); ok {
			assert.Contains(t, all, name)
			assert.Equal(t, "job", label)
		}
	}
	for _, a := range d.Annotations.List {
		assert.Contains(t, a.Expr, "ALERTS{")
		queries = append(queries, a.Expr)
	}

	type recorded struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "3h", "$job", "service")
	var rules []recorded
	for _, q := range queries {
		rules = append(rules, recorded{"x:y", variables.Replace(q)})
	}
	file := writeYAML(t, map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	out, err := promtool(t, "check", "rules", "--lint=none", file)
	require.NoError(t, err, out)
}

// writeYAML writes content as YAML to a file, and returns the name of the file.
func writeYAML(t *testing.T, content any) string {
	t.Helper()
	text, err := yaml.Marshal(content)
	require.NoError(t, err)
	file := t.TempDir() + "/file.yaml"
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}
