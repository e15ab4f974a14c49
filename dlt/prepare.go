package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxPrepared is the longest that a [Preparer] may return, in bytes.
const MaxPrepared = 1024

// Preparer is a client, one whose Traits say Prepares, that must know something of its ledger from before the first
// POST of a batch, to find out afterwards, and after a crash, what became of it: on
// Canton the offset from which completions are read.
type Preparer interface {
	// Prepare is called after the claim and before the first POST of a batch, and
	// again only where nothing was kept. The bytes, at most [MaxPrepared], are stored
	// by the claim's version, and nothing is posted unless that write was applied;
	// from then on they are in batch.Attempt.Prepared of every Submit and
	// BatchStatuses, for all later attempts too: what was true before the first POST
	// is true before the others. None, nil or empty, says that there is nothing to be
	// known: nothing is kept, the batch is posted, and Prepare is called again before
	// another attempt of it. More than [MaxPrepared] counts as ErrMisconfigured.
	//
	// It sends nothing that takes effect, so that its error is never doubt: errors.Is
	// tells ErrRejected, ErrBusy and ErrMisconfigured, and anything else is taken for
	// ErrUnavailable. It may be called concurrently and keeps nothing of b.
	Prepare(ctx context.Context, b batch.Batch) ([]byte, error)
}
