package batch

import "time"

// Record is a stored batch as the application sees it, without its payload.
// Times are the database's, in UTC, to the microsecond; zero where they do not apply.
type Record struct {
	Key
	State State `json:"state"`
	// Version grows with every change of state, claim or operator action. An operator's act
	// applies to the version that the operator saw, or does nothing.
	Version int64  `json:"version"`
	Attempt int    `json:"attempt"` // number of claims so far
	Spent   int    `json:"spent"`   // attempts that count against the budget
	Budget  Budget `json:"budget,omitzero"`

	DataChangeID string    `json:"data_change_id,omitzero"`
	Tags         Tags      `json:"tags,omitzero"`
	CreatedAt    time.Time `json:"created_at"`        // when it was added, which is its place in the lane
	FinalAt      time.Time `json:"final_at,omitzero"` // when the outcome became final

	ClaimExpires time.Time `json:"claim_expires,omitzero"` // in state Submitting: end of the claim, until which the submitter owns the batch
	NotBefore    time.Time `json:"not_before,omitzero"`    // in states Delayed and Unknown, and after a requeue: when the batch may be claimed
	LastPost     time.Time `json:"last_post,omitzero"`     // end of the last attempt that may have had an effect
	SettlesAt    time.Time `json:"settles_at,omitzero"`    // in state Invalid: when the ledger can no longer commit the batch

	// DoubtSince is the start of the first attempt whose outcome is not known; an attempt in
	// progress counts. ResendUntil is the end of the time in which the ledger declares a
	// resend harmless.
	DoubtSince  time.Time `json:"doubt_since,omitzero"`
	ResendUntil time.Time `json:"resend_until,omitzero"`

	// Error is the last submission error, and the reason why the batch is Rejected or Invalid.
	Error *SubmissionError `json:"error,omitzero"`
	// Decision is why a person was called about the batch, since it moved last; "" where nobody
	// was.
	Decision string `json:"decision,omitzero"`
	// Receipts are the results of the transactions that the ledger named.
	Receipts []Receipt `json:"receipts,omitzero"`

	// ClaimedBy names the instance of the last claim of the open batch.
	ClaimedBy string `json:"claimed_by,omitzero"`
	// Quarantined is true if [PolicyQuarantine] set the Invalid or Rejected batch aside, for a
	// person to look at.
	Quarantined bool `json:"quarantined,omitzero"`
	// Withdrawn is true if a person has withdrawn the open batch: the ledger is asked to keep it
	// from taking effect. The batch ends Rejected once it is certain that it has no effect, and as
	// usual if it has taken effect before.
	Withdrawn bool `json:"withdrawn,omitzero"`
	// PrunedAt is when retention removed the batch. Then the record has the key, the state, the
	// version, the number of attempts, the error, CreatedAt and FinalAt: nothing else is kept, and
	// nobody can act on the batch any more.
	PrunedAt time.Time `json:"pruned_at,omitzero"`
	// TraceParent is the trace context that was added with the batch ([Batch].TraceParent).
	TraceParent string `json:"trace_parent,omitzero"`
}

// Final reports whether the outcome is settled: only a late commit or an operator can still
// change it.
func (r Record) Final() bool { return !r.FinalAt.IsZero() }

// String returns the key and the state, such as "service/id: pending".
func (r Record) String() string { return r.Key.String() + ": " + r.State.String() }

// ErrorKind classifies a submission error. The values are stored.
type ErrorKind string

// The kinds of submission errors (the column submission_error).
const (
	KindRejected      ErrorKind = "rejected"      // the ledger refused the batch for good
	KindBusy          ErrorKind = "busy"          // not accepted, because the ledger is busy; may be sent later
	KindUnavailable   ErrorKind = "unavailable"   // the ledger was not reached
	KindMisconfigured ErrorKind = "misconfigured" // not accepted; the ledger would accept no batch of this client
	KindNotYet        ErrorKind = "not_yet"       // not accepted; the ledger cannot take this batch yet
	KindDoubt         ErrorKind = "doubt"         // the outcome of the attempt is not known
	KindFailed        ErrorKind = "failed"        // the ledger reports that the attempt had no effect; may be repeated
	KindInvalid       ErrorKind = "invalid"       // the ledger decided against the batch
	KindExhausted     ErrorKind = "exhausted"     // the budget is used up
	KindCancelled     ErrorKind = "cancelled"     // an operator cancelled the batch
	KindGivenUp       ErrorKind = "given_up"      // an operator ended the batch, although an attempt may still take effect
)

// ErrorKinds returns all kinds of submission errors.
func ErrorKinds() []ErrorKind {
	return []ErrorKind{
		KindRejected, KindBusy, KindUnavailable, KindMisconfigured, KindNotYet, KindDoubt, KindFailed, KindInvalid, KindExhausted,
		KindCancelled, KindGivenUp,
	}
}

// MaxErrorText is the largest part of an error's text that is kept, in bytes.
const MaxErrorText = 1024

// maxKindLen bounds an error's kind; the known kinds are shorter.
const maxKindLen = 32

// SubmissionError is the reason why an attempt ended as it did.
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

// Sanitised returns a copy that any database takes: valid UTF-8, no control characters, bounded.
// It is nil for nil.
func (e *SubmissionError) Sanitised() *SubmissionError {
	if e == nil {
		return nil
	}
	return &SubmissionError{Kind: ErrorKind(Excerpt(string(e.Kind), maxKindLen)), Message: Excerpt(e.Message, MaxErrorText)}
}
