// Package incident has the sentences about what is wrong. Each kind of incident has one sentence,
// and the command, the console, package operator and
// [github.com/dltbatch/dltbatch/health.Health.Attention] all take it from here.
package incident

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// LedgerClosed says why a ledger takes nothing. Any kind that the function does not know is
// described as a ledger that cannot be reached.
func LedgerClosed(kind batch.ErrorKind) string {
	switch kind {
	case batch.KindMisconfigured:
		return "the ledger refuses this client"
	case batch.KindBusy:
		return "the ledger is busy"
	}
	return "the ledger is not reached"
}

// ClosedKinds returns the kinds of errors after which a ledger takes nothing. The kind that needs
// a person most comes first.
func ClosedKinds() []batch.ErrorKind {
	return []batch.ErrorKind{batch.KindMisconfigured, batch.KindUnavailable, batch.KindBusy}
}

// WorstKind returns the kind among kinds that comes first in [ClosedKinds]. A kind that is not in
// ClosedKinds counts as a ledger that cannot be reached.
func WorstKind(kinds ...batch.ErrorKind) batch.ErrorKind {
	found := batch.KindBusy
	for _, k := range kinds {
		switch k {
		case batch.KindMisconfigured:
			return k
		case batch.KindBusy:
		default:
			found = batch.KindUnavailable
		}
	}
	return found
}

// Sentences without numbers.
const (
	NoInstance = "No instance runs."
	NoCounts   = "Nobody counts the open batches."
	AllPaused  = "Everything is paused."
	Growing    = "The queue grows faster than it leaves."
)

// Warns is the sentence that a store has warnings.
const Warns = "The database needs care."

// NothingPosted says that no instance posts anything.
func NothingPosted(kind batch.ErrorKind) string {
	return "Nothing is posted: " + LedgerClosed(kind) + "."
}

// LanePostsNothing says that nothing is posted of one lane, where the batches of other lanes may
// be posted.
func LanePostsNothing(kind batch.ErrorKind) string {
	return "Nothing of its lane is posted: " + LedgerClosed(kind) + "."
}

// InstancesPostNothing says that the named instances post nothing; live is the number of all live
// instances.
func InstancesPostNothing(names []string, live int, kind batch.ErrorKind) string {
	switch {
	case len(names) == live:
		return NothingPosted(kind)
	case len(names) == 1:
		return "Instance " + names[0] + " posts nothing: " + LedgerClosed(kind) + "."
	}
	return fmt.Sprintf("%d of %d instances post nothing: %s.", len(names), live, LedgerClosed(kind))
}

// LedgersGetNothing says that instances post nothing to these ledgers, while they post to others.
// names and live are as for [InstancesPostNothing].
func LedgersGetNothing(ledgers []string, names []string, live int, kind batch.ErrorKind) string {
	who := "Nothing is posted to "
	switch {
	case len(names) == live:
	case len(names) == 1:
		who = "Instance " + names[0] + " posts nothing to "
	default:
		who = fmt.Sprintf("%d of %d instances post nothing to ", len(names), live)
	}
	if len(ledgers) == 1 {
		return who + "ledger " + ledgers[0] + ": " + LedgerClosed(kind) + "."
	}
	why := "they are not reached"
	switch kind {
	case batch.KindMisconfigured:
		why = "they refuse this client"
	case batch.KindBusy:
		why = "they are busy"
	}
	return fmt.Sprintf("%s%d ledgers: %s.", who, len(ledgers), why)
}

// LanesPostNothing returns the sentence that nothing is posted of n lanes.
func LanesPostNothing(n int, kind batch.ErrorKind) string {
	return Count(n, "lane posts", "lanes post") + " nothing: " + LedgerClosed(kind) + "."
}

// InstanceGone returns the sentence that an instance has gone and left batches under way.
func InstanceGone(name string, left int) string {
	return fmt.Sprintf("Instance %s has gone, and left %s under way.", name, Count(left, "batch", "batches"))
}

// NeedDecision returns the sentence that n batches need a person's decision.
func NeedDecision(n int) string {
	return "A person has to decide about " + Count(n, "batch", "batches") + "."
}

// Halted returns the sentence that n lanes are halted.
func Halted(n int) string {
	if n == 1 {
		return "1 lane is halted until a person releases it."
	}
	return fmt.Sprintf("%d lanes are halted until a person releases them.", n)
}

// Paused returns the sentence that n lanes are paused.
func Paused(n int) string { return Count(n, "lane is", "lanes are") + " paused." }

// SetAside returns the sentence that n batches are in quarantine.
func SetAside(n int) string {
	return Count(n, "batch was", "batches were") + " set aside by the policy of a lane."
}

// Refused returns the sentence that n orders were refused alone.
func Refused(n int) string {
	return Count(n, "order was", "orders were") + " refused alone within a day."
}

// Disagree is the sentence that instances have different settings.
const Disagree = "The instances disagree about the settings of a ledger."

// Unserved returns the sentence that no instance takes the batches of n lanes.
func Unserved(lanes int) string {
	return "No instance takes batches of " + Count(lanes, "lane", "lanes") + "."
}

// Held returns the sentence that the strategy takes no batch of n lanes.
func Held(lanes int) string {
	return "The strategy takes nothing of " + Count(lanes, "lane", "lanes") + "."
}

// NotRecorded returns the sentence that no instance has recorded the settings of n lanes.
func NotRecorded(lanes int) string {
	return "The settings of " + Count(lanes, "lane", "lanes") + " are not on record."
}

// Count returns a number with its noun.
func Count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}
