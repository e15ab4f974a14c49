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

// operate is what a person does now and then, whatever else happens at that moment:
// requeue what is final and not committed, cancel what waits, pause and resume, say
// what becomes of lanes, and release them.
func (w *world) operate() {
	if !w.faulty {
		return
	}
	w.after(w.between(time.Second, 10*time.Second), w.operate)
	services := w.services()
	if len(services) == 0 {
		return
	}
	service := services[w.rng.IntN(len(services))]
	if w.rng.IntN(3) == 0 {
		w.steer(service)
		return
	}
	id := w.acked[service][w.rng.IntN(len(w.acked[service]))]
	key := batch.Key{Service: service, ID: id}
	rec, err := w.store.Get(context.Background(), key)
	if err != nil {
		w.fail("get: %w", err)
		return
	}
	switch {
	case rec.Quarantined && w.rng.IntN(2) == 0:
		_, err = w.store.Acquit(context.Background(), key, person)
	case rec.Final() && rec.State != batch.Committed && w.rng.IntN(2) == 0:
		q := store.Requeue{Quiet: w.kind.traits.ResendQuiet, AtEnd: w.rng.IntN(3) == 0}
		_, err = w.store.Requeue(context.Background(), key, q, person)
		w.moved[id] = true
		w.sent[id].unsure = 0
		w.allowOneMore(id)
	case !rec.Final() && rec.State != batch.Submitting && w.rng.IntN(4) == 0:
		_, err = w.store.Cancel(context.Background(), key, person)
	default:
		return
	}
	w.note("operator on %s in %s: %v", key, rec.State, err)
	if err != nil && !errors.Is(err, batch.ErrNotAllowed) && !errors.Is(err, batch.ErrInDoubt) {
		w.fail("operator: %w", err)
	}
}

func (w *world) services() (all []batch.ServiceID) {
	for s := range w.acked {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// steer changes what holds a lane, or all.
func (w *world) steer(service batch.ServiceID) {
	scope := batch.Only(service)
	if w.rng.IntN(4) == 0 {
		scope = batch.Everything()
	}
	switch w.rng.IntN(5) {
	case 0:
		w.doSteer(store.Steering{Scope: scope, Action: batch.ActionPause})
	case 1, 2:
		w.doSteer(store.Steering{Scope: scope, Action: batch.ActionResume})
	case 3:
		w.doSteer(store.Steering{Scope: batch.Only(service), Action: batch.ActionSetPolicy, Policy: batch.Policy(w.rng.IntN(4))})
	default:
		w.doSteer(store.Steering{Scope: batch.Only(service), Action: batch.ActionRelease})
	}
}

func (w *world) doSteer(s store.Steering) {
	s.By = person
	c, changed, err := w.store.Steer(context.Background(), s)
	if err != nil {
		w.fail("steer: %w", err)
	}
	w.note("operator: %s of %s, changed %v, closed %v", s.Action, s.Scope, changed, c.Closed())
}

// openAll lets everything go on, so that the world can come to rest.
func (w *world) openAll() {
	w.doSteer(store.Steering{Scope: batch.Everything(), Action: batch.ActionResume})
	for _, s := range w.services() {
		w.doSteer(store.Steering{Scope: batch.Only(s), Action: batch.ActionSetPolicy, Policy: batch.PolicyContinue})
		w.doSteer(store.Steering{Scope: batch.Only(s), Action: batch.ActionResume})
		w.doSteer(store.Steering{Scope: batch.Only(s), Action: batch.ActionRelease})
	}
}

func (w *world) control(scope batch.Scope) batch.Control {
	c, err := w.store.Control(context.Background(), scope)
	if err != nil {
		w.fail("control: %w", err)
	}
	return c
}

// closed says of each lane whether it is closed now.
func (w *world) closed() func(batch.ServiceID) bool {
	all := w.control(batch.Everything()).Closed()
	lanes := map[batch.ServiceID]bool{}
	for _, s := range w.services() {
		lanes[s] = w.control(batch.Only(s)).Closed()
	}
	return func(s batch.ServiceID) bool { return all || lanes[s] }
}

// checkPolicy holds what recording made final against its lane's policy.
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

// allowOneMore takes a try out of a batch's budget, which is the person's.
func (w *world) allowOneMore(id batch.ID) {
	s := w.sent[id]
	s.posts = min(s.posts, max(0, s.budget.Attempts-1))
}
