package batch

import "fmt"

// Actor is the part, or the person, that moves a batch from state to state.
type Actor uint8

// The actors.
const (
	ByQueuer Actor = iota + 1
	BySubmitter
	ByMonitor
	ByOperator
)

var actorNames = [...]string{
	"nobody", ByQueuer: "queuer", BySubmitter: "submitter", ByMonitor: "monitor", ByOperator: "operator",
}

// String returns the actor's name, "nobody" for the zero value.
func (a Actor) String() string {
	if a > ByOperator {
		return fmt.Sprintf("actor(%d)", uint8(a))
	}
	return actorNames[a]
}

// Transition is one allowed move.
type Transition struct {
	From, To State
	By       Actor
	Why      string
}

// Transitions returns the whole table. Every store refuses any other move with
// [ErrNotAllowed]. A move to Committed is allowed from any state: a commit is a fact, no
// matter which part hears of it.
func Transitions() []Transition {
	return []Transition{
		{Queued, Submitting, ByQueuer, "claimed"},
		{Delayed, Submitting, ByQueuer, "claimed again, or back to the monitor because a resend is no longer harmless"},
		{Unknown, Submitting, ByQueuer, "claimed again, or back to the monitor because a resend is no longer harmless"},

		{Submitting, Pending, BySubmitter, "accepted"},
		{Submitting, Submitting, BySubmitter, "in doubt: the claim ends and the monitor takes over"},
		{Submitting, Delayed, BySubmitter, "certainly not taken"},
		{Submitting, Rejected, BySubmitter, "refused for good, or the budget is used up"},
		{Submitting, Queued, BySubmitter, "claimed and never posted"},
		{Submitting, Unknown, BySubmitter, "claimed and never posted"},

		{Submitting, Pending, ByMonitor, "found pending"},
		{Submitting, Valid, ByMonitor, "found valid"},
		{Submitting, Invalid, ByMonitor, "found invalid"},
		{Submitting, Submitting, ByMonitor, "still in doubt: an error kept, or a decision needed"},
		{Submitting, Delayed, ByMonitor, "the ledger says this attempt had no effect"},
		{Submitting, Unknown, ByMonitor, "not found, and safe to send again"},
		{Submitting, Rejected, ByMonitor, "refused earlier, and now known not to be committed"},

		{Pending, Pending, ByMonitor, "a decision needed"},
		{Pending, Valid, ByMonitor, "executed"},
		{Pending, Invalid, ByMonitor, "decided against"},
		{Pending, Delayed, ByMonitor, "the ledger says this attempt had no effect"},
		{Pending, Unknown, ByMonitor, "no longer found, and safe to send again"},
		{Pending, Submitting, ByMonitor, "no trace of it, and others may follow it; or refused or exhausted while an earlier attempt is in doubt"},
		{Pending, Rejected, ByMonitor, "the budget is used up, or refused earlier and known not to be committed"},

		{Valid, Valid, ByMonitor, "a decision needed"},
		{Valid, Pending, ByMonitor, "rolled back and waiting again"},
		{Valid, Invalid, ByMonitor, "decided against"},
		{Valid, Delayed, ByMonitor, "the ledger says this attempt had no effect"},
		{Valid, Unknown, ByMonitor, "no longer found, and safe to send again"},
		{Valid, Submitting, ByMonitor, "no trace of it, and others may follow it; or refused or exhausted while an earlier attempt is in doubt"},
		{Valid, Rejected, ByMonitor, "the budget is used up, or refused earlier and known not to be committed"},

		{Invalid, Invalid, ByMonitor, "settled"},
		{Invalid, Pending, ByMonitor, "being executed again"},
		{Invalid, Valid, ByMonitor, "executed again"},

		{Queued, Committed, ByMonitor, "found committed"},
		{Submitting, Committed, ByMonitor, "found committed"},
		{Pending, Committed, ByMonitor, "committed"},
		{Valid, Committed, ByMonitor, "committed"},
		{Delayed, Committed, ByMonitor, "found committed"},
		{Unknown, Committed, ByMonitor, "found committed"},
		{Invalid, Committed, ByMonitor, "committed after all"},
		{Rejected, Committed, ByMonitor, "committed after all"},

		{Queued, Rejected, ByOperator, "cancelled"},
		{Delayed, Rejected, ByOperator, "cancelled, or decided while an earlier attempt is in doubt"},
		{Delayed, Committed, ByOperator, "decided, while an earlier attempt is in doubt"},
		{Delayed, Unknown, ByOperator, "decided, while an earlier attempt is in doubt: declared not committed"},
		{Unknown, Rejected, ByOperator, "cancelled, or decided while an attempt is in doubt"},
		{Unknown, Committed, ByOperator, "decided, while an attempt is in doubt"},
		{Unknown, Unknown, ByOperator, "decided, while an attempt is in doubt: declared not committed"},
		{Invalid, Queued, ByOperator, "requeued"},
		{Rejected, Queued, ByOperator, "requeued"},
		{Submitting, Committed, ByOperator, "decided"},
		{Submitting, Unknown, ByOperator, "decided: declared not committed"},
		{Submitting, Rejected, ByOperator, "decided"},
		{Pending, Committed, ByOperator, "decided, once a decision is needed"},
		{Pending, Unknown, ByOperator, "decided, once a decision is needed: declared not committed"},
		{Pending, Rejected, ByOperator, "decided, once a decision is needed"},
		{Valid, Committed, ByOperator, "decided, once a decision is needed"},
		{Valid, Unknown, ByOperator, "decided, once a decision is needed: declared not committed"},
		{Valid, Rejected, ByOperator, "decided, once a decision is needed"},
	}
}

// allowedMoves is the table as bits: allowed[from][to] has the bit of each actor.
var allowedMoves = func() (t [Rejected + 1][Rejected + 1]uint8) {
	for _, m := range Transitions() {
		t[m.From][m.To] |= 1 << m.By
	}
	return t
}()

// Allowed reports whether by may move a batch from one state to the other.
func Allowed(from, to State, by Actor) bool {
	return from.Known() && to.Known() && by <= ByOperator && allowedMoves[from][to]&(1<<by) != 0
}
