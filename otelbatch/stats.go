package otelbatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/dltbatch/dltbatch/store"
)

// statsTimeout is how long a collection waits for the counts that a store keeps, which are a few
// rows.
const statsTimeout = 2 * time.Second

// openStates and the others are the labels of the store's gauges, with all their values.
var (
	openStates  = label{key: "dltbatch.state", values: []string{"queued", "submitting", "pending", "valid", "delayed", "unknown", "invalid"}}
	orderStates = label{key: "dltbatch.state", values: []string{"queued", "dequeued"}}
	stopReasons = label{key: "dltbatch.reason", values: []string{"paused", "halted"}}
	presences   = label{key: "dltbatch.presence", values: []string{"live", "unseen"}}
	tables      = label{key: "dltbatch.table", values: []string{
		"attempted_batches", "attempts", "batch_acts", "batch_tags", "batches", "controls", "database", "final_orders",
		"lane_acts", "log", "open_orders", "orders", "outcomes", "services", "stream_ids", "streams", "texts", "tombstones", "transaction_receipts",
		"transactions", "unsettled_batches", "waiting_batches",
	}}
)

// storeGauges has the gauges of a store's counts: see [store.Totals].
type storeGauges struct {
	countsAge, oldestAge, oldestOrder, oldestDoubt, clockDifference gauge
	openBatches, orders, lanes, stoppedLanes, allPaused             gauge
	inDoubt, undecided, setAside, schema, instances, sharedNames    gauge
	refusedOrders                                                   gauge
	bytes, deadRows                                                 gauge
}

func newStoreGauges(b *instrumentBuilder) (g storeGauges) {
	g.openBatches = b.markStored(b.number("dltbatch.open.batches", "{batch}", "Batches that are not final, by state.", openStates))
	g.oldestAge = b.markStored(b.age("dltbatch.open.oldest.age", "Age of the oldest batch that is not final; 0 where all are."))
	g.lanes = b.markStored(b.number("dltbatch.open.lanes", "{lane}", "Lanes that have a batch which is not final."))
	g.stoppedLanes = b.markStored(b.number("dltbatch.lanes.stopped", "{lane}", "Lanes that a person paused, or that were halted, with open batches or without.", stopReasons))
	g.allPaused = b.markStored(b.number("dltbatch.paused", "{database}", "Whether a person paused everything: 1 or 0."))
	g.inDoubt = b.markStored(b.number("dltbatch.open.doubts", "{batch}", "Batches of which an attempt may or may not have taken effect."))
	g.oldestDoubt = b.markStored(b.age("dltbatch.open.oldest.doubt.age", "Age of the oldest doubt, since the claim of its attempt; 0 where there is none."))
	g.undecided = b.markStored(b.number("dltbatch.open.decisions", "{batch}", "Batches that wait for a person's decision."))
	g.setAside = b.markStored(b.number("dltbatch.quarantine", "{batch}", "Batches that were set aside, and that nobody has acquitted."))
	g.orders = b.markStored(b.number("dltbatch.open.orders", "{order}", "Orders that are not final, by state.", orderStates))
	g.oldestOrder = b.markStored(b.age("dltbatch.open.oldest.order.age", "Age of the oldest order that is not final; 0 where all are."))
	g.refusedOrders = b.markStored(b.number("dltbatch.orders.refused", "{order}", "Orders that were refused alone within a day."))
	g.instances = b.markStored(b.number("dltbatch.instances", "{instance}", "Instances that the database knows: live ones were seen within three of their pauses, unseen ones ended without a word.", presences))
	g.sharedNames = b.markStored(b.number("dltbatch.instances.shared", "{instance}", "Instances that had the name of another at the same time."))
	g.schema = b.markStored(b.number("dltbatch.schema.version", "{version}", "Version of the database's schema."))
	g.bytes = b.markStored(b.number("dltbatch.table.size", "By", "Bytes of each table with its indexes; on SQLite of the database and of its log.", tables))
	g.deadRows = b.markStored(b.number("dltbatch.table.dead", "{row}", "Rows that wait to be cleaned up, as the server estimates.", tables))
	g.clockDifference = b.markStored(b.age("dltbatch.clock.difference", "How far the clock of the database is from the clock of this process, in either direction."))
	g.countsAge = b.markStored(b.age("dltbatch.stats.age", "Age of these counts. Where nobody runs they grow old."))
	return g
}

// markStored marks the last definition as a metric of the stores.
func (b *instrumentBuilder) markStored(g gauge) gauge {
	b.definitions[len(b.definitions)-1].kind = "stored"
	return g
}

// collect observes the counts of the stores of these Runners, each store once. It leaves out a
// store that keeps no counts. If one store could not be read, it observes nothing instead of a
// part. That is not an error, because an exporter would then send no metric at all, not even the
// application's own. The call to the store is measured like any other.
func (g storeGauges) collect(ctx context.Context, runners []runner, o metric.Observer) {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	var all []store.Stats
	var clock time.Duration
	for _, r := range runners {
		before := time.Now()
		s, err := r.Stats(ctx)
		switch {
		case errors.Is(err, store.ErrUnsupported):
		case err != nil:
			return
		case !s.At.IsZero() && !slices.ContainsFunc(all, func(known store.Stats) bool { return sameStore(known, s) }):
			all = append(all, s)
			clock = max(clock, clockDifference(s.At.Add(s.Age), before, time.Now()))
		}
	}
	if len(all) == 0 {
		return
	}
	t := storeCounts{clock: clock, open: map[string]int{}, orders: map[string]int{}, bytes: map[string]int64{}, dead: map[string]int64{}}
	for _, s := range all {
		t.add(s)
	}
	t.observe(g, o)
}

// clockDifference returns how far the database's time read is outside of the time from before to
// after, in which it was read.
func clockDifference(read, before, after time.Time) time.Duration {
	return max(0, before.Sub(read), read.Sub(after))
}

// sameStore reports whether two Runners have read the same store, even if there was a new count in
// between: the counts, or an instance, whose ID is random, are the same.
func sameStore(a, b store.Stats) bool {
	if a.At.Equal(b.At) && a.By == b.By {
		return true
	}
	return slices.ContainsFunc(a.Instances, func(i store.Instance) bool {
		return slices.ContainsFunc(b.Instances, func(j store.Instance) bool { return i.ID == j.ID })
	})
}

// storeCounts has the counts of several stores.
type storeCounts struct {
	open, orders                        map[string]int
	bytes, dead                         map[string]int64
	lanes, inDoubt, undecided, setAside int
	refused                             int
	paused, halted, allPaused           int
	live, unseen, shared                int
	schema                              int64
	age, oldest, oldestOrder            time.Duration
	oldestDoubt, clock                  time.Duration
}

func (t *storeCounts) add(s store.Stats) {
	for state, n := range s.Open {
		t.open[state.String()] += n
	}
	for state, n := range s.Orders {
		t.orders[state] += n
	}
	for _, size := range s.Sizes {
		t.bytes[size.Name] += size.Bytes
		t.dead[size.Name] += size.Dead
	}
	t.lanes, t.inDoubt, t.undecided, t.setAside = t.lanes+s.Lanes, t.inDoubt+s.InDoubt, t.undecided+s.Undecided, t.setAside+s.Quarantined
	t.refused += s.RefusedOrders
	t.paused, t.halted = t.paused+s.Paused, t.halted+s.Halted
	if s.AllPaused {
		t.allPaused++
	}
	for _, i := range s.Instances {
		if i.Live {
			t.live++
		} else {
			t.unseen++
		}
		if i.Shared {
			t.shared++
		}
	}
	t.schema, t.age = max(t.schema, s.Schema), max(t.age, s.Age)
	since := func(oldest time.Time) time.Duration { // both times are of the database's clock
		if oldest.IsZero() {
			return 0
		}
		return max(0, s.At.Sub(oldest)+s.Age)
	}
	t.oldest, t.oldestOrder = max(t.oldest, since(s.Oldest)), max(t.oldestOrder, since(s.OldestOrder))
	t.oldestDoubt = max(t.oldestDoubt, since(s.OldestDoubt))
}

func (t *storeCounts) observe(g storeGauges, o metric.Observer) {
	for _, state := range openStates.values {
		g.openBatches.count(o, t.open[state], labelValues{state})
	}
	for _, state := range orderStates.values {
		g.orders.count(o, t.orders[state], labelValues{state})
	}
	g.lanes.count(o, t.lanes, labelValues{})
	g.stoppedLanes.count(o, t.paused, labelValues{"paused"})
	g.stoppedLanes.count(o, t.halted, labelValues{"halted"})
	g.allPaused.count(o, t.allPaused, labelValues{})
	g.inDoubt.count(o, t.inDoubt, labelValues{})
	g.undecided.count(o, t.undecided, labelValues{})
	g.setAside.count(o, t.setAside, labelValues{})
	g.refusedOrders.count(o, t.refused, labelValues{})
	g.instances.count(o, t.live, labelValues{"live"})
	g.instances.count(o, t.unseen, labelValues{"unseen"})
	g.sharedNames.count(o, t.shared, labelValues{})
	g.schema.count(o, int(t.schema), labelValues{})
	for table, n := range t.bytes {
		g.bytes.count(o, int(n), labelValues{table})
		g.deadRows.count(o, int(t.dead[table]), labelValues{table})
	}
	g.oldestAge.seconds(o, t.oldest.Seconds(), labelValues{})
	g.oldestOrder.seconds(o, t.oldestOrder.Seconds(), labelValues{})
	g.oldestDoubt.seconds(o, t.oldestDoubt.Seconds(), labelValues{})
	g.clockDifference.seconds(o, t.clock.Seconds(), labelValues{})
	g.countsAge.seconds(o, t.age.Seconds(), labelValues{})
}
