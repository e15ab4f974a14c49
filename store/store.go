package store

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Store is what a driver implements. All methods may be called concurrently, from
// any number of processes on one database.
type Store interface {
	BatchStore
	Engine
	Operator
}

// BatchStore is the application's half.
type BatchStore interface {
	// Add stores all batches of the call, or none, in the order of the slice. nil
	// promises that they are durable. Adds of a service that do not overlap keep
	// their order. A batch whose id is stored with the same service and payload is
	// left as it is and counts as stored; with another service or payload the error
	// is [batch.ErrConflict]. An invalid batch gives a [*batch.InputError]. Any other
	// error leaves open whether the call was stored: add again, it is harmless.
	// The slice is not kept.
	Add(ctx context.Context, batches ...batch.Batch) error
	// Get returns the record of a batch, open or final, or [batch.ErrNotFound].
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	// List returns records in the order of (CreatedAt, ID) and the cursor to go on
	// with, "" at the end. It is for people and tools, not for hot paths.
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
	// Prune removes final batches, oldest first, and returns how many. It never
	// touches one that is open.
	Prune(ctx context.Context, q PruneQuery) (int, error)
}

// ListQuery selects records; zero fields select all.
type ListQuery struct {
	Service *batch.ServiceID
	States  []batch.State
	// Open selects what is not final, whatever its state.
	Open bool
	// Limit is how many records at most. Defaults to 100, at most 1,000.
	Limit int
	// After goes on from an earlier call's cursor.
	After Cursor
}

// Cursor is a place in a list. It is opaque.
type Cursor string

// PruneQuery says what to remove.
type PruneQuery struct {
	// OlderThan is how long a batch must have been final, on the database's clock.
	OlderThan time.Duration
	// Limit is how many at most. Defaults to 500.
	Limit int
	// Tombstones keeps (key, hash), so that a late Add of the same id does not send
	// it again. For ledgers where a resend is not harmless for ever.
	Tombstones bool
}

// Engine is the half that the loops use. Methods do not retry: the loops do.
// Slices that are passed in are not kept; those returned belong to the caller.
type Engine interface {
	// Lanes lists services that have open batches, in byte order after q.After: what
	// the queuer's rotating scan reads. It locks nothing.
	Lanes(ctx context.Context, q LanesQuery) ([]batch.ServiceID, error)
	// Claim looks at the lanes named, asks choose what to take from each, and marks it
	// Submitting in one transaction. Lanes that another claim holds are skipped and
	// named in Claimed.Locked.
	Claim(ctx context.Context, q ClaimQuery, choose Choose) (Claimed, error)
	// Payloads returns the payloads of claimed batches in the order of refs; nil
	// where there is no such batch.
	Payloads(ctx context.Context, refs []Ref) ([][]byte, error)
	// Record applies what became of attempts, in groups, each by compare-and-set on
	// its version. One that is fenced or bad fails alone, in its place in the result.
	// An error means that nothing is known to be applied: call again with the same
	// outcomes, which is harmless.
	Record(ctx context.Context, outcomes []Outcome) ([]Applied, error)
	// Pending selects due rows that the monitor owns (Pending, Valid, unsettled Invalid,
	// Submitting with an expired claim), least recently asked first, then in order, and
	// leases them by moving their next check forward, without raising versions.
	Pending(ctx context.Context, q PendingQuery) ([]InFlight, error)
	// Checked says when to ask next about rows that stay as they are.
	Checked(ctx context.Context, due []Due) error
	// Ledger records the ledger's name if none is recorded, and returns the one that is.
	Ledger(ctx context.Context, name string) (string, error)
}

// Operator is what a person may do to a stored batch. Each returns
// [batch.ErrNotFound], [batch.ErrNotAllowed] where the state table has no such
// move, or [batch.ErrInDoubt].
type Operator interface {
	// Cancel moves a Queued or Delayed batch to Rejected. Never while a doubt is open.
	Cancel(ctx context.Context, key batch.Key, reason string) (batch.Record, error)
	// Requeue moves an Invalid or Rejected batch back to its old place in its lane,
	// not before quiet (the ledger's ResendQuiet) has passed since its last POST.
	Requeue(ctx context.Context, key batch.Key, quiet time.Duration) (batch.Record, error)
	// Decide ends a doubt: to Committed, Unknown (declared not committed, so that it is
	// sent again) or Rejected. The claim must have expired.
	Decide(ctx context.Context, key batch.Key, to batch.State, reason string) (batch.Record, error)
}

// Ref names a stored batch. Row is the store's own number for it, opaque to
// everybody else; 0 where it is not known.
type Ref struct {
	Key batch.Key
	Row int64
}

// Choose is asked what to take from a lane. It is pure and quick, runs inside the
// claiming transaction, and must not call the store. A position that is not
// claimable and ready is ignored.
type Choose func(lane batch.Lane) []batch.Run

// Resend is what a ledger declares about sending again.
type Resend struct {
	HarmlessFor time.Duration
	LateArrival time.Duration
}

// LanesQuery asks for services that have open batches.
type LanesQuery struct {
	// After is the last service of the call before; Start says that there was none
	// ("" is a service like any other).
	After batch.ServiceID
	Start bool
	Limit int // at most; must be positive
}

// ClaimQuery asks for batches.
type ClaimQuery struct {
	Lanes  []batch.ServiceID // looked at in this order
	Limit  int               // batches at most
	Window int               // queued batches of a lane shown to choose, at least 1
	TTL    time.Duration     // of the claims, on the database's clock
	// Resend is asked once for each lane; nil means that nothing is ever harmless.
	Resend func(batch.ServiceID) Resend
}

// Claimed is what a Claim took.
type Claimed struct {
	Runs []ClaimedRun
	// Locked lanes were held by another claim: try them again.
	Locked []batch.ServiceID
	// Left lanes were not looked at, or not to their end, because of Limit.
	Left []batch.ServiceID
	// NextReady is how long until the first batch of these lanes that waits for its
	// not-before time becomes ready; 0 where none does.
	NextReady time.Duration
}

// ClaimedRun is batches of one lane that are posted one after the other.
type ClaimedRun struct {
	Service batch.ServiceID
	Batches []Claim
}

// Claim is the right to make one attempt.
type Claim struct {
	Ref
	Version  int64       // as raised by the claim; its outcome carries it
	From     batch.State // where an unposted batch is put back to
	Attempt  int
	Spent    int // this attempt included where every try spends
	Failures int // certain failures in a row before this attempt
	Budget   batch.Budget
	// Doubt says that an earlier attempt is unresolved.
	Doubt bool
}

// PendingQuery asks for due rows.
type PendingQuery struct {
	Limit int           // at most; must be positive
	Lease time.Duration // until when nobody else gets them
}

// InFlight is a row that the monitor asks the ledger about. Ages and times left are
// durations on the database's clock.
type InFlight struct {
	Ref
	Version int64
	State   batch.State
	Attempt int
	Spent   int
	Budget  batch.Budget
	// PostedAgo is since the last POST that may have had an effect ended; of an attempt
	// in doubt, since its claim expired, which is later.
	PostedAgo time.Duration
	// Resends is how many POSTs followed the first unresolved attempt.
	Resends int
	// ResendLeft is for how long a resend stays harmless; negative when it no longer is.
	ResendLeft time.Duration
	// SettleLeft is how long an Invalid may still become Committed.
	SettleLeft time.Duration
	// DoubtAttempt is the first unresolved attempt.
	DoubtAttempt int
	Failures     int // certain failures in a row; a doubt ends the row
	// Ended says that the last POST is known to have ended: the doubt was recorded.
	// Otherwise the claim has expired on the database's clock, and its request may
	// still be under way if that clock jumped.
	Ended     bool
	Refused   bool // an error is kept that becomes final once the doubt is resolved
	Requeued  bool // verdicts from before the requeue may still be reported
	Undecided bool // already reported as needing a decision
}

// Due says when to ask next.
type Due struct {
	Ref
	In time.Duration
}
