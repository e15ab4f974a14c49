package canton

import (
	"context"
	"errors"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

var _ dlt.Resolver = (*Client)(nil)

// evidenceWaits is how many times Options.IdleWait passes without a completion before
// their absence is evidence: a busy participant may be slow to read the first one.
const evidenceWaits = 20

// Resolve implements [dlt.Resolver], from the batch's completions since before its
// first attempt. A success is Committed. No success is NotCommitted once
// Options.LateArrival and Options.DecidedWithin have passed since the last POST
// ended, and InFlight before. It cannot tell where that option is not set, where
// completions were pruned, or where it does not know from which offset to read. The
// error is a [*dlt.Error], or several joined.
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	questions, errs := c.questions(d.Service, []batch.Attempt{d.Attempt})
	q := questions[string(d.ID)]
	if q == nil {
		return dlt.CannotTell, errors.Join(errs...)
	}
	_, complete, err := c.read(ctx, d.Service, questions, evidenceWaits*c.idle)
	switch {
	case q.committed || q.duplicate:
		return dlt.Committed, nil
	case err != nil:
		return dlt.CannotTell, err
	case !complete || q.bounded || q.lost || c.decided == 0:
		return dlt.CannotTell, nil
	case d.Ended < c.traits.LateArrival+c.decided:
		return dlt.InFlight, nil
	}
	return dlt.NotCommitted, nil
}
