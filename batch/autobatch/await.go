package autobatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// Await returns the record of an order once it is Confirmed, Failed or Quarantined; none of
// these is an error. It works in any process, whether or not Run runs there. It returns
// [batch.ErrNotFound] for an id that is not stored, the store's error, or ctx's error. An
// order that was added with the Key of another order is that other order, and has its id.
//
// Any number of Awaits may wait. Together they ask the store once in an
// Options.MonitorInterval, and at once about orders that this process settles, or of which another
// one tells.
func (e *Engine) Await(ctx context.Context, id order.ID) (order.Record, error) {
	rec, err := e.waiters.Wait(ctx, id)
	if err != nil {
		return rec, fmt.Errorf("await order %s: %w", batch.Excerpt(string(id), 64), err)
	}
	return rec, nil
}
