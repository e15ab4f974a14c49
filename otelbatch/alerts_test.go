package otelbatch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/tier"
)

const alertsFile = "alerts.yaml"

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alertRules(t *testing.T) (all []alertRule) {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string      `yaml:"name"`
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	require.NoError(t, dec.Decode(&file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// headingLinks returns the headings of a page in the form that links use.
func headingLinks(page string) (all []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		plain := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// Each alert names metrics that exist, says what to do and has a link. docs/operations.md has the
// same alerts, with the same texts and how urgent each is, and no others.
func TestAlerts(t *testing.T) {
	all, seen := exportedNames(t), map[string]bool{}
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	page := string(text)
	slugs := headingLinks(page)
	for _, r := range alertRules(t) {
		assert.Regexp(t, `^Dltbatch[A-Z]\w+$`, r.Alert)
		assert.False(t, seen[r.Alert], r.Alert)
		seen[r.Alert] = true
		for _, name := range checkQuery(t, all, r.Alert, r.Expr) {
			assert.NotEmpty(t, name)
		}
		assert.Len(t, r.Labels, 1, r.Alert)
		assert.Len(t, r.Annotations, 3, r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		assert.Regexp(t, `\.$`, r.Annotations["action"], r.Alert)
		slug, ours := strings.CutPrefix(r.Annotations["runbook"], "docs/operations.md#")
		assert.True(t, ours, r.Alert)
		assert.Contains(t, slugs, slug, r.Alert)
		do := regexp.QuoteMeta(r.Annotations["action"])
		row := regexp.MustCompile("(?m)^\\|.*\\| `" + r.Alert + "` \\| " + do + " \\|.*\\| (page|page at once|ticket) \\|$").FindStringSubmatch(page)
		if assert.NotNil(t, row, "docs/operations.md has no row of %s that does what its action says", r.Alert) {
			urgent, _, _ := strings.Cut(row[1], " ")
			assert.Equal(t, r.Labels["severity"], urgent, r.Alert)
			assert.False(t, strings.HasSuffix(row[1], "at once") && r.For != "", "%s waits", r.Alert)
		}
	}
	for _, name := range regexp.MustCompile("`(Dltbatch\\w+)`").FindAllStringSubmatch(page, -1) {
		assert.True(t, seen[name[1]], "%s is no alert", name[1])
	}
	out, err := promtool(t, "check", "rules", alertsFile)
	require.NoError(t, err, out)
}

// promTests and the types below are the files that promtool reads.
type (
	promTests struct {
		RuleFiles          []string    `yaml:"rule_files"`
		EvaluationInterval string      `yaml:"evaluation_interval"`
		Tests              []promGroup `yaml:"tests"`
	}
	promGroup struct {
		Name     string       `yaml:"name"`
		Interval string       `yaml:"interval"`
		Input    []promSeries `yaml:"input_series"`
		Tests    []promTest   `yaml:"promql_expr_test"`
	}
	promSeries struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	promTest struct {
		Expr    string       `yaml:"expr"`
		At      string       `yaml:"eval_time"`
		Samples []promSample `yaml:"exp_samples"`
	}
	promSample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
)

// promtool runs promtool with these arguments and returns its output.
func promtool(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	tier.Server(t)
	tier.Plain(t)
	bin, err := binaries.Promtool().Bring()
	require.NoError(t, err)
	text, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
	return string(text), err
}

// testRules makes promtool evaluate the rules over series.
func testRules(t *testing.T, interval string, tests []promGroup) {
	t.Helper()
	file, err := filepath.Abs(alertsFile)
	require.NoError(t, err)
	out, err := promtool(t, "test", "rules", writeYAML(t, promTests{[]string{file}, interval, tests}))
	require.NoError(t, err, out)
}

// firedTest returns a test that exactly these alerts have fired by a time.
func firedTest(at string, names ...string) promTest {
	test := promTest{Expr: `group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[7d]))`, At: at}
	for _, name := range names {
		test.Samples = append(test.Samples, promSample{`{alertname="` + name + `"}`, 1})
	}
	return test
}

// alertCase has series with one value a minute, and whether an alert then fires.
type alertCase struct {
	alert    string
	isFiring bool
	evalTime string
	series   []string // each series is followed by its values
}

const (
	breachSeries      = `dltbatch_order_breaches_total`
	vanishedSeries    = `dltbatch_vanished_total`
	claimCalls        = `dltbatch_store_operation_duration_seconds_count{dltbatch_operation="claim",error_type="_OTHER"}`
	refusedClaims     = `dltbatch_store_operation_duration_seconds_count{dltbatch_operation="claim",error_type="invalid_input"}`
	waits60           = `dltbatch_batch_wait_duration_seconds_bucket{le="60"}`
	waits300          = `dltbatch_batch_wait_duration_seconds_bucket{le="300"}`
	waitSeries        = `dltbatch_batch_wait_duration_seconds_bucket{le="+Inf"}`
	doubtSeries       = `dltbatch_attempts_total{dltbatch_result="doubt"}`
	acceptedSeries    = `dltbatch_attempts_total{dltbatch_result="accepted"}`
	takeoverSeries    = `dltbatch_takeovers_total`
	retentionTroubles = `dltbatch_troubles_total{dltbatch_part="retention"}`
	deadRowsSeries    = `dltbatch_table_dead{dltbatch_table="attempted_batches"}`
	lostEventsSeries  = `dltbatch_observer_lost_total{dltbatch_observer="0"}`
)

// alertSeries has, for each alert, series over which it fires, and series nearly as bad over which
// it does not.
var alertSeries = []alertCase{
	{"DltbatchOrderBreach", true, "141m", []string{breachSeries, "0+0x140 1+0x20"}},
	{"DltbatchOrderBreach", true, "150m", []string{breachSeries, "_x149 1+0x20"}}, // the process has just begun
	{"DltbatchOrderBreach", false, "150m", []string{breachSeries, "3+0x160"}},
	{"DltbatchVanished", true, "141m", []string{vanishedSeries, "0+0x140 1+0x20"}},
	{"DltbatchVanished", true, "150m", []string{vanishedSeries, "_x149 1+0x20"}},
	{"DltbatchVanished", false, "150m", []string{vanishedSeries, "3+0x160"}},
	{"DltbatchDatabaseGone", true, "5m", []string{`dltbatch_failing_duration_seconds{dltbatch_part="store"}`, "0+0x4 60+60x5"}},
	{"DltbatchDatabaseGone", false, "9m", []string{`dltbatch_failing_duration_seconds{dltbatch_part="store"}`, "30+0x10"}},
	{"DltbatchDatabaseGone", false, "9m", []string{`dltbatch_failing_duration_seconds{dltbatch_part="streams"}`, "999+0x10"}},
	{"DltbatchWritesFail", true, "6m", []string{claimCalls, "0+4x10"}},
	{"DltbatchWritesFail", false, "8m", []string{claimCalls, "0+0x4 1+0x10"}},
	{"DltbatchWritesFail", false, "9m", []string{refusedClaims, "0+4x10"}},
	{"DltbatchNobodyRuns", true, "2m", []string{`up`, "1+0x5"}},
	{"DltbatchNobodyRuns", true, "3m", []string{`dltbatch_runners`, "0+0x5"}},
	{"DltbatchNobodyRuns", false, "5m", []string{`dltbatch_runners`, "1 1 0 1 1 1"}},
	{"DltbatchLoopStands", true, "6m", []string{`dltbatch_loop_success_age_seconds{dltbatch_loop="monitor"}`, "0+60x10"}},
	{"DltbatchLoopStands", false, "5m", []string{`dltbatch_loop_success_age_seconds{dltbatch_loop="queuer"}`, "0+60x10"}},
	{"DltbatchLoopStands", false, "9m", []string{`dltbatch_loop_success_age_seconds{dltbatch_loop="recorder"}`, "0+60x10"}},
	{"DltbatchLedgerClosed", true, "6m", []string{`dltbatch_ledger_closed_duration_seconds`, "0+60x10"}},
	{"DltbatchLedgerClosed", false, "5m", []string{`dltbatch_ledger_closed_duration_seconds`, "0+60x10"}},
	{"DltbatchServiceClosed", true, "7m", []string{`dltbatch_services_closed{dltbatch_reason="paused"}`, "0 2+0x10"}},
	{"DltbatchServiceClosed", false, "9m", []string{`dltbatch_services_closed{dltbatch_reason="paused"}`, "0 2+0x3 0+0x5"}},
	{"DltbatchServiceClosed", false, "9m", []string{`dltbatch_services_closed{dltbatch_reason="halted"}`, "2+0x10"}},
	{"DltbatchOldestBatch", true, "61m", []string{`dltbatch_open_oldest_age_seconds`, "0+60x70"}},
	{"DltbatchOldestBatch", false, "60m", []string{`dltbatch_open_oldest_age_seconds`, "0+60x70"}},
	{"DltbatchOldestOrder", true, "61m", []string{`dltbatch_open_oldest_order_age_seconds`, "0+60x70"}},
	{"DltbatchOldestOrder", false, "60m", []string{`dltbatch_open_oldest_order_age_seconds`, "0+60x70"}},
	{"DltbatchBacklog", true, "9m", []string{`dltbatch_open_batches{dltbatch_state="queued"}`, "0+20000x10"}},
	{"DltbatchBacklog", false, "9m", []string{`dltbatch_open_batches{dltbatch_state="queued"}`, "50000+0x10"}},
	{"DltbatchBacklog", false, "9m", []string{`dltbatch_open_batches{dltbatch_state="pending"}`, "90000+0x10"}},
	{"DltbatchSlow", true, "25m", []string{waits60, "0+0x40", waits300, "0+100x40", waitSeries, "0+100x40"}},
	{"DltbatchSlow", false, "25m", []string{waits60, "0+100x40", waits300, "0+100x40", waitSeries, "0+100x40"}},
	{"DltbatchNeedsDecision", true, "1m", []string{`dltbatch_open_decisions`, "0 1+0x5"}},
	{"DltbatchNeedsDecision", true, "4m", []string{`dltbatch_decisions_total`, "0+0x3 1+0x5"}},
	{"DltbatchNeedsDecision", false, "20m", []string{`dltbatch_decisions_total`, "3+0x30", `dltbatch_open_decisions`, "0+0x30"}},
	{"DltbatchOldDoubt", true, "61m", []string{`dltbatch_open_oldest_doubt_age_seconds`, "0+60x70"}},
	{"DltbatchOldDoubt", false, "60m", []string{`dltbatch_open_oldest_doubt_age_seconds`, "0+60x70"}},
	{"DltbatchManyDoubts", true, "25m", []string{doubtSeries, "0+1x40", acceptedSeries, "0+10x40"}},
	{"DltbatchManyDoubts", false, "25m", []string{doubtSeries, "0+1x40", acceptedSeries, "0+100x40"}},
	{"DltbatchManyDoubts", false, "19m", []string{doubtSeries, "0+0x9 1+0x40", acceptedSeries, "0+0x50"}},
	{"DltbatchLaneHalted", true, "1m", []string{`dltbatch_lanes_stopped{dltbatch_reason="halted"}`, "0 1+0x5"}},
	{"DltbatchLaneHalted", true, "4m", []string{`dltbatch_lanes_halted_total`, "0+0x3 1+0x5"}},
	{"DltbatchLaneHalted", false, "20m", []string{`dltbatch_lanes_halted_total`, "1+0x30", `dltbatch_lanes_stopped{dltbatch_reason="paused"}`, "1+0x30"}},
	{"DltbatchLaneHeld", true, "1m", []string{`dltbatch_services_closed{dltbatch_reason="held"}`, "0 1+0x5"}},
	{"DltbatchLaneHeld", true, "4m", []string{`dltbatch_lanes_held_total`, "0+0x3 1+0x5"}},
	{"DltbatchLaneHeld", false, "20m", []string{`dltbatch_lanes_held_total`, "1+0x30", `dltbatch_services_closed{dltbatch_reason="held"}`, "0+0x30"}},
	{"DltbatchQuarantine", true, "1m", []string{`dltbatch_quarantine`, "0 1+0x5"}},
	{"DltbatchQuarantine", false, "5m", []string{`dltbatch_quarantine`, "0+0x5"}},
	{"DltbatchOrdersRefused", true, "1m", []string{`dltbatch_orders_refused`, "0 1+0x5"}},
	{"DltbatchOrdersRefused", false, "5m", []string{`dltbatch_orders_refused`, "0+0x5"}},
	{"DltbatchForgottenPause", true, "1470m", []string{`dltbatch_paused`, "1+0x1500"}},
	{"DltbatchForgottenPause", true, "1470m", []string{`dltbatch_lanes_stopped{dltbatch_reason="paused"}`, "1+0x1500"}},
	{"DltbatchForgottenPause", false, "1470m", []string{`dltbatch_paused`, "1+0x1400 0+0x20 1+0x100"}},
	{"DltbatchClaimsExpire", true, "4m", []string{takeoverSeries, "0+0x3 2+0x5"}},
	{"DltbatchClaimsExpire", false, "20m", []string{takeoverSeries, "2+0x30"}},
	{"DltbatchClaimsKeepExpiring", true, "45m", []string{takeoverSeries, "0+1x60"}},
	{"DltbatchClaimsKeepExpiring", false, "45m", []string{takeoverSeries, "0+0x3 2+0x60"}},
	{"DltbatchSharedName", true, "1m", []string{`dltbatch_instances_shared`, "0 2+0x5"}},
	{"DltbatchSharedName", false, "5m", []string{`dltbatch_instances_shared`, "0+0x5"}},
	{"DltbatchClocksDiffer", true, "6m", []string{`dltbatch_clock_difference_seconds`, "60+0x10"}},
	{"DltbatchClocksDiffer", false, "9m", []string{`dltbatch_clock_difference_seconds`, "60+0x3 0+0x10"}},
	{"DltbatchClocksDiffer", false, "9m", []string{`dltbatch_clock_difference_seconds`, "5+0x10"}},
	{"DltbatchNobodyCounts", true, "11m", []string{`dltbatch_stats_age_seconds`, "0+60x20"}},
	{"DltbatchNobodyCounts", false, "10m", []string{`dltbatch_stats_age_seconds`, "0+60x20"}},
	{"DltbatchPartFails", true, "75m", []string{retentionTroubles, "0+1x100"}},
	{"DltbatchPartFails", false, "75m", []string{retentionTroubles, "0+0x5 1+0x100"}},
	{"DltbatchPartFails", false, "75m", []string{`dltbatch_troubles_total{dltbatch_part="store"}`, "0+1x100"}},
	{"DltbatchObserverSlow", true, "4m", []string{lostEventsSeries, "0+0x3 9+0x5"}},
	{"DltbatchObserverSlow", true, "4m", []string{lostEventsSeries, "_x3 9+0x5"}},
	{"DltbatchObserverSlow", false, "20m", []string{lostEventsSeries, "9+0x30"}},
	{"DltbatchRetentionBehind", true, "61m", []string{`dltbatch_loop_success_age_seconds{dltbatch_loop="retention"}`, "0+60x70"}},
	{"DltbatchRetentionBehind", false, "60m", []string{`dltbatch_loop_success_age_seconds{dltbatch_loop="retention"}`, "0+60x70"}},
	{"DltbatchRetentionBehind", false, "70m", []string{`dltbatch_loop_success_age_seconds{dltbatch_loop="keeper"}`, "0+60x70"}},
	{"DltbatchStoreWarns", true, "11m", []string{`dltbatch_warnings`, "0 1+0x20"}},
	{"DltbatchStoreWarns", false, "12m", []string{`dltbatch_warnings`, "0 1+0x5 0+0x9"}},
	{"DltbatchDeadRows", true, "45m", []string{deadRowsSeries, "0+20000x80"}},
	{"DltbatchDeadRows", false, "45m", []string{deadRowsSeries, "900000+0x80"}},                      // many dead rows, and no new ones
	{"DltbatchDeadRows", false, "45m", []string{deadRowsSeries, "0+20000x19 0+20000x19 0+20000x19"}}, // the dead rows are removed again and again
}

// Each alert fires over its series. Where alertSeries says that an alert does not fire, none does.
func TestAlertsFire(t *testing.T) {
	tier.Plain(t)
	steps := map[string][]promGroup{} // by the interval of evaluation: a day in minutes takes long
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, m := range alertSeries {
		g := promGroup{Name: m.alert, Interval: "1m"}
		for i := 0; i < len(m.series); i += 2 {
			g.Input = append(g.Input, promSeries{withLabels(m.series[i], `job="service",instance="a"`), m.series[i+1]})
		}
		if m.alert != "DltbatchNobodyRuns" {
			g.Input = append(g.Input, promSeries{`dltbatch_runners{job="service",instance="a"}`, "1+0x160"})
		}
		step := "1m"
		if m.alert == "DltbatchForgottenPause" {
			g.Input[len(g.Input)-1].Values, step = "1+0x1500", "30m"
		}
		if m.isFiring {
			fires[m.alert] = true
			g.Tests = []promTest{{`group(ALERTS{alertname="` + m.alert + `",alertstate="firing"})`, m.evalTime, []promSample{{"{}", 1}}}}
		} else {
			quiet[m.alert] = true
			g.Tests = []promTest{{Expr: `ALERTS{alertstate="firing"}`, At: m.evalTime}}
		}
		steps[step] = append(steps[step], g)
	}
	for step, tests := range steps {
		testRules(t, step, tests)
	}
	for _, r := range alertRules(t) {
		assert.True(t, fires[r.Alert], "%s fires over nothing", r.Alert)
		assert.True(t, quiet[r.Alert], "%s is never quiet", r.Alert)
	}
}

// withLabels returns a series with more labels.
func withLabels(series, labels string) string {
	if name, of, ok := strings.Cut(series, "{"); ok {
		return name + "{" + labels + "," + of
	}
	return series + "{" + labels + "}"
}
