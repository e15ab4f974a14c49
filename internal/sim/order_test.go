package sim

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
)

// checkRun checks a run against the open batches of its lane, if the strategy relies on the
// ledger's order: every earlier batch is final or accepted, no other batch of the lane is
// unacknowledged, no later batch is under way, and no more batches are in flight than allowed.
// Like the Runner, it reports a batch that is sent again behind others.
func (w *world) checkRun(run store.ClaimedRun) {
	if !w.lanes.keepsOrder {
		return
	}
	mine := map[batch.ID]bool{}
	for _, c := range run.Batches {
		mine[c.Key.ID] = true
	}
	order := w.addedBatches[run.Service]
	first := run.Batches[0].Key.ID
	under := 0
	for _, id := range order {
		rec, err := w.store.Get(context.Background(), batch.Key{Service: run.Service, ID: id})
		if err != nil {
			w.fail("get: %w", err)
			return
		}
		if rec.Final() {
			continue
		}
		if !rec.State.Claimable() {
			under++
		}
		accepted := rec.State == batch.Pending || rec.State == batch.Valid
		switch {
		case mine[id]:
		case rec.State == batch.Submitting:
			w.fail("promise 2: %s is claimed while %s is not acknowledged", run.Batches[0].Key, id)
		case w.placeIsMoved[id] || w.placeIsMoved[first]:
		case w.belongsBefore(run.Service, id, first) && !accepted:
			w.fail("promise 2: %s is claimed and passes %s, which is %s", run.Batches[0].Key, id, rec.State)
		case w.belongsBefore(run.Service, first, id) && accepted:
			w.fail("promise 2: %s is sent again behind %s, which is %s", run.Batches[0].Key, id, rec.State)
		}
	}
	if most := w.lanes.strategy.Window; under > most {
		w.fail("%d of lane %q are under way, with %d at most", under, run.Service, most)
	}
	for i, c := range run.Batches {
		if !c.Again {
			continue
		}
		if in := run.InDoubtAfter(i); in != "" && w.ledgerKind.traits.ResendHarmlessFor != dlt.Forever {
			w.addTrace("breach: %s is perhaps behind %s", c.Key, in)
			w.placeIsMoved[c.Key.ID] = true
			continue
		}
		forgets := w.ledgerKind.traits.ResendHarmlessFor != dlt.Forever
		w.reportIfBehind(c.Key, func(b batch.Record) bool {
			return b.State == batch.Committed || forgets && b.State == batch.Unknown && !b.DoubtSince.IsZero()
		})
	}
}

// noteOutcome is called for each recorded outcome. A batch that the ledger executes after all may
// come behind others, and is then reported.
func (w *world) noteOutcome(o store.Outcome, a store.Applied) {
	if !w.lanes.keepsOrder || a.Result != store.Written || o.By != batch.ByMonitor {
		return
	}
	switch a.Row.State {
	case batch.Invalid:
		w.saidInvalid[o.Key.ID] = true
	case batch.Committed, batch.Pending, batch.Valid:
		if a.From == batch.Invalid || a.From.Claimable() {
			w.reportIfBehind(o.Key, func(b batch.Record) bool {
				return b.State == batch.Committed || b.State == batch.Pending || b.State == batch.Valid || b.State == batch.Submitting
			})
		}
	}
}

// reportIfBehind reports a batch if others have gone ahead of it. From then on the batch's place
// in the order does not count.
func (w *world) reportIfBehind(key batch.Key, is func(batch.Record) bool) {
	ahead, err := store.Ahead(context.Background(), w.store, key, is)
	if err != nil {
		w.fail("ahead: %w", err)
	}
	if ahead != "" {
		w.addTrace("breach: %s is behind %s", key, ahead)
		w.placeIsMoved[key.ID] = true
	}
}

// checkOrderKept checks that a ledger that keeps order executed each lane in the order in which
// its batches were added. Exceptions are batches that were reported, and batches that the ledger
// decided against at first without anybody noticing. It also checks everything besides the order.
func checkOrderKept(t *testing.T, ledger *ledgermem.Ledger, order map[batch.ServiceID][]batch.ID, told, heard map[batch.ID]bool) {
	executed := map[batch.ServiceID][]batch.ID{}
	silent := unheardInvalid(ledger, heard)
	for service, ids := range order {
		log := ledger.Log(service)
		last := -1
		for _, id := range log {
			at := slices.Index(ids, id)
			if told[id] || silent[id] {
				continue
			}
			require.Greater(t, at, last, "promise 2: lane %q of %v executed as %v, and nobody told of %s", service, ids, log, id)
			last = at
		}
		executed[service] = log
	}
	require.NoError(t, ledger.Verify(executed))
}

// unheardInvalid returns the batches that the ledger decided against at first, without those whose
// decision the Runners have reported.
func unheardInvalid(ledger *ledgermem.Ledger, heard map[batch.ID]bool) map[batch.ID]bool {
	silent := map[batch.ID]bool{}
	for _, e := range ledger.Journal() {
		if e.Kind == ledgermem.Invalid && !heard[e.Key.ID] {
			silent[e.Key.ID] = true
		}
	}
	return silent
}
