package sim

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

// monitor asks about due batches, again and again.
func (k *worker) monitor() {
	w := k.w
	if w.faulty || !k.rest() {
		k.later(w.pace(100*time.Millisecond), k.monitor)
	}
	read := time.Now()
	rows, err := w.store.Pending(context.Background(), store.PendingQuery{Limit: 50, Lease: 2 * requestTimeout, Ahead: 4 * requestTimeout})
	if err != nil {
		w.fail("pending: %w", err)
		return
	}
	for _, f := range rows {
		most := requestTimeout / 4
		if w.kind.scabbard { // the monitor asks a resolver after a status request, which may take its time
			most = requestTimeout
		}
		k.later(w.between(0, most), func() { k.ask(f, read) })
	}
}

// ask asks about a row, whose ages are from the time of the read.
func (k *worker) ask(f store.InFlight, read time.Time) {
	w := k.w
	known := monitor.Known{Seen: k.seenFor(f)}
	a := batch.Attempt{Key: f.Key, Number: f.Attempt}
	if !w.chance(0.1) { // else the query fails, or leaves this batch out
		statuses, err := k.asks().BatchStatuses(context.Background(), f.Key.Service, []batch.Attempt{a})
		if err != nil && !w.kind.scabbard {
			w.fail("statuses: %w", err)
			return
		}
		for _, st := range statuses {
			known.Status = &st
			w.hear(f.Key.ID, known.Status.Reported == batch.ReportedCommitted)
		}
	}
	rules := monRules
	rules.Reliant = w.lanes.keeps
	rules.StuckAfter = w.stuckAfter()
	v := monitor.Decide(f, known, w.kind.traits, rules)
	if v.Resolve {
		e, err := k.resolve(f, dlt.Doubt{Attempt: a, Since: f.DoubtAgo + time.Since(read), Ended: f.PostedAgo})
		if err != nil {
			w.fail("resolve: %w", err)
			return
		}
		if w.chance(0.1) {
			e = dlt.InFlight
		}
		w.hear(f.Key.ID, e == dlt.Committed)
		known.Evidence = &e
		v = monitor.Decide(f, known, w.kind.traits, rules)
	}
	// The answer takes a while to come back; the version that was read before fences the
	// outcome.
	k.later(w.between(0, requestTimeout/2), func() {
		if v.Outcome != nil {
			k.record(*v.Outcome)
			return
		}
		if err := w.store.Checked(context.Background(), []store.Due{{Ref: f.Ref, In: v.Next}}); err != nil {
			w.fail("checked: %w", err)
		}
	})
}

// asks is the client that answers status queries.
func (k *worker) asks() dlt.BatchStatusReader {
	if k.w.kind.scabbard {
		return k.client
	}
	return k.w.ledger.(dlt.BatchStatusReader)
}

func (k *worker) resolve(f store.InFlight, d dlt.Doubt) (dlt.Evidence, error) {
	if k.w.kind.scabbard {
		return k.resolveScabbard(d, f.Ref)
	}
	return k.w.ledger.(dlt.Ledger).Resolve(context.Background(), d)
}

// hear remembers the ledger's answer that a batch is committed. A ledger that executes
// duplicates may have a POST on its way by then, so only new POSTs count.
func (w *world) hear(id batch.ID, committed bool) {
	w.told[id] = w.told[id] || committed
}

func (k *worker) seenFor(f store.InFlight) time.Duration {
	key := sighting{f.Key.ID, f.Version}
	first, ok := k.seen[key]
	if !ok {
		first = time.Now()
		k.seen[key] = first
	}
	return time.Since(first)
}
