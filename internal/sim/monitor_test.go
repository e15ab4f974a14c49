package sim

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

// runMonitorRound asks about due batches, and schedules its next round.
func (k *worker) runMonitorRound() {
	w := k.world
	if w.faultsHappen || !k.mayRest() {
		k.stepLater(w.roundDelay(100*time.Millisecond), k.runMonitorRound)
	}
	read := time.Now()
	rows, err := w.store.Pending(context.Background(), store.PendingQuery{Limit: 50, Lease: 2 * requestTimeout, Ahead: 4 * requestTimeout})
	if err != nil {
		w.fail("pending: %w", err)
		return
	}
	for _, f := range rows {
		most := requestTimeout / 4
		if w.ledgerKind.isScabbard { // the monitor asks the resolver after a status request, which may take its whole time
			most = requestTimeout
		}
		k.stepLater(w.between(0, most), func() { k.askAbout(f, read) })
	}
}

// askAbout asks about a row. read is when the row was read, from which its ages count.
func (k *worker) askAbout(f store.InFlight, read time.Time) {
	w := k.world
	known := monitor.Known{Seen: k.timeSinceFirstSeen(f)}
	a := batch.Attempt{Key: f.Key, Number: f.Attempt}
	if !w.chance(0.1) { // otherwise the query fails, or the answer leaves this batch out
		statuses, err := k.statusReader().BatchStatuses(context.Background(), f.Key.Service, []batch.Attempt{a})
		if err != nil && !w.ledgerKind.isScabbard {
			w.fail("statuses: %w", err)
			return
		}
		for _, st := range statuses {
			known.Status = &st
			w.noteCommitAnswer(f.Key.ID, known.Status.Reported == batch.ReportedCommitted)
		}
	}
	rules := monitorRules
	rules.Reliant = w.lanes.keepsOrder
	rules.StuckAfter = w.stuckAfter()
	v := monitor.Decide(f, known, w.ledgerKind.traits, rules)
	if v.Resolve {
		e, err := k.resolveDoubt(f, dlt.Doubt{Attempt: a, Since: f.DoubtAgo + time.Since(read), Ended: f.PostedAgo})
		if err != nil {
			w.fail("resolve: %w", err)
			return
		}
		if w.chance(0.1) {
			e = dlt.InFlight
		}
		w.noteCommitAnswer(f.Key.ID, e == dlt.Committed)
		known.Evidence = &e
		v = monitor.Decide(f, known, w.ledgerKind.traits, rules)
	}
	// The answer takes some time. The version that was read before the question fences the
	// outcome.
	k.stepLater(w.between(0, requestTimeout/2), func() {
		if v.Outcome != nil {
			k.recordLater(*v.Outcome)
			return
		}
		if err := w.store.Checked(context.Background(), []store.Due{{Ref: f.Ref, In: v.Next}}); err != nil {
			w.fail("checked: %w", err)
		}
	})
}

// statusReader returns the client that answers status queries.
func (k *worker) statusReader() dlt.BatchStatusReader {
	if k.world.ledgerKind.isScabbard {
		return k.client
	}
	return k.world.ledger.(dlt.BatchStatusReader)
}

func (k *worker) resolveDoubt(f store.InFlight, d dlt.Doubt) (dlt.Evidence, error) {
	if k.world.ledgerKind.isScabbard {
		return k.resolveScabbard(d, f.Ref)
	}
	return k.world.ledger.(dlt.Ledger).Resolve(context.Background(), d)
}

// noteCommitAnswer remembers that the ledger has reported a batch as committed. On a ledger that
// executes duplicates another POST may be on its way at that time, so the check applies only to
// POSTs that begin later.
func (w *world) noteCommitAnswer(id batch.ID, committed bool) {
	w.saidCommitted[id] = w.saidCommitted[id] || committed
}

func (k *worker) timeSinceFirstSeen(f store.InFlight) time.Duration {
	key := rowVersion{f.Key.ID, f.Version}
	first, ok := k.firstSeen[key]
	if !ok {
		first = time.Now()
		k.firstSeen[key] = first
	}
	return time.Since(first)
}
