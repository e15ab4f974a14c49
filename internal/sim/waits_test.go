package sim

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// turnDeadline is what the world knows of an open batch whose turn has come: the deadline of
// docs/design.md#deadlines, calculated independently.
type turnDeadline struct {
	movedAt         time.Time // when the batch last moved
	mayBeTaken      bool      // true if an attempt may have been taken
	personWasCalled bool
}

func (w *world) stuckAfter() time.Duration {
	if w.ledgerKind.isScabbard {
		return scabbardStuckAfter
	}
	return monitorRules.StuckAfter
}

// noteTurn notes a claim of a batch.
func (w *world) noteTurn(c store.Claim) {
	if w.turnDeadlines[c.Key.ID] == nil {
		w.turnDeadlines[c.Key.ID] = &turnDeadline{movedAt: time.Now(), mayBeTaken: c.Again || !c.Was.LastPost.IsZero()}
	}
}

// checkPersonCall compares an outcome that calls a person, or does not, with the deadline.
func (w *world) checkPersonCall(o store.Outcome, a store.Applied) {
	x := w.turnDeadlines[o.Key.ID]
	if a.Result != store.Written || x == nil {
		return
	}
	if a.Row.Final() {
		delete(w.turnDeadlines, o.Key.ID)
		return
	}
	if !x.mayBeTaken && (a.Row.State == batch.Pending || a.Row.State == batch.Valid) {
		x.movedAt, x.personWasCalled = time.Now(), false
	}
	x.mayBeTaken = x.mayBeTaken || !a.Row.LastPost.IsZero()
	switch {
	case a.Stuck && x.personWasCalled:
		w.fail("promise 6: a person was called twice about %s, which has not moved", o.Key)
	case a.Stuck && a.Row.Decision == "":
		w.fail("promise 6: a person was called about %s without a cause", o.Key)
	case a.Stuck:
		x.personWasCalled = true
	}
}

// checkDeadlines fails if a batch has not moved for too long and no person was called. It allows a
// minute, since workers that are frozen or dead come back within that time. A closed lane waits
// for a person anyway.
func (w *world) checkDeadlines() {
	closed := w.laneIsClosedFunc()
	for _, rec := range w.openBatches() {
		x := w.turnDeadlines[rec.ID]
		if x == nil || x.personWasCalled || closed(rec.Service) || rec.State.Claimable() && w.hasOpenEarlierBatch(rec) {
			continue
		}
		if still := time.Since(x.movedAt); still > w.stuckAfter()+store.LookGap+5*time.Minute {
			w.fail("promise 6: %s is %s, has not moved for %s, and nobody was called", rec.Key, rec.State, still)
		}
	}
}

// hasOpenEarlierBatch reports whether an earlier batch of the lane is open.
func (w *world) hasOpenEarlierBatch(rec batch.Record) bool {
	for _, id := range w.addedBatches[rec.Service] {
		if id == rec.ID {
			return false
		}
		if other, err := w.store.Get(w.t.Context(), batch.Key{Service: rec.Service, ID: id}); err == nil && !other.Final() {
			return true
		}
	}
	return false
}
