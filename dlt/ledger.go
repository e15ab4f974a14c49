package dlt

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Ledger is what a client implements. All methods may be called concurrently.
// A client never retries and never resends by itself: the engine does, and it
// counts every attempt before it is made.
type Ledger interface {
	Submitter
	BatchStatusReader
	// Traits says what can be relied on for a service. It is pure and quick, and
	// its answer for a service does not change while the client lives.
	Traits(service batch.ServiceID) Traits
}

// Submitter sends batches.
type Submitter interface {
	// Submit makes one attempt. It returns nil once the ledger has accepted the
	// batch for processing; errors.Is tells the rest:
	//
	//	ErrRejected       this batch is refused for good
	//	ErrBusy           certainly not taken, try later (RetryAfter may say when)
	//	ErrUnavailable    certainly not taken: connection refused, no route
	//	ErrMisconfigured  certainly not taken, and no other batch would be
	//
	// Anything else, a done context included, is doubt: the attempt may have taken
	// effect or may yet do so. Submit returns soon after ctx is done and does not
	// keep a.Payload.
	Submit(ctx context.Context, a batch.Attempt) error
}

// BatchStatusReader tells what became of batches (docs/glossary.md#dlt-polling-monitor).
type BatchStatusReader interface {
	// BatchStatuses asks about attempts of one service, or of any services where
	// Traits.GroupsByService is false. At most Traits.MaxIDsPerQuery are passed.
	// Answers come in any order and are matched by id; one that is missing is asked
	// again. Where only a part could be had, both results are set. A word that the
	// client does not know is an error, never a status. attempts are without
	// payloads and are not kept.
	BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error)
}

// Resolver finds proof of what became of an attempt in doubt. A client whose
// Traits say Resolves implements it.
type Resolver interface {
	// Resolve is called only after Traits.LateArrival. NotCommitted means that the
	// attempt, and every unresolved one before it, can no longer take effect. It does
	// not keep d.Payload or d.Witnesses.
	//
	// An attempt is posted only once Traits.LateArrival has passed since the end of each
	// unresolved one before it, so that one which the ledger took found nothing of them
	// on its way. (A person who declares them not committed answers for that.)
	Resolve(ctx context.Context, d Doubt) (Evidence, error)
}

// Doubt is an attempt whose outcome is not known, and what may help to find it.
type Doubt struct {
	// Attempt is the last one, with its payload.
	batch.Attempt
	// Since is how long ago the first unresolved attempt was claimed, on the
	// database's clock: nothing of it was posted before.
	Since time.Duration
	// Ended is how long ago the last POST ended, or its claim expired, which is later.
	Ended time.Duration
	// Witnesses are earlier batches of the same service, latest first, on which the
	// ledger had decided before the first unresolved attempt was claimed. A ledger that
	// forgets in the order it learned, and still knows one of them, has never seen a
	// batch that it does not know and that had no attempt before the unresolved ones.
	Witnesses []batch.ID
}

// Checker is the local check before Add. A client whose Traits say Checks implements it.
type Checker interface {
	// Check returns a [*batch.InputError] for a batch that the ledger would refuse
	// or choke on, and nil for any other. It is pure.
	Check(b batch.Batch) error
}

// Evidence is what a [Resolver] found.
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
