package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

var person = batch.By{Actor: "person", Reason: "as the seed says"}

// operatorRound is a person who acts from time to time, at any moment. The person requeues a final
// batch that is not committed, cancels a waiting batch, pauses and resumes, sets the policies of
// lanes, and releases lanes.
func (w *world) operatorRound() {
	if !w.faultsHappen {
		return
	}
	w.scheduleAfter(w.between(time.Second, 10*time.Second), w.operatorRound)
	services := w.services()
	if len(services) == 0 {
		return
	}
	service := services[w.rng.IntN(len(services))]
	if w.rng.IntN(3) == 0 {
		w.steerRandomly(service)
		return
	}
	id := w.addedBatches[service][w.rng.IntN(len(w.addedBatches[service]))]
	key := batch.Key{Service: service, ID: id}
	rec, err := w.store.Get(context.Background(), key)
	if err != nil {
		w.fail("get: %w", err)
		return
	}
	var do func() (batch.Record, error)
	switch {
	case rec.Quarantined && w.rng.IntN(2) == 0:
		do = func() (batch.Record, error) { return w.store.Acquit(context.Background(), rec, person) }
	case rec.Final() && rec.State != batch.Committed && w.rng.IntN(2) == 0:
		q := store.Requeue{Quiet: w.ledgerKind.traits.ResendQuiet}
		do = func() (batch.Record, error) { return w.store.Requeue(context.Background(), rec, q, person) }
	case !rec.Final() && rec.State != batch.Submitting && w.rng.IntN(4) == 0:
		do = func() (batch.Record, error) { return w.store.Cancel(context.Background(), rec, person) }
	default:
		return
	}
	if w.rng.IntN(2) == 0 {
		w.actOnBatch(rec, do)
		return
	}
	w.operatorLater(func() { w.actOnBatch(rec, do) })
}

// operatorLater runs the action of a person some time after the person has read the record, while
// faults happen.
func (w *world) operatorLater(do func()) {
	w.scheduleAfter(w.between(time.Second, 10*time.Second), func() {
		if w.faultsHappen {
			do()
		}
	})
}

// actOnBatch runs a person's decision about a batch that the person saw. If the batch has changed
// since, the action must have no effect.
func (w *world) actOnBatch(seen batch.Record, do func() (batch.Record, error)) {
	before, err := w.store.Get(context.Background(), seen.Key)
	if err != nil {
		w.fail("get: %w", err)
		return
	}
	now, err := do()
	w.addTrace("operator on %s in %s: %v", seen.Key, seen.State, err)
	var moved *batch.MovedOnError
	switch {
	case err == nil && before.Version != seen.Version:
		w.fail("an operator who saw %s at version %d moved it from version %d", seen.Key, seen.Version, before.Version)
	case err == nil && now.State == batch.Queued: // the act was a requeue
		w.placeIsMoved[seen.ID] = true
		w.postsByBatch[seen.ID].unsurePosts = 0
		delete(w.turnDeadlines, seen.ID)
		w.allowOneMore(seen.ID)
	case errors.As(err, &moved) && (before.Version == seen.Version || moved.Now.Version != before.Version):
		w.fail("operator: seen at version %d, now at %d: %w", seen.Version, before.Version, err)
	case err != nil && !errors.Is(err, batch.ErrMovedOn) && !errors.Is(err, batch.ErrNotAllowed) && !errors.Is(err, batch.ErrInDoubt):
		w.fail("operator: %w", err)
	}
}

func (w *world) services() (all []batch.ServiceID) {
	for s := range w.addedBatches {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// steerRandomly pauses, resumes, releases, or sets the policy of, a lane or all lanes.
func (w *world) steerRandomly(service batch.ServiceID) {
	scope := batch.Only(service)
	if w.rng.IntN(4) == 0 {
		scope = batch.Everything()
	}
	s := store.Steering{Scope: scope, By: person}
	switch w.rng.IntN(5) {
	case 0:
		s.Action = batch.ActionPause
	case 1, 2:
		s.Action = batch.ActionResume
	case 3:
		s.Scope, s.Action, s.Policy = batch.Only(service), batch.ActionSetPolicy, batch.Policy(w.rng.IntN(4))
	default:
		s.Scope, s.Action = batch.Only(service), batch.ActionRelease
	}
	if w.rng.IntN(2) == 0 {
		w.steerCurrent(s)
		return
	}
	s.Seen = w.control(s.Scope).Version
	w.operatorLater(func() { w.steerAsSeen(s) })
}

func (w *world) steerCurrent(s store.Steering) {
	s.By, s.Seen = person, w.control(s.Scope).Version
	w.steerAsSeen(s)
}

// steerAsSeen acts on a control that a person saw. If the control has changed since, the action
// must have no effect.
func (w *world) steerAsSeen(s store.Steering) {
	before := w.control(s.Scope)
	c, changed, err := w.store.Steer(context.Background(), s)
	w.addTrace("operator: %s of %s, changed %v, closed %v: %v", s.Action, s.Scope, changed, c.Closed(), err)
	switch moved := s.Action != batch.ActionPause && s.Seen != before.Version; {
	case moved && !errors.Is(err, batch.ErrMovedOn):
		w.fail("an operator who saw the control of %s at version %d changed it at %d: %v", s.Scope, s.Seen, before.Version, err)
	case moved && w.control(s.Scope) != before:
		w.fail("the control of %s was changed, and the operator told that it was not", s.Scope)
	case !moved && err != nil:
		w.fail("steer: %w", err)
	}
}

// resumeAndReleaseAll resumes and releases everything, so that the world can come to rest.
func (w *world) resumeAndReleaseAll() {
	w.steerCurrent(store.Steering{Scope: batch.Everything(), Action: batch.ActionResume})
	for _, s := range w.services() {
		w.steerCurrent(store.Steering{Scope: batch.Only(s), Action: batch.ActionSetPolicy, Policy: batch.PolicyContinue})
		w.steerCurrent(store.Steering{Scope: batch.Only(s), Action: batch.ActionResume})
		w.steerCurrent(store.Steering{Scope: batch.Only(s), Action: batch.ActionRelease})
	}
}

func (w *world) control(scope batch.Scope) batch.Control {
	c, err := w.store.Control(context.Background(), scope)
	if err != nil {
		w.fail("control: %w", err)
	}
	return c
}

// laneIsClosedFunc returns a func that reports whether a lane is closed now.
func (w *world) laneIsClosedFunc() func(batch.ServiceID) bool {
	all := w.control(batch.Everything()).Closed()
	lanes := map[batch.ServiceID]bool{}
	for _, s := range w.services() {
		lanes[s] = w.control(batch.Only(s)).Closed()
	}
	return func(s batch.ServiceID) bool { return all || lanes[s] }
}

// checkPolicy compares a final outcome with the policy of its lane.
func (w *world) checkPolicy(o store.Outcome, a store.Applied) {
	if !a.Ended() || a.From == a.Row.State && o.Finding != store.Settled {
		return
	}
	c := w.control(batch.Only(o.Key.Service))
	switch {
	case c.Policy == batch.PolicyHalt && c.HaltedAt.IsZero():
		w.fail("%s ended %s and its lane was not halted", o.Key, a.Row.State)
	case c.Policy == batch.PolicyQuarantine && !a.Row.Quarantined:
		w.fail("%s ended %s and was not set aside", o.Key, a.Row.State)
	}
}

// allowOneMore does not count one POST of a batch against its budget, because a person has ordered
// it.
func (w *world) allowOneMore(id batch.ID) {
	s := w.postsByBatch[id]
	s.postCount = min(s.postCount, max(0, s.budget.Attempts-1))
}
