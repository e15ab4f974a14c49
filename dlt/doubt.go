package dlt

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Doubt is an attempt whose outcome is not known, and data that may help to find it.
type Doubt struct {
	// Attempt is the last attempt, with its payload.
	batch.Attempt
	// Since is how long ago the first unresolved attempt was claimed, on the database's clock. No
	// unresolved attempt was posted before that time.
	Since time.Duration
	// Ended is how long ago the last POST ended, or its claim expired, whichever is later.
	Ended time.Duration
	// Witnesses are earlier batches of the same service, latest first, on which the ledger had
	// decided before the first unresolved attempt was claimed. Some ledgers forget batches in the
	// order in which they received them. If such a ledger still knows a witness, but does not know
	// a batch whose first attempt came after the witness, then it has never received that batch.
	Witnesses []batch.ID
}

// Evidence is the finding of [Ledger].Resolve.
type Evidence uint8

// The kinds of evidence. The zero value is CannotTell.
const (
	// CannotTell: the ledger gives no proof. A person may have to decide.
	CannotTell Evidence = iota
	// InFlight: the attempt may still take effect, and a later call may prove more.
	InFlight
	// Committed: the batch is part of the ledger.
	Committed
	// NotCommitted: the attempt, and every unresolved one before it, can no longer take effect.
	NotCommitted
)

// String returns the name in words.
func (e Evidence) String() string {
	return [...]string{"cannot tell", "in flight", "committed", "not committed"}[min(e, NotCommitted)]
}
