package dlt

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Ledger is the interface of a client. All methods may be called concurrently. A client never
// retries and never resends by itself: the engine does, and it counts every attempt
// beforehand.
type Ledger interface {
	Submitter
	BatchStatusReader
	// Traits returns the properties that the engine relies on for a service. It is pure and
	// quick, and its answer for a service does not change while the client lives.
	Traits(service batch.ServiceID) Traits
}

// Submitter sends batches.
type Submitter interface {
	// Submit makes one attempt. It returns nil once the ledger has accepted the batch for
	// processing. errors.Is distinguishes the failures:
	//
	//	ErrRejected       this batch is refused for good
	//	ErrBusy           certainly not accepted, try later ([Error].RetryAfter may say when)
	//	ErrUnavailable    certainly not accepted: connection refused, no route
	//	ErrMisconfigured  certainly not accepted, nor would any other batch be
	//	ErrNotYet         certainly not accepted, and nothing is said of other batches: try
	//	                  this one later
	//
	// Any other error, also after ctx is done, is doubt: the attempt may have taken effect or
	// may yet do so. The bare error is enough; an [*Error] adds facts such as RetryAfter and the
	// endpoint. Submit returns soon after ctx is done and must not keep a.Payload.
	Submit(ctx context.Context, a batch.Attempt) error
}

// BatchStatusReader reads the outcomes of batches (docs/glossary.md#dlt-polling-monitor).
type BatchStatusReader interface {
	// BatchStatuses asks about attempts of one service, or of any services if
	// Traits.GroupsByService is false. It gets at most Traits.MaxIDsPerQuery attempts, without
	// payloads, and must not keep the slice. Answers come in any order and are matched by id;
	// the caller asks again about missing ones. If only some answers came, both results are
	// set. A word that the client does not know is an error, never a status.
	BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error)
}

// Resolver proves the outcome of an attempt in doubt. A client whose Traits declare Resolves
// implements it.
type Resolver interface {
	// Resolve is called only after Traits.LateArrival. NotCommitted means that the attempt,
	// and every unresolved one before it, can no longer take effect. Resolve must not keep
	// d.Payload or d.Witnesses.
	//
	// An attempt is posted only once Traits.LateArrival has passed since the end of each
	// unresolved one before it. So when the ledger accepted an attempt, no earlier one was
	// still on its way to it. (The exception is a person who declares them not committed.)
	Resolve(ctx context.Context, d Doubt) (Evidence, error)
}

// Doubt is an attempt whose outcome is not known, and data that may help to find it.
type Doubt struct {
	// Attempt is the last attempt, with its payload.
	batch.Attempt
	// Since is how long ago the first unresolved attempt was claimed, on the database's clock.
	// None of the unresolved attempts was posted before.
	Since time.Duration
	// Ended is how long ago the last POST ended, or its claim expired, whichever is later.
	Ended time.Duration
	// Witnesses are earlier batches of the same service, latest first, on which the ledger had
	// decided before the first unresolved attempt was claimed. Some ledgers forget batches in
	// the order in which they learned of them. If such a ledger still knows a witness, but not
	// a batch whose first attempt came after it, it has never seen that batch.
	Witnesses []batch.ID
}

// Checker is the local check before Add. A client whose Traits declare Checks implements it.
type Checker interface {
	// Check returns a [*batch.InputError] for a batch that the ledger would refuse or fail to
	// process, and nil for any other. It is pure.
	Check(b batch.Batch) error
}

// Evidence is the finding of a [Resolver].
type Evidence uint8

// The kinds of evidence. The zero value is CannotTell.
const (
	CannotTell Evidence = iota
	InFlight
	Committed
	NotCommitted
)

// String returns the name in words.
func (e Evidence) String() string {
	return [...]string{"cannot tell", "in flight", "committed", "not committed"}[min(e, NotCommitted)]
}
