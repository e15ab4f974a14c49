package otelbatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

func newBatch(s batch.ServiceID, id batch.ID) batch.Batch {
	return batch.Batch{ID: id, Service: s, Payload: []byte(id)}
}

// countedRunner counts events and calls, as an application might.
type countedRunner struct {
	mu     sync.Mutex
	events map[batch.EventKind]int
	calls  map[string]int
}

func (c *countedRunner) Observe(_ context.Context, e batch.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[e.Kind]++
}

func (c *countedRunner) ObserveCall(_ context.Context, call batch.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call.Op]++
}

func newCounted() *countedRunner {
	return &countedRunner{events: map[batch.EventKind]int{}, calls: map[string]int{}}
}

// deliverBatches adds batches in lanes, lets Runners deliver them, and returns when all are final.
func deliverBatches(t *testing.T, lanes, each int, runners ...*dltbatch.Runner) (keys []batch.Key) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, r := range runners {
		wg.Go(func() { assert.NoError(t, r.Run(ctx)) })
	}
	for i := range lanes {
		for j := range each {
			b := newBatch(batch.ServiceID(fmt.Sprintf("lane-%d", i)), batch.ID(fmt.Sprintf("id-%d-%d", i, j)))
			require.NoError(t, runners[i%len(runners)].Add(t.Context(), b))
			keys = append(keys, b.Key())
		}
	}
	for _, r := range runners {
		require.NoError(t, r.Idle(t.Context()))
	}
	time.Sleep(time.Minute)
	stop()
	wg.Wait()
	return keys
}

// The counters of two instances agree exactly with the store and with the ledger, whatever fails.
// No label names a batch or a lane.
func TestCountersAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes, each = 40, 15
		var mu sync.Mutex
		random, kinds := rand.New(rand.NewPCG(1, 2)), map[ledgermem.FaultKind]int{}
		posts, resends, known := 0, 0, map[batch.ID]bool{}
		traits := ledgermem.Unforgiving(time.Second)
		traits.ResendHarmlessFor = dlt.Forever
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, IgnoreDuplicates: true, CommitAfter: time.Second, Latency: 10 * time.Millisecond, Fault: func(a batch.Attempt) ledgermem.Fault {
			mu.Lock()
			defer mu.Unlock()
			posts++
			var f ledgermem.Fault
			switch random.IntN(10) {
			case 0:
				f.Kind = ledgermem.Busy
			case 1:
				f.Kind = ledgermem.LostRequest
			case 2:
				f.Kind = ledgermem.LostReply
			case 3:
				f.Kind = ledgermem.Rejected
			}
			kinds[f.Kind]++
			if known[a.ID] {
				resends++
			}
			known[a.ID] = known[a.ID] || f.Kind == ledgermem.LostRequest || f.Kind == ledgermem.LostReply
			return f
		}})
		st, b, seen := memory.New(), newMeterBook(), newCounted()
		m, err := NewMetrics(b)
		require.NoError(t, err)
		var runners []*dltbatch.Runner
		for i := range 2 {
			r, err := m.NewRunner(st, ledger, &dltbatch.Options{
				Instance: fmt.Sprint("i", i), Retry: dltbatch.RetryPolicy{QuickRetries: -1}, Observer: seen, Calls: seen,
			})
			require.NoError(t, err)
			runners = append(runners, r)
		}
		keys := deliverBatches(t, lanes, each, runners...)
		states := map[batch.State]int{}
		for _, k := range keys {
			rec, err := st.Get(t.Context(), k)
			require.NoError(t, err)
			states[rec.State]++
		}
		require.NoError(t, b.collect())
		require.Positive(t, states[batch.Rejected])
		require.Positive(t, states[batch.Committed])
		assert.InDelta(t, lanes*each, b.valueOf("dltbatch.batches.added{dltbatch.operation=add}"), 0)
		for _, s := range []batch.State{batch.Committed, batch.Rejected, batch.Invalid} {
			assert.InDelta(t, states[s], b.valueOf("dltbatch.batches.final{dltbatch.state=%s}", s), 0, s.String())
			assert.Equal(t, states[s], b.countOf("dltbatch.batch.duration{dltbatch.state=%s}", s), s.String())
		}
		assert.InDelta(t, kinds[0], b.valueOf("dltbatch.attempts{dltbatch.result=accepted}"), 0)
		assert.InDelta(t, kinds[ledgermem.Rejected], b.valueOf("dltbatch.attempts{dltbatch.result=rejected}"), 0)
		assert.InDelta(t, kinds[ledgermem.Busy], b.valueOf("dltbatch.attempts{dltbatch.result=busy}"), 0)
		assert.InDelta(t, kinds[ledgermem.LostRequest]+kinds[ledgermem.LostReply], b.valueOf("dltbatch.attempts{dltbatch.result=doubt}"), 0)
		assert.InDelta(t, seen.events[batch.EventInDoubt], b.valueOf("dltbatch.doubts"), 0)
		resolved := 0.0
		for _, s := range laterStates.values {
			resolved += b.valueOf("dltbatch.doubts.resolved{dltbatch.by=monitor,dltbatch.state=%s}", s)
		}
		assert.InDelta(t, seen.events[batch.EventInDoubt], resolved, 0, "each doubt ends once")
		assert.InDelta(t, resends, b.valueOf("dltbatch.resends"), 0)
		assert.Equal(t, posts, b.countOf("dltbatch.request.batches"))
		assert.InDelta(t, posts, b.valueOf("dltbatch.request.batches"), 0)
		assert.Equal(t, lanes*each, b.countOf("dltbatch.batch.wait.duration"))
		assert.Zero(t, b.valueOf("dltbatch.takeovers"))

		assert.Equal(t, lanes*each, seen.events[batch.EventFinal], "the application's own observer gets all, too")
		assert.Equal(t, lanes*each, seen.calls["add"])
		assert.Positive(t, seen.calls["submit"])
		for _, name := range b.allSeries() {
			for _, word := range []string{"lane-", "id-", "_OTHER", "i0", "i1"} {
				assert.NotContains(t, name, word)
			}
		}
	})
}

// An event that the application's own observer has got is counted already: there is no queue in
// between.
func TestEventsAreCountedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMetrics(noop.NewMeterProvider())
		require.NoError(t, err)
		var finals atomic.Int64
		r, err := m.NewRunner(memory.New(), ledgermem.New(nil), &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventFinal {
				seen := finals.Add(1)
				assert.GreaterOrEqual(t, m.finals.counts[labelValues{"committed"}].Load(), seen)
			}
		})})
		require.NoError(t, err)
		deliverBatches(t, 10, 20, r)
		assert.Equal(t, int64(200), finals.Load())
	})
}

// If a Metrics cannot be made, the error gives the reason.
func TestNewMetricsFails(t *testing.T) {
	_, err := NewMetrics(nil)
	var inputErr *batch.InputError
	require.ErrorAs(t, err, &inputErr)
	assert.Equal(t, "provider", inputErr.Field)
	_, err = NewMetrics(noMeterProvider{})
	require.ErrorContains(t, err, "no meter")
	for _, d := range allDefinitions(t) {
		b := newMeterBook()
		b.failingInstrument, b.err = d.name, errors.New("no room for it")
		_, err := NewMetrics(b)
		require.ErrorIs(t, err, b.err, d.name)
		require.ErrorContains(t, err, d.name)
	}
	b := newMeterBook()
	b.failingInstrument, b.err = "callback", errors.New("no callbacks")
	_, err = NewMetrics(b)
	require.ErrorIs(t, err, b.err)
	m, err := NewMetrics(noop.NewMeterProvider())
	require.NoError(t, err)
	_, err = m.NewRunner(nil, ledgermem.New(nil), nil)
	require.ErrorAs(t, err, &inputErr)
	assert.Empty(t, m.runners)
}

type noMeterProvider struct{ noop.MeterProvider }

func (noMeterProvider) Meter(string, ...metric.MeterOption) metric.Meter { return nil }

// allDefinitions returns the definitions of all metrics.
func allDefinitions(t *testing.T) []definition {
	t.Helper()
	b := &instrumentBuilder{meter: noop.Meter{}}
	newInstruments(b)
	require.NoError(t, b.err)
	return b.definitions
}

// Meters that panic disturb nothing: the batches are delivered, and the application's own
// observers get all events.
func TestMetersThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, seen := newMeterBook(), newCounted()
		m, err := NewMetrics(b)
		require.NoError(t, err)
		b.isPanicking = true
		var log strings.Builder
		r, err := m.NewRunner(memory.New(), ledgermem.New(nil), &dltbatch.Options{Observer: seen, Calls: seen, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		deliverBatches(t, 3, 4, r)
		assert.Equal(t, 12, seen.events[batch.EventFinal])
		assert.Equal(t, 12, seen.calls["add"])
		assert.Contains(t, log.String(), "the meter is broken")
	})
}

// If an application's observer panics, the metrics still count the event.
func TestObserversThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMeterBook()
		m, err := NewMetrics(b)
		require.NoError(t, err)
		r, err := m.NewRunner(memory.New(), ledgermem.New(nil), &dltbatch.Options{
			Observer: batch.ObserverFunc(func(context.Context, batch.Event) { panic("mine") }), Calls: panickyObserver{},
		})
		require.NoError(t, err)
		deliverBatches(t, 3, 4, r)
		require.NoError(t, b.collect())
		assert.InDelta(t, 12, b.valueOf("dltbatch.batches.final{dltbatch.state=committed}"), 0)
		assert.InDelta(t, 12, b.valueOf("dltbatch.batches.added{dltbatch.operation=add}"), 0)
	})
}

type panickyObserver struct{}

func (panickyObserver) ObserveCall(context.Context, batch.Call) { panic("mine") }

// NewRunner does not change the options that it gets.
func TestOptionsAreCopied(t *testing.T) {
	m, err := NewMetrics(noop.NewMeterProvider())
	require.NoError(t, err)
	o := dltbatch.Options{Pool: 3}
	_, err = m.NewRunner(memory.New(), ledgermem.New(nil), &o)
	require.NoError(t, err)
	assert.Equal(t, dltbatch.Options{Pool: 3}, o)
}

// fixedHealth is a Runner with a given Health.
type fixedHealth health.Health

func (f fixedHealth) Health() health.Health { return health.Health(f) }

func (f fixedHealth) Stats(context.Context) (store.Stats, error) {
	return store.Stats{}, store.ErrUnsupported
}

// The gauges show the Healths of all Runners: numbers are added, and of times the longest counts.
func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		b := newMeterBook()
		m, err := NewMetrics(b)
		require.NoError(t, err)
		require.NoError(t, b.collect())
		assert.Contains(t, b.values, "dltbatch.runners", "0 where nobody runs")
		assert.Contains(t, b.values, "dltbatch.order.breaches", "an increase from nothing would be missed")
		assert.Contains(t, b.values, "dltbatch.batches.final{dltbatch.state=rejected}")
		assert.NotContains(t, b.values, "dltbatch.batches.final{dltbatch.state=_OTHER}")
		assert.Empty(t, b.allSeries())
		failing := health.PartHealth{Condition: health.ConditionFailing, FailingSince: ago(time.Minute)}
		for range 2 {
			m.addRunner(fixedHealth{
				Running: true, Paused: true, Pauses: []health.Pause{
					{Ledger: "l", All: true, Since: ago(time.Hour)}, {Ledger: "m", All: true, Since: ago(time.Minute)}, {Ledger: "n", Service: "a"}, {Ledger: "n", Service: "b"},
				}, HaltedServices: []batch.ServiceID{"c"},
				HeldServices: []batch.ServiceID{"d", "e", "f"}, Ledger: failing, Store: health.PartHealth{Condition: health.ConditionOK},
				Loops: map[string]health.PartHealth{"queuer": {LastSuccess: ago(2 * time.Second)}, "keeper": {}},
				Pool:  health.Use{Busy: 3, Size: 64}, StatusConnections: health.Use{Busy: 1, Size: 8}, Claims: 5, OpenStreams: 6,
				Warnings: []error{errors.New("worn")}, LostEvents: []uint64{0, 4, 0, 0, 0, 0, 0, 0, 1, 1},
				DroppedTraces: 2,
			})
		}
		m.addRunner(fixedHealth{Running: true, Loops: map[string]health.PartHealth{"queuer": {LastSuccess: ago(9 * time.Second)}}})
		m.addRunner(fixedHealth{Claims: 1000, LostEvents: []uint64{7}, DroppedTraces: 1}) // this one does not run, and what it has lost still counts
		require.NoError(t, b.collect())
		for name, want := range map[string]float64{
			"dltbatch.runners": 3, "dltbatch.claims.held": 10, "dltbatch.streams": 12, "dltbatch.warnings": 2,
			"dltbatch.pool.size{dltbatch.pool=submit}": 128, "dltbatch.pool.busy{dltbatch.pool=submit}": 6,
			"dltbatch.pool.size{dltbatch.pool=status}": 16, "dltbatch.pool.busy{dltbatch.pool=status}": 2,
			"dltbatch.services.closed{dltbatch.reason=paused}": 4, "dltbatch.services.closed{dltbatch.reason=halted}": 2,
			"dltbatch.services.closed{dltbatch.reason=held}": 6, "dltbatch.ledger.closed.duration": 3600,
			"dltbatch.failing.duration{dltbatch.part=ledger}": 60, "dltbatch.failing.duration{dltbatch.part=store}": 0,
			"dltbatch.failing.duration{dltbatch.part=streams}": 0, "dltbatch.loop.success.age{dltbatch.loop=queuer}": 9,
			"dltbatch.observer.lost{dltbatch.observer=0}": 7, "dltbatch.observer.lost{dltbatch.observer=1}": 8,
			"dltbatch.observer.lost{dltbatch.observer=_OTHER}": 4, "dltbatch.traces.dropped": 5,
		} {
			assert.Contains(t, b.values, name)
			assert.InDelta(t, want, b.valueOf("%s", name), 1e-9, name)
		}
		assert.NotContains(t, b.values, "dltbatch.loop.success.age{dltbatch.loop=keeper}")
	})
}

// A Runner made by NewRunner is in the gauges.
func TestNewRunnerIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newMeterBook()
		m, err := NewMetrics(b)
		require.NoError(t, err)
		r, err := m.NewRunner(memory.New(), ledgermem.New(nil), nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		require.NoError(t, b.collect())
		assert.InDelta(t, 1, b.valueOf("dltbatch.runners"), 0)
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, b.collect())
		assert.Zero(t, b.valueOf("dltbatch.runners"))
	})
}

// Counting allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	m, err := NewMetrics(noop.NewMeterProvider())
	require.NoError(t, err)
	ctx := t.Context()
	e := batch.Event{Kind: batch.EventFinal, State: batch.Committed, From: batch.Pending, By: batch.ByMonitor, SinceAdded: 1, SincePosted: 1, InRequest: 1}
	c := batch.Call{Part: "store", Op: "record", Items: 3}
	if n := testing.AllocsPerRun(100, func() { m.countEvent(e); m.observeCall(ctx, c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// fixedStats is a Runner whose store has the given counts, or returns the given error.
type fixedStats struct {
	fixedHealth
	stats store.Stats
	err   error
}

func (k fixedStats) Stats(context.Context) (store.Stats, error) { return k.stats, k.err }

// The gauges of a database are its own counts, once for each database, however many Runners of
// this process read it. If one database cannot be read, none of these gauges is observed.
func TestGaugesOfStores(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := store.Stats{
		Totals: store.Totals{
			At: at, By: "x", Open: map[batch.State]int{batch.Queued: 7, batch.Invalid: 1}, Oldest: at.Add(-time.Minute), Lanes: 3, InDoubt: 4, OldestDoubt: at.Add(-2 * time.Hour),
			Undecided: 5, Quarantined: 6, RefusedOrders: 7, Paused: 8, Halted: 9, AllPaused: true, Orders: map[string]int{"dequeued": 10},
			OldestOrder: at.Add(-time.Hour), Schema: 4, Sizes: []store.Size{{Name: "batches", Bytes: 11, Dead: 12}, {Name: "new", Bytes: 13}},
		},
		Age: 20 * time.Second, Instances: []store.Instance{{ID: "1", Live: true, Shared: true}, {ID: "2", Shared: true}, {ID: "3"}},
	}
	later := one // read after a new count
	later.At, later.Open = at.Add(15*time.Second), map[batch.State]int{batch.Queued: 100}
	other := store.Stats{Totals: store.Totals{At: at, By: "y", Open: map[batch.State]int{batch.Queued: 1000}, Schema: 3}, Age: 5 * time.Second}
	never := store.Stats{Instances: []store.Instance{{ID: "4"}}} // never counted yet
	gauges := func(runners ...runner) (*meterBook, error) {
		b := newMeterBook()
		m, err := NewMetrics(b)
		require.NoError(t, err)
		for _, r := range runners {
			m.addRunner(r)
		}
		return b, b.collect()
	}
	b, err := gauges(fixedStats{stats: one}, fixedStats{stats: one}, fixedStats{stats: later}, fixedStats{stats: other}, fixedStats{stats: other}, fixedStats{stats: never}, fixedStats{err: store.ErrUnsupported})
	require.NoError(t, err)
	for name, want := range map[string]float64{
		"dltbatch.open.batches{dltbatch.state=queued}": 1007, "dltbatch.open.batches{dltbatch.state=invalid}": 1,
		"dltbatch.open.batches{dltbatch.state=pending}": 0, "dltbatch.open.oldest.age": 80, "dltbatch.open.lanes": 3,
		"dltbatch.lanes.stopped{dltbatch.reason=paused}": 8, "dltbatch.lanes.stopped{dltbatch.reason=halted}": 9, "dltbatch.paused": 1,
		"dltbatch.open.doubts": 4, "dltbatch.open.oldest.doubt.age": 7220, "dltbatch.open.decisions": 5, "dltbatch.quarantine": 6, "dltbatch.orders.refused": 7, "dltbatch.open.orders{dltbatch.state=dequeued}": 10,
		"dltbatch.open.orders{dltbatch.state=queued}": 0, "dltbatch.open.oldest.order.age": 3620,
		"dltbatch.instances{dltbatch.presence=live}": 1, "dltbatch.instances{dltbatch.presence=unseen}": 2, "dltbatch.instances.shared": 2,
		"dltbatch.schema.version": 4, "dltbatch.table.size{dltbatch.table=batches}": 11, "dltbatch.table.dead{dltbatch.table=batches}": 12,
		"dltbatch.table.size{dltbatch.table=_OTHER}": 13, "dltbatch.stats.age": 20,
	} {
		assert.Contains(t, b.values, name)
		assert.InDelta(t, want, b.valueOf("%s", name), 1e-9, name)
	}
	for _, none := range [][]runner{{fixedStats{stats: never}}, {fixedStats{err: store.ErrUnsupported}}} {
		b, err := gauges(none...)
		require.NoError(t, err)
		assert.NotContains(t, b.values, "dltbatch.stats.age")
		assert.NotContains(t, b.values, "dltbatch.open.lanes", "0 would say that nothing is open")
	}
	gone := errors.New("gone")
	b, err = gauges(fixedStats{fixedHealth: fixedHealth{Running: true}, stats: one}, fixedStats{fixedHealth: fixedHealth{Running: true}, err: gone})
	require.NoError(t, err, "an exporter would send nothing at all")
	assert.NotContains(t, b.values, "dltbatch.open.lanes")
	assert.InDelta(t, 2, b.valueOf("dltbatch.runners"), 0, "what this process knows is there all the same")
	b, err = gauges(fixedStats{fixedHealth: fixedHealth{Running: true}, stats: one}, fixedStats{err: gone})
	require.NoError(t, err)
	assert.Contains(t, b.values, "dltbatch.open.lanes", "a Runner that has stopped")
}

// Each state in which a batch or an order can be open is a value of its label.
func TestOpenStates(t *testing.T) {
	for s := batch.Queued; s.Known(); s++ {
		if s != batch.Committed && s != batch.Rejected {
			assert.Contains(t, openStates.values, s.String())
		}
	}
	assert.Equal(t, []string{order.Queued.String(), order.Dequeued.String()}, orderStates.values)
}

// clockDifference returns the part of the difference that the time of the read does not explain.
func TestApart(t *testing.T) {
	before := time.Now()
	after := before.Add(2 * time.Second)
	for read, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: 0, 2 * time.Second: 0, -time.Minute: time.Minute, 62 * time.Second: time.Minute,
	} {
		assert.Equal(t, want, clockDifference(before.Add(read).UTC(), before, after), read)
	}
}
