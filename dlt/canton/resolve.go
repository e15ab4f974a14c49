package canton

import (
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// maxIdleWait limits a wait for completions, so that it is over before the request's time limit.
const maxIdleWait = 10 * time.Second

// evidenceWaits is how many times Options.IdleWait must pass without a completion before a missing
// one is evidence: a busy participant may be slow to read the first completion.
const evidenceWaits = 20

// Resolve implements [dlt.Ledger]. It reads the batch's completions since before its first
// attempt. A success is Committed. No success is NotCommitted in two cases:
//
// First, the last attempt has a completion that rejects it. A participant accepts a submission
// only while no other of the same command is in flight (docs/ledgers/canton.md#deduplication),
// and the earlier attempts had arrived by then or never will. So their outcomes are among the
// completions, and none is a success.
//
// Second, Options.LateArrival and Options.DecidedWithin have passed since the last POST ended;
// before that it is InFlight. A submission that was refused directly proves nothing about
// earlier ones.
//
// The result is CannotTell if neither holds, if completions were pruned, or if the offset to
// read from is not known. The error is a [*dlt.Error], or several joined.
func (c *Client) Resolve(ctx context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	questions, errs := c.questions(d.Service, []batch.Attempt{d.Attempt})
	q := questions[string(d.ID)]
	if q == nil {
		return dlt.CannotTell, errors.Join(errs...)
	}
	idle := c.idleWait
	if c.decidedWithin > 0 {
		idle = max(idle, min(idle*evidenceWaits, maxIdleWait))
	}
	_, complete, err := c.readCompletions(ctx, d.Service, questions, idle)
	switch {
	case q.isCommitted || q.isDuplicate:
		return dlt.Committed, nil
	case err != nil:
		return dlt.CannotTell, err
	case !complete || q.mayHaveEarlier || q.isPruned:
		return dlt.CannotTell, nil
	case d.Number > 0 && q.lastFailure.attempt >= d.Number && q.lastFailure.hasNoEffect:
		return dlt.NotCommitted, nil
	case c.decidedWithin == 0:
		return dlt.CannotTell, nil
	case d.Ended < c.traits.LateArrival+c.decidedWithin:
		return dlt.InFlight, nil
	}
	return dlt.NotCommitted, nil
}
