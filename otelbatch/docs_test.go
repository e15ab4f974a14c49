package otelbatch

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const metricsPage = "../docs/metrics.md"

var writePage = flag.Bool("metrics.write", false, "write "+metricsPage+" anew")

// prometheusName returns the name that OpenTelemetry's exporter gives a metric in Prometheus.
func prometheusName(d definition) string {
	name := strings.ReplaceAll(d.name, ".", "_")
	switch d.unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if d.kind == "counter" {
		name += "_total"
	}
	return name
}

// pageText returns the text of docs/metrics.md.
func pageText(defs []definition) string {
	var b strings.Builder
	b.WriteString(`# Metrics

Package ` + "`otelbatch`" + ` measures a Runner with OpenTelemetry: its documentation says how to switch it on and
what is exact. [operations.md](operations.md#alerts) has the alerts and a dashboard. The package's test writes this page
anew: ` + "`go test ./otelbatch -run TestPage -metrics.write`" + `.

The first name is OpenTelemetry's, the second Prometheus's, where a histogram has ` + "`_bucket`, `_count` and `_sum`" + `.
Units are seconds where the name says so, and numbers otherwise. Counters of this process begin at 0.
`)
	for _, kind := range []struct{ kind, title, text string }{
		{"counter", "Counters", "They count since the process began."},
		{"histogram", "Histograms", "Those of a batch are in the time of the database, and right across processes; those of requests and calls in the time of the process."},
		{"gauge", "Gauges", "They show the process as it is. Several Runners of a process are added up; of times the longest counts."},
		{"stored", "Gauges of the database", "One process of the cluster counts for all, and whoever collects reads its counts ([counting](design.md#counting-what-is-open)). So every process shows the same: take the maximum over processes, not the sum. They are missing until somebody has counted, where the store keeps no counts, and while the database cannot be read. A process whose Runners have several databases adds these up."},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | labels | meaning |\n|---|---|---|\n", kind.title, kind.text)
		for _, d := range defs {
			if d.kind == kind.kind {
				fmt.Fprintf(&b, "| `%s`<br>`%s` | %s | %s |\n", d.name, prometheusName(d), strings.Join(labelsOf(d), "<br>"), d.text)
			}
		}
	}
	b.WriteString("\n## Labels\n\nEach label has these values, and `_OTHER` for all others. Without `error.type` nothing failed.\n\n| label | of | values |\n|---|---|---|\n")
	type list struct{ key, values string }
	var lists []list
	of := map[list][]string{}
	for _, d := range defs {
		for _, l := range d.labels {
			at := list{l.key, strings.Join(slices.DeleteFunc(slices.Clone(l.values), func(v string) bool { return v == "" }), ", ")}
			if of[at] == nil {
				lists = append(lists, at)
			}
			of[at] = append(of[at], "`"+d.name+"`")
		}
	}
	for _, l := range lists {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", l.key, strings.Join(of[l], "<br>"), l.values)
	}
	return b.String()
}

func labelsOf(d definition) (all []string) {
	for _, l := range d.labels {
		all = append(all, "`"+l.key+"`")
	}
	return all
}

// docs/metrics.md is exactly the text that the code generates.
func TestPage(t *testing.T) {
	want := pageText(allDefinitions(t))
	if *writePage {
		require.NoError(t, os.WriteFile(metricsPage, []byte(want), 0o600))
	}
	have, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	assert.Equal(t, want, string(have), "to write it anew: go test ./otelbatch -run TestPage -metrics.write")
}

// Every metric, label and value that another page names exists.
func TestOtherPagesNameMetricsThatExist(t *testing.T) {
	names, labels := map[string]bool{}, map[string][]string{}
	for _, d := range allDefinitions(t) {
		names[prometheusName(d)] = true
		if d.kind == "histogram" {
			names[prometheusName(d)+"_count"], names[prometheusName(d)+"_sum"], names[prometheusName(d)+"_bucket"] = true, true, true
		}
		for _, l := range d.labels {
			key := strings.ReplaceAll(l.key, ".", "_")
			labels[key] = append(append(labels[key], l.values...), otherValue)
		}
	}
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	found := regexp.MustCompile(`\b(?:dltbatch|messaging)_[a-z_]+\b`).FindAllString(string(text), -1)
	require.NotEmpty(t, found)
	names["dltbatch_schema"], names["dltbatch_migrations"] = true, true // names of tables
	for _, name := range found {
		if _, label := labels[name]; !label {
			assert.True(t, names[name], "%s is no metric", name)
		}
	}
	for _, pair := range regexp.MustCompile(`([a-z_]+)=~?"([A-Za-z_|]+)"`).FindAllStringSubmatch(strings.ReplaceAll(string(text), `\|`, "|"), -1) {
		for value := range strings.SplitSeq(pair[2], "|") {
			assert.Contains(t, labels[pair[1]], value, "%s has no value %s", pair[1], value)
		}
	}
}

// The name of each metric is unique and begins with what it is about, and each metric has a text.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range allDefinitions(t) {
		assert.False(t, seen[d.name], d.name)
		seen[d.name] = true
		assert.True(t, strings.HasPrefix(d.name, "dltbatch.") || d.name == "messaging.client.operation.duration", d.name)
		assert.Regexp(t, `^[a-z_.]+$`, d.name)
		assert.Regexp(t, `^[A-Z].*\.$`, d.text)
		assert.NotContains(t, d.text, "|")
		assert.LessOrEqual(t, len(d.labels), 2)
	}
}
