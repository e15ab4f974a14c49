package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxPrepared is the largest result of a [Preparer], in bytes.
const MaxPrepared = 1024

// Preparer is a client that must read something from its ledger before the first POST of a
// batch, to find the batch's outcome later, also after a crash. On Canton it is the offset
// from which completions are read. A client whose Traits declare Prepares implements it.
type Preparer interface {
	// Prepare is called after the claim and before the first POST of a batch. The engine
	// stores the result, at most [MaxPrepared] bytes, with the claim's version, and posts
	// nothing unless that write was applied. From then on every Submit and BatchStatuses, also
	// of later attempts, has it in batch.Attempt.Prepared: a fact from before the first POST
	// holds for all others. An empty or nil result stores nothing: the batch is posted, and
	// Prepare is called again before its next attempt. More than [MaxPrepared] bytes count as
	// ErrMisconfigured.
	//
	// It sends nothing that takes effect, so its error is never doubt: errors.Is finds
	// ErrRejected, ErrBusy, ErrMisconfigured or ErrNotYet, and any other error counts as
	// ErrUnavailable.
	// It may be called concurrently and must keep nothing of b.
	Prepare(ctx context.Context, b batch.Batch) ([]byte, error)
}
