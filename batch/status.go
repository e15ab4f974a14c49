package batch

import "fmt"

// Reported is what a ledger says of a batch. Its bare "unknown" is not the state
// [Unknown]: it may mean many things, and the monitor finds out which.
type Reported uint8

// What ledgers say.
const (
	// ReportedUnknown: the ledger has no trace of the batch that it can see.
	ReportedUnknown Reported = iota + 1
	// ReportedPending: received, outcome open.
	ReportedPending
	// ReportedValid: executed, not committed.
	ReportedValid
	// ReportedInvalid: decided against.
	ReportedInvalid
	// ReportedCommitted: part of the ledger.
	ReportedCommitted
	// ReportedFailed: the attempt definitely had no effect and may be tried again.
	ReportedFailed
)

var reportedNames = [...]string{
	ReportedUnknown: "unknown", ReportedPending: "pending", ReportedValid: "valid", ReportedInvalid: "invalid",
	ReportedCommitted: "committed", ReportedFailed: "failed",
}

// String returns the word in lower case.
func (r Reported) String() string {
	if r < ReportedUnknown || r > ReportedFailed {
		return fmt.Sprintf("reported(%d)", uint8(r))
	}
	return reportedNames[r]
}

// Status is a ledger's answer about one batch.
type Status struct {
	ID       ID
	Reported Reported
	// Attempt the answer is about; 0 where the ledger speaks of the batch as a whole.
	Attempt int
	// Receipts of the transactions that failed, where the ledger names them.
	Receipts []Receipt
	// Message says why, for ReportedInvalid and ReportedFailed.
	Message string
	// Endpoint names the node that gave this answer itself, where it is also the node that
	// Submit goes to at present; "" where it is not, or not known. At most 200 bytes. Nodes
	// may have a memory each of their own: what one has shown says nothing of another.
	Endpoint string
}

// Receipt is the result of one transaction (the table transaction_receipts).
type Receipt struct {
	TransactionID string `json:"transaction_id"`
	Valid         bool   `json:"valid"`
	Message       string `json:"message,omitzero"`
	Data          []byte `json:"data,omitzero"`
}
