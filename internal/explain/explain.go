// Package explain finds out why a batch does not move, from one read of its store. It is a pure
// function, for processes with a ledger and for processes without one.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Explain explains the batch of one read of the store, for processes that claim with q and choose.
func Explain(l store.Look, q store.ClaimQuery, choose store.Choose) batch.Explanation {
	e := Judge(l, q, choose)
	e.Text = Sentence(e)
	return e
}

// Judge is Explain without the text of the sentence.
func Judge(l store.Look, q store.ClaimQuery, choose store.Choose) batch.Explanation {
	l.Row = l.Row.AsOf(l.At)
	x := explainer{look: l, lane: q.InOrder(l.Ref.Key.Service, l.Lane), query: q, choose: choose, now: l.At}
	x.explanation = batch.Explanation{
		Key: l.Ref.Key, Version: l.Row.Version, At: l.At, State: l.Row.State, LastError: l.Row.Error, Decision: l.Row.Decision, Attempts: l.Row.Attempt,
		Withdrawn: l.Row.Withdrawn,
	}
	if l.Row.InDoubt(l.At) {
		x.explanation.Doubt = l.Row.DoubtAttempt
	}
	x.explainState()
	return x.explanation
}

type explainer struct {
	look        store.Look
	lane        []store.LaneRow // rows of the lane in the order of claims
	query       store.ClaimQuery
	choose      store.Choose
	now         time.Time
	explanation batch.Explanation
}

func (x *explainer) setExplanation(owner batch.Actor, cause batch.Cause, remedy batch.Remedy) {
	x.explanation.Owner, x.explanation.Cause, x.explanation.Remedy = owner, cause, remedy
}

func (x *explainer) explainState() {
	row := x.look.Row
	switch {
	case row.Final():
		x.explainFinal()
	case row.State.Claimable():
		x.explainClaimable()
	case row.Live(x.now):
		x.setExplanation(batch.BySubmitter, batch.CauseClaimed, batch.RemedyWait)
		x.explanation.ClaimedBy, x.explanation.ClaimLeft = row.ClaimedBy, row.ClaimExpires.Sub(x.now)
	case row.Undecided():
		x.setExplanation(batch.ByOperator, batch.CauseDecision, batch.RemedyDecide)
	case row.State == batch.Submitting:
		x.setExplanation(batch.ByMonitor, batch.CauseInDoubt, batch.RemedyWait)
		x.explanation.ClaimedBy = row.ClaimedBy
	case row.State == batch.Invalid:
		x.setExplanation(batch.ByMonitor, batch.CauseSettling, batch.RemedyWait)
		x.explanation.Next = max(0, row.SettlesAt.Sub(x.now))
	default:
		x.setExplanation(batch.ByMonitor, batch.CauseLedger, batch.RemedyWait)
	}
}

// explainFinal explains a final batch. It names a requeue only if the store allows one.
func (x *explainer) explainFinal() {
	cause, remedy := batch.CauseFinal, batch.RemedyRequeue
	if x.look.Row.Quarantined {
		cause = batch.CauseQuarantined
	}
	if _, err := x.look.Row.Requeue(x.now, store.Requeue{}); err != nil {
		remedy = batch.RemedyNone
	}
	x.setExplanation(0, cause, remedy)
}

// explainClaimable explains a batch that waits to be claimed.
func (x *explainer) explainClaimable() {
	switch {
	case !x.look.Everything.PausedAt.IsZero():
		x.setExplanation(batch.ByOperator, batch.CausePaused, batch.RemedyResume)
		x.explanation.Control = x.look.Everything
	case !x.look.Service.PausedAt.IsZero():
		x.setExplanation(batch.ByOperator, batch.CausePaused, batch.RemedyResume)
		x.explanation.Control = x.look.Service
	case !x.look.Service.HaltedAt.IsZero():
		x.setExplanation(batch.ByOperator, batch.CauseHalted, batch.RemedyRelease)
		x.explanation.Control = x.look.Service
		x.explanation.Blocker = batch.Key{Service: x.explanation.Service, ID: x.look.Service.HaltedBy}
	case x.look.Row.NotBefore.After(x.now):
		x.setExplanation(batch.ByQueuer, batch.CauseDelayed, batch.RemedyWait)
		x.explanation.Next = x.look.Row.NotBefore.Sub(x.now)
	case !x.look.Row.Resendable(x.now, x.query.TTL, x.resendRule()):
		x.setExplanation(batch.ByMonitor, batch.CauseInDoubt, batch.RemedyWait) // the next claim returns it to the monitor
	default:
		x.explainReady()
	}
}

func (x *explainer) resendRule() store.Resend {
	if x.query.Resend == nil {
		return store.Resend{}
	}
	return x.query.Resend(x.explanation.Service)
}

// explainReady explains a batch that could be sent now if its lane allows it.
func (x *explainer) explainReady() {
	q := x.query
	if x.claimWouldTake(x.look.Lane, q) {
		x.setExplanation(batch.ByQueuer, batch.CauseReady, batch.RemedyWait)
		return
	}
	q.MaxInFlight = nil
	if x.claimWouldTake(x.look.Lane, q) {
		x.setBlocker(batch.CauseInFlight, x.firstKey(), "")
		return
	}
	me := x.positionIn(x.lane)
	if me < 0 { // farther back than claims read
		x.setBlocker(batch.CauseBehind, x.firstKey(), "")
		return
	}
	// If the batch can be sent once its conflicts are gone, the first batch in conflict blocks it.
	var conflicts []store.LaneRow
	for _, r := range x.lane[:me] {
		if r.Footprint.Conflicts(x.look.Footprint) {
			conflicts = append(conflicts, r)
		}
	}
	apart := slices.DeleteFunc(slices.Clone(x.look.Lane), func(r store.LaneRow) bool {
		return slices.ContainsFunc(conflicts, func(c store.LaneRow) bool { return c.Key == r.Key })
	})
	if len(conflicts) > 0 && x.claimWouldTake(apart, q) {
		x.setBlocker(batch.CauseBehind, conflicts[0].Key, conflictAddress(conflicts[0].Footprint, x.look.Footprint))
		return
	}
	if blocker := x.firstKey(); blocker != (batch.Key{}) {
		x.setBlocker(batch.CauseBehind, blocker, "")
		return
	}
	x.setExplanation(batch.ByQueuer, batch.CauseHeld, batch.RemedyStrategy)
}

func (x *explainer) setBlocker(cause batch.Cause, blocker batch.Key, address string) {
	x.setExplanation(batch.ByQueuer, cause, batch.RemedyBlocker)
	x.explanation.Blocker, x.explanation.Address = blocker, address
}

// claimWouldTake reports whether a claim that reads these rows would take the batch.
func (x *explainer) claimWouldTake(rows []store.LaneRow, q store.ClaimQuery) bool {
	plan := store.PlanLane(x.explanation.Service, slices.Clone(rows), x.now, q, len(rows), x.choose)
	for _, run := range plan.Runs {
		for _, c := range run.Batches {
			if c.Key == x.explanation.Key {
				return true
			}
		}
	}
	return false
}

func (x *explainer) positionIn(rows []store.LaneRow) int {
	return slices.IndexFunc(rows, func(r store.LaneRow) bool { return r.Key == x.explanation.Key })
}

// firstKey returns the batch for which a batch without conflicts waits. It returns the zero Key if
// that is the batch itself.
func (x *explainer) firstKey() batch.Key {
	if k := First(x.lane); k != x.explanation.Key {
		return k
	}
	return batch.Key{}
}

// First returns the batch for which a batch waits that claims do not read yet: the first batch in
// flight, or else the front of the lane. lane is in the order of claims.
func First(lane []store.LaneRow) batch.Key {
	for _, r := range lane {
		if !r.Row.State.Claimable() {
			return r.Key
		}
	}
	if len(lane) > 0 {
		return lane[0].Key
	}
	return batch.Key{}
}

// conflictAddress returns an address at which two footprints conflict: of two prefixes, of which
// one begins with the other, the longer. It returns "" if a footprint declares nothing.
func conflictAddress(f, g batch.Footprint) string {
	for _, pair := range [...][2][]string{{f.Writes, g.Writes}, {f.Writes, g.Reads}, {f.Reads, g.Writes}} {
		for _, a := range pair[0] {
			for _, b := range pair[1] {
				if strings.HasPrefix(a, b) {
					return a
				}
				if strings.HasPrefix(b, a) {
					return b
				}
			}
		}
	}
	return ""
}

// Sentence returns an explanation as a sentence.
func Sentence(e batch.Explanation) string { return sentence(e, causeText(e)) }

// ClaimedAlone returns the Sentence of a claimed batch while no instance runs, so that no process
// is known to go on with the attempt.
func ClaimedAlone(e batch.Explanation) string {
	return sentence(e, fmt.Sprintf("%s began attempt %d, and its claim ends in %s at most", instanceText(e.ClaimedBy), e.Attempts, e.ClaimLeft.Round(time.Millisecond)))
}

func sentence(e batch.Explanation, cause string) string {
	s := e.State.String() + ": " + withDecision(e, cause)
	switch {
	case e.LastError == nil:
	case string(e.LastError.Kind) == e.State.String() && e.LastError.Message != "": // the sentence has the state already
		s += " (" + e.LastError.Message + ")"
	default:
		s += " (last error: " + e.LastError.Error() + ")"
	}
	return s
}

// withDecision adds to the reason that a person was called about an earlier attempt.
func withDecision(e batch.Explanation, s string) string {
	if e.Withdrawn {
		s += "; it is withdrawn: what takes effect first decides, the batch or what is sent to exclude it"
	}
	switch e.Cause {
	case batch.CauseReady, batch.CauseClaimed, batch.CauseInDoubt, batch.CauseLedger, batch.CauseSettling:
		if e.Decision != "" {
			s += "; a person was called, because it has not moved for long"
		}
	}
	return s
}

func causeText(e batch.Explanation) string {
	switch e.Cause {
	case batch.CauseReady:
		return "nothing holds it; the next round of a running instance takes it"
	case batch.CausePaused:
		return fmt.Sprintf("%s was paused by %s%s; resume it", e.Control.Scope, e.Control.PausedBy.Actor, reasonText(e.Control.PausedBy.Reason))
	case batch.CauseHalted:
		if e.Blocker == e.Key { // the batch halted the lane, and was requeued
			return "it halted its lane" + reasonText(e.Control.HaltReason) + ", and was requeued since; release the lane"
		}
		return fmt.Sprintf("its lane was halted by batch %s%s; release the lane", e.Blocker.ID, reasonText(e.Control.HaltReason))
	case batch.CauseDelayed:
		s := fmt.Sprintf("it waits another %s", e.Next.Round(time.Millisecond))
		if e.State == batch.Queued && e.Attempts > 0 { // it was requeued, and waits for the ledger's quiet time
			s += fmt.Sprintf(": it may be sent again from %s, since the ledger may remember the last attempt until then", e.At.Add(e.Next).UTC().Format("15:04:05Z"))
		}
		if e.Decision != "" {
			s += ", and is tried again and again; a person may cancel it, or decide where an attempt is in doubt"
		}
		return s
	case batch.CauseBehind:
		if e.Address != "" {
			return fmt.Sprintf("it conflicts at %s with batch %s, which is earlier and not final", e.Address, e.Blocker.ID)
		}
		return fmt.Sprintf("batch %s of its lane has to be final first", e.Blocker.ID)
	case batch.CauseInFlight:
		return fmt.Sprintf("its ledger takes no more of the lane at once; batch %s is the first that is under way", e.Blocker.ID)
	case batch.CauseHeld:
		return "nothing is in its way, and the strategy does not take it; see the events of the lane"
	case batch.CauseUnserved:
		return "its service is held: " + e.Decision
	case batch.CauseClaimed:
		return fmt.Sprintf("%s makes attempt %d, for another %s at most", instanceText(e.ClaimedBy), e.Attempts, e.ClaimLeft.Round(time.Millisecond))
	case batch.CauseInDoubt:
		which := fmt.Sprintf("attempt %d", e.Doubt)
		if e.Doubt != e.Attempts {
			which += fmt.Sprintf(" of %d", e.Attempts)
		}
		return "the outcome of " + which + " is not known; the ledger is asked before anything is sent again"
	case batch.CauseDecision:
		return "a person has to decide: " + e.Decision
	case batch.CauseLedger:
		return "the ledger has it and has not decided yet"
	case batch.CauseSettling:
		return fmt.Sprintf("the ledger decided against it, and may commit it still for %s", e.Next.Round(time.Millisecond))
	case batch.CauseQuarantined:
		if e.Remedy == batch.RemedyNone {
			return "final, and set aside by its lane's policy; acquit it"
		}
		return "final, and set aside by its lane's policy; requeue or acquit it"
	}
	return "final"
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func instanceText(instance string) string {
	if instance == "" {
		return "an instance"
	}
	return instance
}
