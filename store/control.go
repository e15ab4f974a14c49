package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// MoveActor is the actor who pauses everything while a schema moves to another server. The move
// resumes everything by itself.
const MoveActor = "dltbatch move"

// Steering is an operator's change to a lane, or to everything.
type Steering struct {
	Scope batch.Scope
	// Action is ActionPause, ActionResume, ActionSetPolicy or ActionRelease; the last two
	// are about one service.
	Action batch.Action
	Policy batch.Policy // with ActionSetPolicy; the default removes the policy that was set
	By     batch.By
	// Seen is the version of the control that the operator saw; 0 if nothing was ever set. A pause
	// does not check it, because a pause undoes nothing that somebody else did, and an operator
	// needs it in a hurry. With the check, an operator who lost a race would have to try again
	// while batches go on leaving.
	Seen int64
}

// Validate reports whether the steering makes sense at all. The error is a
// [*batch.InputError].
func (s Steering) Validate() error {
	if err := s.By.Validate(); err != nil {
		return err
	}
	if err := s.Scope.Validate(); err != nil {
		return err
	}
	switch s.Action {
	case batch.ActionPause, batch.ActionResume:
		return nil
	case batch.ActionSetPolicy, batch.ActionRelease:
		if s.Scope.All {
			return &batch.InputError{Field: "Steering.Scope", Value: s.Scope.String(), Want: "one service, with " + string(s.Action)}
		}
		if !s.Policy.Known() {
			return &batch.InputError{Field: "Steering.Policy", Value: s.Policy.String(), Want: "a policy"}
		}
		return nil
	}
	return &batch.InputError{Field: "Steering.Action", Value: batch.Excerpt(string(s.Action), 64), Want: "pause, resume, set_policy or release"}
}

// Apply returns the control after the steering, and the act for the history. changed is false if
// the control stays as it is: a paused lane is not paused again, and the person who paused it
// first stays recorded. A pause of MoveActor is the exception: another person's pause replaces it,
// and stays when the move is done. If the control does not have the version that was seen, the
// error is a [*batch.MovedOnError] and the control stays as it is. s is valid.
func (s Steering) Apply(c batch.Control, now time.Time) (next batch.Control, act batch.Act, changed bool, err error) {
	if c.Scope = s.Scope; s.Action != batch.ActionPause && s.Seen != c.Version {
		return c, batch.Act{}, false, &batch.MovedOnError{Seen: s.Seen, Control: c}
	}
	act = batch.Act{Action: s.Action, By: withStorableReason(s.By), At: now, Scope: s.Scope}
	next = c
	switch s.Action {
	case batch.ActionPause:
		if c.PausedAt.IsZero() || c.PausedBy.Actor == MoveActor && act.By.Actor != MoveActor {
			next.PausedAt, next.PausedBy, changed = now, act.By, true
		}
	case batch.ActionResume:
		changed = !c.PausedAt.IsZero()
		next.PausedAt, next.PausedBy = time.Time{}, batch.By{}
	case batch.ActionSetPolicy:
		changed = c.Policy != s.Policy
		next.Policy, act.Policy = s.Policy, s.Policy
	case batch.ActionRelease:
		changed = !c.HaltedAt.IsZero()
		act.Batch = c.HaltedBy
		next.HaltedAt, next.HaltedBy, next.HaltReason = time.Time{}, "", ""
	}
	if changed {
		next.Version = raisedVersion(c, now)
	}
	return next, act, changed, nil
}

// raisedVersion returns the version of a control after a change. It is the present time in
// microseconds, or the version before plus one if the clock has stepped back. So no version comes
// a second time after a row was lost.
func raisedVersion(c batch.Control, now time.Time) int64 { return max(c.Version+1, now.UnixMicro()) }

// withStorableReason returns by with a reason that every database can store.
func withStorableReason(by batch.By) batch.By {
	by.Reason = batch.Excerpt(by.Reason, batch.MaxErrorText)
	return by
}

// BatchAct returns the entry of the history for an operator's act on a batch, whose row changes
// from was to next. asked has the action and its author.
func BatchAct(asked batch.Act, key batch.Key, was, next Row, now time.Time) batch.Act {
	return batch.Act{
		Action: asked.Action, By: withStorableReason(asked.By), At: now, Scope: batch.Only(key.Service), Batch: key.ID,
		From: was.State, To: next.State,
	}
}

// KeepAct returns the history kept, oldest first, with a appended. It keeps the newest
// [batch.MaxActs] acts, and does not change kept.
func KeepAct(kept []batch.Act, a batch.Act) []batch.Act {
	kept = append(slices.Clone(kept), a)
	return kept[max(0, len(kept)-batch.MaxActs):]
}

// Ended reports whether the outcome made the batch final as Invalid or Rejected, by the ledger's
// answer or because the budget is used up. Policies are about these batches. Acts of operators do
// not come here, and a batch that a person has withdrawn does not count.
func (a Applied) Ended() bool {
	withdrawn := a.Row.Error != nil && a.Row.Error.Kind == batch.KindCancelled
	return a.Result == Written && a.Row.Final() && !withdrawn && (a.Row.State == batch.Invalid || a.Row.State == batch.Rejected)
}

// Governs reports whether the outcome concerns the lane's control: see [Applied.Enforce].
func (a Applied) Governs() bool { return a.Ended() || (a.Result == Written && a.Halt != "") }

// Enforce halts the lane if [Applied].Halt says so, and carries out the lane's policy about a
// batch that has just ended; if the lane has no policy, by is the policy. c is the lane's present
// control, read and locked in the transaction that writes the row. In that transaction the caller
// writes back the row, and the control if it changed. Enforce does nothing if [Applied.Governs] is
// false.
func (a Applied) Enforce(c batch.Control, by batch.Policy, now time.Time) (Applied, batch.Control) {
	if !a.Governs() {
		return a, c
	}
	if c.Policy != batch.PolicyDefault {
		by = c.Policy
	}
	if !c.HaltedAt.IsZero() && c.HaltReason != "" {
		a.Halt = "" // a lane is halted for one reason, though several of its batches may name it
	}
	if a.Halt != "" || (a.Ended() && by == batch.PolicyHalt) {
		a.Halted = true
		if c.HaltedAt.IsZero() { // otherwise the time and reason of the first halt stay
			c.Scope, c.HaltedAt, c.HaltedBy, c.HaltReason = batch.Only(a.Key.Service), now, a.Key.ID, a.Halt
			c.Version = raisedVersion(c, now)
		}
	}
	if a.Ended() && by == batch.PolicyQuarantine {
		a.Row.Quarantined = true
	}
	return a, c
}

// Acquit is [Store].Acquit.
func (r Row) Acquit() (Row, error) {
	if !r.Quarantined {
		return r, fmt.Errorf("%w: %s and not in quarantine", batch.ErrNotAllowed, r.State)
	}
	r.Quarantined = false
	r.Version++
	return r, nil
}

// ControlsQuery selects controls of services; the zero value begins after the service "".
type ControlsQuery struct {
	// After is the last service of the previous call. Start means that there was no previous call,
	// because the service "" is a service like any other.
	After batch.ServiceID
	Start bool
	// Limit is the largest number of controls. Defaults to 100, at most 1,000.
	Limit int
}

// Bounded returns the query with a limit: the default if it has none, and at most the maximum.
func (q ControlsQuery) Bounded() ControlsQuery {
	q.Limit = boundedLimit(q.Limit, 100, 1000)
	return q
}

// Look is a batch and its surroundings, all of one moment.
type Look struct {
	At        time.Time // the database's clock
	Ref       Ref
	Row       Row
	Record    batch.Record
	Budget    batch.Budget
	Footprint batch.Footprint
	// Lane are the rows that a claim would read of the lane at that moment: all open batches that
	// were ever attempted, and then the first waiting batches. Both are sorted by order key, as
	// [ClaimQuery.InOrder] takes them, and may lack their receipts. Lane is nil if the batch is
	// final.
	Lane []LaneRow
	// Everything and Service are the controls of all lanes, and of this lane.
	Everything, Service batch.Control
}
