package batch

import "fmt"

// Reported is a ledger's answer about a batch. Its bare "unknown" is not the state [Unknown]:
// it may mean many things, and the monitor finds out which.
type Reported uint8

// The answers.
const (
	// ReportedUnknown: the ledger sees no trace of the batch.
	ReportedUnknown Reported = iota + 1
	// ReportedPending: the ledger has the batch, and its outcome is open.
	ReportedPending
	// ReportedValid: the ledger executed the batch, and has not committed it.
	ReportedValid
	// ReportedInvalid: the ledger decided against the batch.
	ReportedInvalid
	// ReportedCommitted: the batch is part of the ledger.
	ReportedCommitted
	// ReportedFailed: the attempt definitely had no effect and may be repeated.
	ReportedFailed
	// ReportedStalled: the ledger has the batch, its outcome is open, and it does not get on.
	// Another attempt may help, such as one with a higher fee. Where a resend is harmless the
	// batch is sent again, as if the ledger had no trace of it, and the budget stays as it is.
	ReportedStalled
	// ReportedVoid: the prepared bytes (Attempt.Prepared of the question), and everything sent
	// with it, had no effect and can have none any more; or nothing was prepared, and so nothing
	// was sent. The next attempt prepares anew.
	ReportedVoid
)

var reportedNames = [...]string{
	ReportedUnknown: "unknown", ReportedPending: "pending", ReportedValid: "valid", ReportedInvalid: "invalid",
	ReportedCommitted: "committed", ReportedFailed: "failed", ReportedStalled: "stalled", ReportedVoid: "void",
}

// String returns the word in lower case.
func (r Reported) String() string {
	if r < ReportedUnknown || r > ReportedVoid {
		return fmt.Sprintf("reported(%d)", uint8(r))
	}
	return reportedNames[r]
}

// Status is a ledger's answer about one batch.
type Status struct {
	ID       ID
	Reported Reported
	// Attempt is the attempt that the answer is about; 0 where the ledger means the batch as a
	// whole.
	Attempt int
	// Receipts are the results of the failed transactions, where the ledger names them.
	Receipts []Receipt
	// Message is the reason, for ReportedInvalid, ReportedFailed and ReportedVoid. For
	// ReportedPending, ReportedStalled and ReportedValid it says what the batch waits for, where
	// the ledger knows: the text of a decision has it then.
	Message string
	// Endpoint names the node that gave this answer itself, if Submit uses the same node at
	// present; "" if not, or if not known. At most 200 bytes. Each node may have a memory of
	// its own, so the answer of one means nothing for another.
	Endpoint string
}

// Receipt is the result of one transaction (the table transaction_receipts).
type Receipt struct {
	TransactionID string `json:"transaction_id"`
	Valid         bool   `json:"valid"`
	Message       string `json:"message,omitzero"`
	Data          []byte `json:"data,omitzero"`
}
