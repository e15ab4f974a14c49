package dltbatch

import (
	"context"
	"fmt"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// order is the memory of an engine whose strategy relies on a ledger that keeps the order of
// submission. For other strategies the pointer is nil.
type order struct {
	mu sync.Mutex
	// tails are the last batches of the runs that are out, by lane: nothing of a lane leaves
	// before its whole run is acknowledged, and an earlier look would be in vain. It is a hint
	// like any other: a scan finds a lane whose tail gets no outcome.
	tails map[batch.ServiceID]batch.ID
}

// claimed remembers a run's last batch.
func (o *order) claimed(run store.ClaimedRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tails[run.Service] = run.Batches[len(run.Batches)-1].Key.ID
}

// acknowledged reports whether a run has ended with this outcome.
func (o *order) acknowledged(out store.Outcome) bool {
	if o == nil || out.By != batch.BySubmitter {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tails[out.Key.Service] != out.Key.ID {
		return false
	}
	delete(o.tails, out.Key.Service)
	return true
}

// out reports whether a run of the lane is out.
func (o *order) out(service batch.ServiceID) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, is := o.tails[service]
	return is
}

// claimed reports the batches of a run that the ledger had accepted and lost, and that are sent
// again behind others, before they are sent.
func (e *engine) claimed(run store.ClaimedRun) {
	if e.order == nil {
		return
	}
	e.order.claimed(run)
	forgets := e.r.ledger.Traits(run.Service).ResendHarmlessFor != dlt.Forever
	for i, c := range run.Batches {
		if !c.Again {
			continue
		}
		if err := e.sentBehind(run, i, forgets); err != nil {
			e.r.breach(c.Key, batch.Submitting, c.Attempt, err)
		}
	}
}

// sentBehind returns an error if the i-th batch of a run is sent again behind a batch of its
// lane that may have been executed. An Unknown batch may have been: in a restart some ledgers
// forget even batches that they have reported. So may a batch of the same run, where it is in
// doubt and the ledger forgets.
func (e *engine) sentBehind(run store.ClaimedRun, i int, forgets bool) error {
	if in := run.InDoubtAfter(i); forgets && in != "" {
		return fmt.Errorf("sent again, perhaps behind %s, which is in doubt and was to come after it", in)
	}
	return e.behind(run.Batches[i].Key, "sent again", batch.Committed, batch.Pending, batch.Valid, batch.Unknown)
}

// overtaken returns an error if the ledger executes a batch that it had decided against, or
// that was taken for lost, and batches that left after it may have gone ahead. It is nil for a
// batch that keeps its place.
func (e *engine) overtaken(o store.Outcome, a store.Applied) error {
	if e.order == nil || o.By != batch.ByMonitor {
		return nil
	}
	to := a.Row.State
	again := to == batch.Committed || to == batch.Pending || to == batch.Valid
	if !again || (a.From != batch.Invalid && !a.From.Claimable()) {
		return nil
	}
	return e.behind(o.Key, fmt.Sprintf("was %s, and the ledger executes it after all", a.From),
		batch.Committed, batch.Pending, batch.Valid, batch.Submitting)
}

// behind names another batch, in one of the states, that a batch follows although it should
// come first; nil if no batch does. It asks the store, so it is called for few batches.
// Without an answer it returns an error, since there may be one.
func (e *engine) behind(key batch.Key, why string, in ...batch.State) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.r.o.ClaimTTL/4)
	defer cancel()
	var ahead batch.ID
	err := loop.Retry(ctx, func(err error) { e.r.trouble("order", err) }, func() (err error) {
		ahead, err = store.Ahead(ctx, e.r.store, key, in...)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s, perhaps behind others: %w", why, err)
	case ahead != "":
		return fmt.Errorf("%s, behind %s, which was to come after it", why, ahead)
	}
	return nil
}

func (r *Runner) breach(key batch.Key, s batch.State, attempt int, err error) {
	r.observe(context.Background(), batch.Event{Kind: batch.EventOrderBreach, Key: key, State: s, Attempt: attempt, Err: err})
}
