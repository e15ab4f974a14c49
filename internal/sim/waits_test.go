package sim

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// waits is what the world knows of a batch that is open and whose turn has come: the deadline of
// docs/design.md#deadlines, reckoned anew.
type waits struct {
	since  time.Time // of its last move
	posted bool      // an attempt may have been taken
	called bool
}

func (w *world) stuckAfter() time.Duration {
	if w.kind.scabbard {
		return scabbardStuck
	}
	return monRules.StuckAfter
}

// turn notes a claim.
func (w *world) turn(c store.Claim) {
	if w.waits[c.Key.ID] == nil {
		w.waits[c.Key.ID] = &waits{since: time.Now(), posted: c.Again || !c.Was.LastPost.IsZero()}
	}
}

// checkCall compares the call of a person, or its absence, with the deadline.
func (w *world) checkCall(o store.Outcome, a store.Applied) {
	x := w.waits[o.Key.ID]
	if a.Result != store.Written || x == nil {
		return
	}
	if a.Row.Final() {
		delete(w.waits, o.Key.ID)
		return
	}
	if !x.posted && (a.Row.State == batch.Pending || a.Row.State == batch.Valid) {
		x.since, x.called = time.Now(), false
	}
	x.posted = x.posted || !a.Row.LastPost.IsZero()
	switch {
	case a.Stuck && x.called:
		w.fail("promise 6: a person was called twice about %s, which has not moved", o.Key)
	case a.Stuck && a.Row.Decision == "":
		w.fail("promise 6: a person was called about %s without a cause", o.Key)
	case a.Stuck:
		x.called = true
	}
}

// checkWaits fails for a batch that has not moved for too long without a person. Workers that are
// frozen or dead come back within a minute; a lane that is closed waits for a person anyhow.
func (w *world) checkWaits() {
	closed := w.closed()
	for _, rec := range w.open() {
		x := w.waits[rec.ID]
		if x == nil || x.called || closed(rec.Service) || rec.State.Claimable() && w.behindOpen(rec) {
			continue
		}
		if still := time.Since(x.since); still > w.stuckAfter()+store.LookGap+5*time.Minute {
			w.fail("promise 6: %s is %s, has not moved for %s, and nobody was called", rec.Key, rec.State, still)
		}
	}
}

// behindOpen reports whether an earlier batch of the lane is open.
func (w *world) behindOpen(rec batch.Record) bool {
	for _, id := range w.acked[rec.Service] {
		if id == rec.ID {
			return false
		}
		if other, err := w.store.Get(w.t.Context(), batch.Key{Service: rec.Service, ID: id}); err == nil && !other.Final() {
			return true
		}
	}
	return false
}
