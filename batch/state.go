package batch

import "fmt"

// State is the state of a stored batch. The values are stored: they never change their
// meaning.
type State uint8

// The states of a batch. The package comment draws them and names the part that moves each on.
const (
	// Queued waits; the queuer claims it when the strategy admits it.
	Queued State = iota + 1
	// Submitting has an attempt that is counted and is not known to have ended. The submitter
	// owns it until the claim expires, then the monitor.
	Submitting
	// Pending was accepted by the ledger; the monitor follows it.
	Pending
	// Valid was executed by the ledger and not committed; it still holds its lane.
	Valid
	// Delayed had certainly no effect in its last attempt; the queuer claims it at its
	// not-before time.
	Delayed
	// Unknown was not found on the ledger, and is proved or declared safe to send again.
	Unknown
	// Committed is final.
	Committed
	// Invalid was decided against by the ledger. It is final once settled.
	Invalid
	// Rejected is final: refused at once, cancelled, or out of budget.
	Rejected
)

// States returns all states, in the order of their values.
func States() []State {
	return []State{Queued, Submitting, Pending, Valid, Delayed, Unknown, Committed, Invalid, Rejected}
}

var stateNames = [...]string{
	Queued: "queued", Submitting: "submitting", Pending: "pending", Valid: "valid", Delayed: "delayed",
	Unknown: "unknown", Committed: "committed", Invalid: "invalid", Rejected: "rejected",
}

// String returns the state's name in lower case.
func (s State) String() string {
	if !s.Known() {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Known reports whether s is a state that this package names.
func (s State) Known() bool { return s >= Queued && s <= Rejected }

// Claimable reports whether the queuer may claim a batch in this state.
func (s State) Claimable() bool { return s == Queued || s == Delayed || s == Unknown }

// InFlight reports whether the ledger has, or may have, the batch, and its outcome is open.
func (s State) InFlight() bool {
	return s == Submitting || s == Pending || s == Valid
}
