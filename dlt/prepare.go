package dlt

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// MaxPrepared is the largest result of a [Preparer], in bytes.
const MaxPrepared = 4096

// Preparer is a client that must know something before it posts a batch, to find the batch's
// outcome later, also after a crash: on Canton the offset from which completions are read, and
// where the client itself chooses what is sent, all that it has ever sent. A client whose Traits
// declare Prepares implements it.
type Preparer interface {
	// Prepare is called after the claim and before the first POST of a batch. The engine
	// stores the result, at most [MaxPrepared] bytes, with the claim's version, and posts
	// nothing unless that write was applied. From then on every Submit and BatchStatuses, also
	// of later attempts, has it in batch.Attempt.Prepared. An empty or nil result stores
	// nothing: the batch is posted, and Prepare is called again before its next attempt. More
	// than [MaxPrepared] bytes count as ErrMisconfigured.
	//
	// Once bytes are kept, Prepare is called again only where Traits.Renews says so: before each
	// later attempt, with the kept bytes in a.Prepared. It returns them as they are, or with
	// more behind them, which the engine keeps in the same way before it posts. What was kept
	// never changes and never goes, because something may have been sent with it, until the batch
	// is final or the ledger says batch.ReportedVoid. A result that does not begin with the kept
	// bytes counts as ErrMisconfigured.
	//
	// It sends nothing that takes effect, so its error is never doubt: errors.Is finds
	// ErrRejected, ErrBusy, ErrMisconfigured or ErrNotYet, and any other error counts as
	// ErrUnavailable. After an error nothing is posted. It may be called concurrently and must
	// keep nothing of a.
	Prepare(ctx context.Context, a batch.Attempt) ([]byte, error)
}
