package batch

import "time"

// Record is a stored batch as the application sees it, without its payload.
// Times are the database's, in UTC, to the microsecond; zero where they do not apply.
type Record struct {
	Key
	State State `json:"state"`
	// Version is raised by every change of state, claim or operator action. What an
	// operator does is done to the version that the operator saw, or not at all.
	Version int64  `json:"version"`
	Attempt int    `json:"attempt"` // claims so far
	Spent   int    `json:"spent"`   // attempts that count against the budget
	Budget  Budget `json:"budget,omitzero"`

	DataChangeID string    `json:"data_change_id,omitzero"`
	CreatedAt    time.Time `json:"created_at"`        // the order of the lane: when it was added, or put back at the end
	FinalAt      time.Time `json:"final_at,omitzero"` // when the outcome became final

	ClaimExpires time.Time `json:"claim_expires,omitzero"` // Submitting: until when the submitter owns it
	NotBefore    time.Time `json:"not_before,omitzero"`    // Delayed, Unknown, requeued: when it may be claimed
	LastPost     time.Time `json:"last_post,omitzero"`     // end of the last attempt that may have had an effect
	SettlesAt    time.Time `json:"settles_at,omitzero"`    // Invalid: until then it may still be committed

	// DoubtSince is the start of the first attempt whose outcome is not known, one that
	// is just being made included; ResendUntil is until when the ledger declares a
	// resend harmless.
	DoubtSince  time.Time `json:"doubt_since,omitzero"`
	ResendUntil time.Time `json:"resend_until,omitzero"`

	// Error is the last submission error, and why the batch is Rejected or Invalid.
	Error *SubmissionError `json:"error,omitzero"`
	// Decision says why the batch cannot go on by itself; "" where it can.
	Decision string `json:"decision,omitzero"`
	// Receipts of the transactions that the ledger named.
	Receipts []Receipt `json:"receipts,omitzero"`

	// ClaimedBy names the instance that claimed the open batch last.
	ClaimedBy string `json:"claimed_by,omitzero"`
	// Quarantined says that the batch, which is Invalid or Rejected, was set aside by
	// [PolicyQuarantine] and waits for a person.
	Quarantined bool `json:"quarantined,omitzero"`
}

// Final reports whether the outcome is settled: nothing but a late commit or an
// operator changes it any more.
func (r Record) Final() bool { return !r.FinalAt.IsZero() }

// ErrorKind classifies a submission error. The values are stored.
type ErrorKind string

// The kinds of submission errors (the column submission_error).
const (
	KindRejected      ErrorKind = "rejected"      // refused for good
	KindBusy          ErrorKind = "busy"          // not taken, try later
	KindUnavailable   ErrorKind = "unavailable"   // not reached
	KindMisconfigured ErrorKind = "misconfigured" // not taken, nor would any other be
	KindDoubt         ErrorKind = "doubt"         // outcome not known
	KindFailed        ErrorKind = "failed"        // the ledger says: no effect, may be tried again
	KindInvalid       ErrorKind = "invalid"       // decided against
	KindExhausted     ErrorKind = "exhausted"     // budget used up
	KindCancelled     ErrorKind = "cancelled"     // by an operator
)

// MaxErrorText is how much of an error's text is kept, in bytes.
const MaxErrorText = 1024

// SubmissionError is why an attempt ended as it did.
type SubmissionError struct {
	Kind    ErrorKind `json:"kind"`
	Message string    `json:"message,omitzero"` // bounded, printable; never a payload or a token
}

// Error implements error.
func (e *SubmissionError) Error() string {
	if e.Message == "" {
		return string(e.Kind)
	}
	return string(e.Kind) + ": " + e.Message
}
