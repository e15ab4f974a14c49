package batch

import "time"

// Cause is the reason why a batch does not move.
type Cause string

// The causes. CauseFinal and CauseQuarantined are for final batches, the others for open ones.
const (
	// CauseReady: nothing holds the batch. The next round of any running instance takes it.
	CauseReady Cause = "ready"
	// CausePaused: an operator paused its lane or everything; Control names the person and the
	// reason.
	CausePaused Cause = "paused"
	// CauseHalted: nothing leaves until an operator releases the lane. Blocker is the batch
	// that halted it: it ended Invalid or Rejected, by [PolicyHalt], or [Control].HaltReason
	// gives another reason.
	CauseHalted Cause = "halted"
	// CauseDelayed: the batch waits for its not-before time, after a failure or a requeue.
	CauseDelayed Cause = "delayed"
	// CauseBehind: an earlier batch of its lane has to be final first. Blocker is that batch.
	// If the two conflict, Address is an address at which they do.
	CauseBehind Cause = "behind"
	// CauseInFlight: the ledger takes no more of this lane, because of the batches in flight
	// and the batches that leave first. Blocker is the first in flight.
	CauseInFlight Cause = "in_flight"
	// CauseHeld: nothing is wrong with its lane, but the strategy takes nothing from it or
	// gives a bad answer.
	CauseHeld Cause = "held"
	// CauseUnserved: the ledger of the Runner that answers does not serve the batch's service, or,
	// where no Runner answers, none of the live instances does; Decision gives the reason.
	CauseUnserved Cause = "unserved"
	// CauseClaimed: the instance ClaimedBy makes an attempt.
	CauseClaimed Cause = "claimed"
	// CauseInDoubt: an attempt's outcome is not known. The ledger is asked about it
	// before anything is sent again.
	CauseInDoubt Cause = "in_doubt"
	// CauseDecision: nothing more can be found out; Decision gives the reason.
	CauseDecision Cause = "decision"
	// CauseLedger: the ledger accepted the batch, and has not decided on it yet.
	CauseLedger Cause = "ledger"
	// CauseSettling: the ledger decided against the batch and may still commit it.
	CauseSettling Cause = "settling"
	// CauseFinal: the batch is final, and nothing moves it.
	CauseFinal Cause = "final"
	// CauseQuarantined: the batch is final, and [PolicyQuarantine] set it aside.
	CauseQuarantined Cause = "quarantined"
)

// Remedy is the action that would move a batch.
type Remedy string

// The remedies.
const (
	// RemedyWait: the batch moves by itself if an instance runs. Next is when, if that is
	// known.
	RemedyWait Remedy = "wait"
	// RemedyResume: resume Control's scope.
	RemedyResume Remedy = "resume"
	// RemedyRelease: release the batch's lane.
	RemedyRelease Remedy = "release"
	// RemedyBlocker: Blocker has to be final first; explain Blocker next.
	RemedyBlocker Remedy = "blocker"
	// RemedyDecide: a person decides the doubt.
	RemedyDecide Remedy = "decide"
	// RemedyStrategy: the Runner's strategy must be corrected.
	RemedyStrategy Remedy = "strategy"
	// RemedyLedger: the Runner needs another ledger, or other options.
	RemedyLedger Remedy = "ledger"
	// RemedyRequeue: nothing has to be done; a requeue would send the batch again.
	RemedyRequeue Remedy = "requeue"
	// RemedyNone: the batch is committed, or it has ended for good and is not requeued.
	RemedyNone Remedy = "none"
)

// Explanation is why a batch does not move, and how it would. It was true at one moment.
type Explanation struct {
	Key
	// Version is the version of the explained batch; the remedy applies to it.
	Version int64     `json:"version"`
	At      time.Time `json:"at"` // the database's clock
	State   State     `json:"state"`
	// Owner is the actor that moves the batch on; 0 where the batch is final.
	Owner Actor `json:"owner"`
	Cause Cause `json:"cause"`
	// Blocker is the batch that is in the way; the zero Key where there is none.
	Blocker Key `json:"blocker,omitzero"`
	// Address is an address at which the two batches conflict, in the ledger's notation; ""
	// where the batch waits for another reason.
	Address string `json:"address,omitzero"`
	// Control is the pause or the halt, with CausePaused and CauseHalted.
	Control Control `json:"control,omitzero"`
	// ClaimedBy is the instance that claimed the batch last; ClaimLeft is the rest of its
	// claim.
	ClaimedBy string        `json:"claimed_by,omitzero"`
	ClaimLeft time.Duration `json:"claim_left_ns,omitzero"`
	// LastError is the error of the last attempt that failed.
	LastError *SubmissionError `json:"last_error,omitzero"`
	// Decision is why a person was called; "" where nobody was. The batch may go on by itself all
	// the same, as Cause says. With CauseUnserved it is the fault of the ledger or the options.
	Decision string `json:"decision,omitzero"`
	// Withdrawn is true if a person has withdrawn the batch. What takes effect on the ledger then
	// decides.
	Withdrawn bool `json:"withdrawn,omitzero"`
	// Attempts is the number of attempts so far.
	Attempts int `json:"attempts"`
	// Doubt is the first attempt whose outcome is not known; 0 where no attempt is in doubt. Later
	// attempts may have been made since.
	Doubt int `json:"doubt,omitzero"`
	// Next is how long it takes, from now, until the owner may next do something with the batch; 0
	// where it may now, or where that time is not known.
	Next time.Duration `json:"next_ns,omitzero"`
	// Remedy is the action that would move the batch.
	Remedy Remedy `json:"remedy"`
	// Text is the whole explanation in a sentence or two, for people.
	Text string `json:"text"`
}

// String returns the key and the text.
func (e Explanation) String() string { return e.Key.String() + ": " + e.Text }

// Seen returns a record for the operator's act that follows the explanation. If the batch has
// moved on since, the act does nothing.
func (e Explanation) Seen() Record { return Record{Key: e.Key, Version: e.Version} }
