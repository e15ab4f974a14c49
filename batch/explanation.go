package batch

import "time"

// Cause is why a batch stands where it stands.
type Cause string

// The causes of an open batch's standing where it stands, and the two of a final one.
const (
	// CauseReady: nothing holds it. The next round of any running instance takes it.
	CauseReady Cause = "ready"
	// CausePaused: an operator paused its lane or everything; Control says who and why.
	CausePaused Cause = "paused"
	// CauseHalted: nothing leaves until the lane is released. A batch of it ended Invalid or
	// Rejected, by [PolicyHalt], or [Control].HaltReason says why. Blocker is that batch.
	CauseHalted Cause = "halted"
	// CauseDelayed: it waits for its not-before time, after a failure or a requeue.
	CauseDelayed Cause = "delayed"
	// CauseBehind: an earlier batch of its lane has to be final first. Blocker is the
	// one, Address an address where they meet, where that is why.
	CauseBehind Cause = "behind"
	// CauseInFlight: as much of its lane is under way as its ledger takes, or will be with
	// what leaves before it. Blocker is the first of those.
	CauseInFlight Cause = "in_flight"
	// CauseHeld: its lane is as it should be, and the strategy takes nothing from it or
	// gives a bad answer.
	CauseHeld Cause = "held"
	// CauseUnserved: the ledger of the Runner that was asked does not serve its service;
	// Decision says why.
	CauseUnserved Cause = "unserved"
	// CauseClaimed: the instance ClaimedBy makes an attempt.
	CauseClaimed Cause = "claimed"
	// CauseInDoubt: an attempt's outcome is not known. The ledger is asked about it
	// before anything is sent again.
	CauseInDoubt Cause = "in_doubt"
	// CauseDecision: nothing more can be found out; Decision says why.
	CauseDecision Cause = "decision"
	// CauseLedger: it was accepted, and the ledger has not decided on it yet.
	CauseLedger Cause = "ledger"
	// CauseSettling: the ledger decided against it and may still commit it.
	CauseSettling Cause = "settling"
	// CauseFinal: it is final, and nothing moves it.
	CauseFinal Cause = "final"
	// CauseQuarantined: it is final and was set aside by [PolicyQuarantine].
	CauseQuarantined Cause = "quarantined"
)

// Remedy is what would move a batch.
type Remedy string

// The remedies.
const (
	// RemedyWait: it moves by itself, where an instance runs; Next says when, where that
	// is known.
	RemedyWait Remedy = "wait"
	// RemedyResume: resume Control's scope.
	RemedyResume Remedy = "resume"
	// RemedyRelease: release its lane.
	RemedyRelease Remedy = "release"
	// RemedyBlocker: Blocker has to be final first; ask about that one.
	RemedyBlocker Remedy = "blocker"
	// RemedyDecide: decide what became of it.
	RemedyDecide Remedy = "decide"
	// RemedyStrategy: the strategy of the Runner has to be mended.
	RemedyStrategy Remedy = "strategy"
	// RemedyLedger: the Runner needs another ledger, or other options.
	RemedyLedger Remedy = "ledger"
	// RemedyRequeue: nothing is owed; requeue sends it again.
	RemedyRequeue Remedy = "requeue"
	// RemedyNone: it is committed.
	RemedyNone Remedy = "none"
)

// Explanation says why a batch is not moving, and what would move it: what was true
// at one moment.
type Explanation struct {
	Key
	// Version of the batch that was looked at: what the remedy is about.
	Version int64     `json:"version"`
	At      time.Time `json:"at"` // the database's clock
	State   State     `json:"state"`
	// Owner is who moves it on; 0 where it is final.
	Owner Actor `json:"owner"`
	Cause Cause `json:"cause"`
	// Blocker is the batch that is in the way; the zero Key where none is.
	Blocker Key `json:"blocker,omitzero"`
	// Address is one at which the two meet, in the ledger's notation; "" where they are
	// in order for another reason.
	Address string `json:"address,omitzero"`
	// Control is the pause or the halt, with CausePaused and CauseHalted.
	Control Control `json:"control,omitzero"`
	// ClaimedBy is the instance that claimed it last, ClaimLeft for how long yet.
	ClaimedBy string        `json:"claimed_by,omitzero"`
	ClaimLeft time.Duration `json:"claim_left_ns,omitzero"`
	// LastError is what the last attempt that failed said.
	LastError *SubmissionError `json:"last_error,omitzero"`
	// Decision is why a person is needed; "" where none is. With CauseUnserved it is what
	// is wrong with the ledger or the options.
	Decision string `json:"decision,omitzero"`
	// Attempts so far.
	Attempts int `json:"attempts"`
	// Next is in how long the owner may move it, 0 where now or where it is not known.
	Next time.Duration `json:"next_ns,omitzero"`
	// Remedy is what would move it.
	Remedy Remedy `json:"remedy"`
	// Text says all this in a sentence or two, for people.
	Text string `json:"text"`
}

// Seen is what an operator acts upon who does what the explanation says: where the batch
// has moved on since, nothing is done.
func (e Explanation) Seen() Record { return Record{Key: e.Key, Version: e.Version} }
