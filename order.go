package dltbatch

import (
	"context"
	"fmt"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// order is what an engine keeps whose strategy relies on the ledger's keeping the
// order of submission. The nil pointer is that of any other.
type order struct {
	mu sync.Mutex
	// tails are the last batches of the runs that are out, by lane: nothing of a lane
	// leaves before all of its run is acknowledged, and looking sooner would be in vain.
	// It is a hint like any other: a lane whose tail is never heard of is found by a scan.
	tails map[batch.ServiceID]batch.ID
}

// claimed is told of the claims of a run, in order.
func (o *order) claimed(key batch.Key) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tails[key.Service] = key.ID
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

// claimed reports a batch that the ledger had accepted and lost, and that is sent again
// behind others, before it is sent.
func (e *engine) claimed(c store.Claim) {
	e.order.claimed(c.Key)
	if e.order == nil || !c.Again {
		return
	}
	// What is Submitting is of its own run, and behind it. What is Unknown may have been
	// executed: the ledger forgets in a restart what it has told of, too.
	if err := e.behind(c.Key, "sent again", batch.Committed, batch.Pending, batch.Valid, batch.Unknown); err != nil {
		e.r.breach(c.Key, batch.Submitting, c.Attempt, err)
	}
}

// overtaken says what is amiss where the ledger executes a batch that it had decided
// against, or that was taken for lost: what had left after it may have gone ahead.
// It is nil for all that keeps its place.
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

// behind says which other batch, in one of the states, a batch follows that should follow
// it, if there is one. It asks the store, which few batches need. Without an answer there
// may be one.
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
