package otelbatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// faultSwitches is a store and a ledger in which failures can be switched on.
type faultSwitches struct {
	*memory.Store
	isDown           atomic.Bool               // whether the database fails
	isReadOnly       atomic.Bool               // whether it takes no more writes
	writesNoOutcomes atomic.Bool               // whether outcomes are not written, as if the process had died
	isWarning        atomic.Bool               // whether the store warns that its log grows
	deadRowsSince    atomic.Pointer[time.Time] // since when dead rows cannot be removed
	ledgerFault      atomic.Uint32
}

// Abilities is without hints: a Runner with hints rests, and reports troubles later.
func (s *faultSwitches) Abilities() store.Abilities { return store.AllAbilities &^ store.CanHint }

var errDown = errors.New("connection refused")

func (s *faultSwitches) fail(write bool) error {
	if s.isDown.Load() || write && s.isReadOnly.Load() {
		return errDown
	}
	return nil
}

func (s *faultSwitches) Add(ctx context.Context, all ...batch.Batch) error {
	if err := s.fail(true); err != nil {
		return err
	}
	return s.Store.Add(ctx, all...)
}

func (s *faultSwitches) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	if err := s.fail(false); err != nil {
		return nil, err
	}
	return s.Store.Lanes(ctx, q)
}

func (s *faultSwitches) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if err := s.fail(true); err != nil {
		return store.Claimed{}, err
	}
	return s.Store.Claim(ctx, q, choose)
}

func (s *faultSwitches) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if err := s.fail(true); err != nil { // Pending writes leases
		return nil, err
	}
	return s.Store.Pending(ctx, q)
}

func (s *faultSwitches) Record(ctx context.Context, all []store.Outcome) ([]store.Applied, error) {
	if s.writesNoOutcomes.Load() {
		return nil, errDown
	}
	if err := s.fail(true); err != nil {
		return nil, err
	}
	return s.Store.Record(ctx, all)
}

func (s *faultSwitches) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	if err := s.fail(true); err != nil {
		return store.Pruned{}, err
	}
	return s.Store.Prune(ctx, q)
}

func (s *faultSwitches) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	if err := s.fail(true); err != nil {
		return false, err
	}
	return s.Store.SwapTexts(ctx, texts...)
}

func (s *faultSwitches) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	if err := s.fail(false); err != nil {
		return nil, time.Time{}, err
	}
	return s.Store.ReadTexts(ctx, kind, names...)
}

// deadRows is how many dead rows a second a busy PostgreSQL makes that cannot be removed while a
// snapshot is held.
const deadRows = 1000

func (s *faultSwitches) CountOpen(ctx context.Context) (store.Totals, error) {
	totals, err := s.Store.CountOpen(ctx)
	if since := s.deadRowsSince.Load(); since != nil {
		totals.Sizes = []store.Size{{Name: "attempted_batches", Dead: int64(deadRows * time.Since(*since).Seconds())}}
	}
	return totals, err
}

func (s *faultSwitches) Upkeep(context.Context) ([]store.Warning, error) {
	if s.isWarning.Load() {
		return []store.Warning{{Name: "log", Err: errors.New("the log is large")}}, nil
	}
	return nil, nil
}

// scrapeEvery is how often Prometheus collects and evaluates its rules in these tests.
const scrapeEvery = 15 * time.Second

// prometheusData has what Prometheus has collected: for each series one value for each time, or
// "_".
type prometheusData struct {
	metrics     map[string]definition
	scrapeCount int
	series      map[string][]string
}

// scrape collects once. Of histograms it takes the number and the sum.
func (s *prometheusData) scrape(t *testing.T, b *meterBook) {
	t.Helper()
	b.forget()
	require.NoError(t, b.collect())
	b.mu.Lock()
	defer b.mu.Unlock()
	add := func(series string, v float64) {
		all := s.series[series]
		for len(all) < s.scrapeCount {
			all = append(all, "_")
		}
		s.series[series] = append(all, strconv.FormatFloat(v, 'f', -1, 64))
	}
	for name, v := range b.values {
		base, of, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		labels := []string{`job="service"`, `instance="a"`}
		for pair := range strings.SplitSeq(of, ",") {
			if key, value, ok := strings.Cut(pair, "="); ok {
				labels = append(labels, strings.ReplaceAll(key, ".", "_")+`="`+value+`"`)
			}
		}
		d, known := s.metrics[base]
		require.True(t, known, name)
		series := func(suffix string) string { return prometheusName(d) + suffix + "{" + strings.Join(labels, ",") + "}" }
		if d.kind == "histogram" {
			add(series("_count"), float64(b.counts[name]))
			add(series("_sum"), v)
		} else {
			add(series(""), v)
		}
	}
	s.scrapeCount++
}

// group returns the scrapes in promtool's form, without the metrics that no rule uses.
func (s *prometheusData) group(name string, used map[string]bool, tests ...promTest) promGroup {
	g := promGroup{Name: name, Interval: scrapeEvery.String(), Tests: tests}
	for _, series := range slices.Sorted(maps.Keys(s.series)) {
		if metric, _, _ := strings.Cut(series, "{"); used[metric] {
			g.Input = append(g.Input, promSeries{series, strings.Join(s.series[series], " ")})
		}
	}
	return g
}

// definitionsByName returns the definitions of all metrics.
func definitionsByName(t *testing.T) map[string]definition {
	t.Helper()
	all := map[string]definition{}
	for _, d := range allDefinitions(t) {
		all[d.name] = d
	}
	return all
}

// quietScrapes is the number of scrapes of a healthy service before each trouble.
const quietScrapes = 20

// troubleCase is a trouble that the test causes.
type troubleCase struct {
	scope         dlt.PressureScope
	policy        batch.Policy
	ledgerTime    time.Duration // the time that the ledger takes for a batch
	laneBatches   int           // the number of batches that are added to one lane
	switchOn      func(s *faultSwitches)
	killsInstance bool // whether an instance is killed with the batches it has posted, and another one starts
	stopsInstance bool // whether the only instance stops
	metric        string
	minValue      float64       // the metric shows the trouble from this value on; if it is negative, at 0
	maxTime       time.Duration // the longest time until the metric shows it
	alert         string        // the alert that fires first
	alertAfter    time.Duration // the time until the alert fires
}

var troubleCases = map[string]troubleCase{
	"the database is gone": {
		switchOn: func(s *faultSwitches) { s.isDown.Store(true) },
		metric:   "dltbatch.failing.duration{dltbatch.part=store}", minValue: 30, maxTime: 32 * time.Second,
		alert: "DltbatchDatabaseGone", alertAfter: time.Minute,
	},
	"the disk is full": {
		switchOn: func(s *faultSwitches) { s.isReadOnly.Store(true) },
		metric:   "dltbatch.failing.duration{dltbatch.part=store}", minValue: 30, maxTime: 48 * time.Second,
		alert: "DltbatchDatabaseGone", alertAfter: 90 * time.Second,
	},
	"the ledger is gone": {
		switchOn: func(s *faultSwitches) { s.ledgerFault.Store(uint32(ledgermem.Unavailable)) },
		metric:   "dltbatch.ledger.closed.duration", minValue: 300, maxTime: 302 * time.Second,
		alert: "DltbatchLedgerClosed", alertAfter: 5*time.Minute + 30*time.Second,
	},
	"the ledger answers 429 for ever": {
		switchOn: func(s *faultSwitches) { s.ledgerFault.Store(uint32(ledgermem.Busy)) },
		metric:   "dltbatch.ledger.closed.duration", minValue: 300, maxTime: 305 * time.Second,
		alert: "DltbatchLedgerClosed", alertAfter: 5*time.Minute + 30*time.Second,
	},
	"the ledger refuses this client": {
		switchOn: func(s *faultSwitches) { s.ledgerFault.Store(uint32(ledgermem.Misconfigured)) },
		metric:   "dltbatch.ledger.closed.duration", minValue: 300, maxTime: 302 * time.Second,
		alert: "DltbatchLedgerClosed", alertAfter: 5*time.Minute + 30*time.Second,
	},
	"a service is busy for ever": {
		scope: dlt.ScopeService, switchOn: func(s *faultSwitches) { s.ledgerFault.Store(uint32(ledgermem.Busy)) },
		metric: "dltbatch.services.closed{dltbatch.reason=paused}", minValue: 0, maxTime: 5 * time.Second,
		alert: "DltbatchServiceClosed", alertAfter: 5*time.Minute + 30*time.Second,
	},
	"a doubt without evidence": {
		switchOn: func(s *faultSwitches) { s.ledgerFault.Store(uint32(ledgermem.LostRequest)) },
		metric:   "dltbatch.decisions", minValue: 0, maxTime: 5 * time.Second,
		alert: "DltbatchNeedsDecision", alertAfter: 30 * time.Second,
	},
	"a halted lane": {
		policy: batch.PolicyHalt, switchOn: func(s *faultSwitches) { s.ledgerFault.Store(uint32(ledgermem.Rejected)) },
		metric: "dltbatch.lanes.halted", minValue: 0, maxTime: 2 * time.Second,
		alert: "DltbatchLaneHalted", alertAfter: 30 * time.Second,
	},
	"an instance is killed": {
		switchOn: func(s *faultSwitches) { s.writesNoOutcomes.Store(true) }, killsInstance: true,
		metric: "dltbatch.takeovers", minValue: 0, maxTime: 70 * time.Second,
		alert: "DltbatchClaimsExpire", alertAfter: 90 * time.Second,
	},
	"nobody runs": {
		stopsInstance: true,
		metric:        "dltbatch.runners", minValue: -1, maxTime: 5 * time.Second,
		alert: "DltbatchNobodyRuns", alertAfter: 90 * time.Second,
	},
	"a snapshot is held on PostgreSQL, 1,000 dead rows a second": {
		switchOn: func(s *faultSwitches) { now := time.Now(); s.deadRowsSince.Store(&now) },
		metric:   "dltbatch.table.dead{dltbatch.table=attempted_batches}", minValue: 100_000, maxTime: 2 * time.Minute,
		alert: "DltbatchDeadRows", alertAfter: 38 * time.Minute,
	},
	"a reader holds SQLite's log": {
		switchOn: func(s *faultSwitches) { s.isWarning.Store(true) },
		metric:   "dltbatch.warnings", minValue: 0, maxTime: 2 * time.Second,
		alert: "DltbatchStoreWarns", alertAfter: 10*time.Minute + 30*time.Second,
	},
	"a lane of 100,000": {
		ledgerTime: 10 * time.Second, laneBatches: 100_000,
		metric: "dltbatch.open.batches{dltbatch.state=queued}", minValue: 50_000, maxTime: 20 * time.Second,
		alert: "DltbatchBacklog", alertAfter: 5*time.Minute + 30*time.Second,
	},
	"clocks differ by a minute": {
		switchOn: func(s *faultSwitches) { s.StepClock(time.Minute) },
		metric:   "dltbatch.clock.difference", minValue: 59, maxTime: time.Second,
		alert: "DltbatchClocksDiffer", alertAfter: 5*time.Minute + 30*time.Second,
	},
}

// Each trouble that the test can cause shows in its metric soon. One of the alerts fires first,
// after the time in docs/operations.md#how-soon-an-alert-fires.
func TestTroublesShow(t *testing.T) {
	tier.Plain(t)
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	metrics, used := definitionsByName(t), map[string]bool{}
	for _, r := range alertRules(t) {
		of, _ := namesOfQuery(r.Expr)
		for _, metric := range of {
			used[metric] = true
		}
	}
	var tests []promGroup
	for name, c := range troubleCases {
		s := prometheusData{metrics: metrics, series: map[string][]string{}}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.causeAndCheck(t, &s) })
		})
		at := func(times int) string { return (time.Duration(times) * scrapeEvery).String() }
		tests = append(tests, s.group(name, used, firedTest(at(quietScrapes-1)), firedTest(at(quietScrapes+int(c.alertAfter/scrapeEvery)), c.alert)))
		base, _, _ := strings.Cut(c.metric, "{")
		metric := prometheusName(metrics[base])
		if metrics[base].kind == "histogram" {
			metric += "_count"
		}
		assert.Contains(t, string(page), fmt.Sprintf("\n| %s | `%s` | `%s` | %s |\n", name, metric, c.alert, shortText(c.alertAfter)))
	}
	testRules(t, scrapeEvery.String(), tests)
}

// shortText returns a duration in minutes and seconds.
func shortText(d time.Duration) string {
	text := fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	return strings.TrimPrefix(strings.TrimSuffix(text, " 0 s"), "0 min ")
}

// causeAndCheck causes the trouble, and collects as Prometheus does.
func (c troubleCase) causeAndCheck(t *testing.T, got *prometheusData) {
	s := &faultSwitches{Store: memory.New()}
	traits := ledgermem.Unforgiving(time.Second)
	traits.PressureScope, traits.Resolves = c.scope, false
	ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: c.ledgerTime, Fault: func(batch.Attempt) ledgermem.Fault {
		return ledgermem.Fault{Kind: ledgermem.FaultKind(s.ledgerFault.Load())}
	}})
	b := newMeterBook()
	m, err := NewMetrics(b)
	require.NoError(t, err)
	var ended []chan error
	start := func(st store.Store) (*dltbatch.Runner, context.CancelFunc) {
		r, err := m.NewRunner(st, ledger, &dltbatch.Options{Policy: c.policy, Drain: 15 * time.Second})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		end := make(chan error, 1)
		ended = append(ended, end)
		go func() { end <- r.Run(ctx) }()
		synctest.Wait()
		return r, stop
	}
	r, stop := start(s)
	add := func(batches ...batch.Batch) {
		t.Helper()
		if err := r.Add(t.Context(), batches...); err != nil {
			require.ErrorIs(t, err, errDown)
		}
	}
	shows := func() bool {
		require.NoError(t, b.collect())
		if c.minValue < 0 {
			return b.valueOf("%s", c.metric) == 0
		}
		return b.valueOf("%s", c.metric) > c.minValue || b.countOf("%s", c.metric) > 0 && strings.Contains(c.metric, "error.type")
	}
	add(newBatch("lane", "before"))
	for range quietScrapes {
		got.scrape(t, b)
		require.False(t, shows(), "nothing is wrong")
		time.Sleep(scrapeEvery)
	}
	since := time.Now()
	if c.switchOn != nil {
		c.switchOn(s)
	}
	if !c.stopsInstance {
		add(newBatch("lane", "after"))
	}
	for i := 0; i < c.laneBatches; i += 1000 {
		var batches []batch.Batch
		for k := range 1000 {
			batches = append(batches, newBatch("lane", batch.ID(fmt.Sprint(i+k))))
		}
		add(batches...)
	}
	if c.killsInstance {
		time.Sleep(time.Second)
	}
	if c.killsInstance || c.stopsInstance {
		stop()
	}
	if c.killsInstance {
		_, stop = start(s.Store)
	}
	shown := time.Duration(-1)
	for got.scrapeCount <= quietScrapes+int(c.alertAfter/scrapeEvery) {
		got.scrape(t, b)
		for next := time.Now().Add(scrapeEvery); time.Now().Before(next); time.Sleep(time.Second) {
			if shown < 0 && shows() {
				shown = time.Since(since)
			}
		}
	}
	t.Logf("%s shows it after %s", c.metric, shown)
	assert.LessOrEqual(t, shown, c.maxTime)
	assert.GreaterOrEqual(t, shown, time.Duration(0), "it never shows")
	s.isDown.Store(false)
	s.isReadOnly.Store(false)
	stop()
	for _, end := range ended {
		<-end
	}
}
