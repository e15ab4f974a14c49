package autobatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Await returns the record of an order once it is Confirmed, Failed or Quarantined,
// from any process, whether or not Run runs in this one. None of these is an error. It
// returns [batch.ErrNotFound] for an id that is not stored (an order that was added
// with another's Key is that other one), the store's error, or ctx's.
//
// Any number of Awaits may wait: together they ask the store once in an
// Options.MonitorInterval, and at once about what this process settles.
func (e *Engine) Await(ctx context.Context, id batch.OrderID) (batch.OrderRecord, error) {
	rec, err := e.waiters.Wait(ctx, id)
	if err != nil {
		return rec, fmt.Errorf("await order %s: %w", batch.Excerpt(string(id), 64), err)
	}
	return rec, nil
}

// settled says that this process made orders what the verdicts say.
func (e *Engine) settled(verdicts []store.OrderVerdict) {
	final := make([]batch.OrderID, 0, len(verdicts))
	for _, v := range verdicts {
		if v.State.Final() {
			final = append(final, v.ID)
		}
	}
	e.waiters.Final(final...)
}
