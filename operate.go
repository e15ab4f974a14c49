package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// What operators do works from any process, whether or not Run runs in this one: it is
// written to the database, and every claim of every instance reads it there. Each asks
// who does it, and is kept in the history by the same transaction.
//
// What is done to a batch is done to the record that the operator saw: from Get, a list,
// or a [batch.MovedOnError]. Where the batch is at another version by now, nothing is done,
// and the error is a [*batch.MovedOnError] with the record as it is now, to be looked at
// and decided upon anew. Of the record Key and Version count, and CreatedAt where it is
// set: a key and a version are enough.
//
// All return [batch.ErrNotFound], [batch.ErrMovedOn], [batch.ErrNotAllowed] where the state
// does not admit it, [batch.ErrInDoubt], a [*batch.InputError], or the store's error: then
// it is open whether it was done. Calling again with the same record is harmless, and gives
// ErrMovedOn where it was.

// Cancel makes a batch that has not left Rejected: one that is Queued or Delayed, and
// of which no attempt is in doubt (else [batch.ErrInDoubt]). Whatever is being
// submitted at that moment is not touched.
func (r *Runner) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := r.store.Cancel(ctx, seen, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionCancel, By: by}, seen.Key)
}

// Requeue puts an Invalid or Rejected batch back into its old place in its lane. It
// leaves again once the ledger's ResendQuiet has passed since its last POST. A lane
// that it halted stays halted.
func (r *Runner) Requeue(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.requeue(ctx, seen, false, by)
}

// RequeueAtEnd is Requeue behind everything that is in the lane: its CreatedAt becomes
// that of a batch which is added now.
func (r *Runner) RequeueAtEnd(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.requeue(ctx, seen, true, by)
}

func (r *Runner) requeue(ctx context.Context, seen batch.Record, atEnd bool, by batch.By) (batch.Record, error) {
	q := store.Requeue{Quiet: r.ledger.Traits(seen.Service).ResendQuiet, AtEnd: atEnd}
	rec, err := r.store.Requeue(ctx, seen, q, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionRequeue, By: by, AtEnd: atEnd}, seen.Key)
}

// Decide ends a doubt: to Committed, to Unknown (declared not committed, so that it is
// sent again) or to Rejected. It is for a batch that needs a decision (EventDecision,
// [Runner.Explain]); its claim must have expired, else the error is [batch.ErrInDoubt].
// What was looked up is true of the attempt that seen shows: a later one is another doubt,
// about which nobody has decided, and gives [batch.ErrMovedOn].
// Who decides wrongly breaks the promise "at most once in effect", or loses the batch.
func (r *Runner) Decide(ctx context.Context, seen batch.Record, to batch.State, by batch.By) (batch.Record, error) {
	rec, err := r.store.Decide(ctx, seen, to, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionDecide, By: by}, seen.Key)
}

// Acquit ends the quarantine of a batch, which stays final as it is.
func (r *Runner) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := r.store.Acquit(ctx, seen, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionAcquit, By: by}, seen.Key)
}

// operated tells what was done to a batch, and wakes whom it concerns.
func (r *Runner) operated(ctx context.Context, rec batch.Record, err error, act batch.Act, key batch.Key) (batch.Record, error) {
	if err != nil {
		return rec, fmt.Errorf("%s %s: %w", act.Action, key, err)
	}
	act.Scope, act.Batch, act.To = batch.Only(key.Service), key.ID, rec.State
	r.observe(ctx, batch.Event{Kind: batch.EventOperated, Key: key, State: rec.State, Attempt: rec.Attempt, Act: act})
	if rec.Final() {
		r.final(key)
	}
	r.Wake(key.Service)
	return rec, nil
}

// Pause lets nothing leave a lane, or any: from the next claim of any instance on. What
// is being submitted is not stopped, and what is under way is followed. It takes a scope
// and no control that was seen, unlike what follows: a pause ends nothing that somebody
// else said, and is asked for in a hurry.
func (r *Runner) Pause(ctx context.Context, scope batch.Scope, by batch.By) (batch.Control, error) {
	return r.steer(ctx, store.Steering{Scope: scope, Action: batch.ActionPause, By: by})
}

// Resume ends the pause that the operator saw ([Runner.Control], [batch.Explanation]); the
// scans of all instances find what waits, at once or within a ScanInterval. Services that
// were paused one by one stay so when everything is resumed.
//
// Of the control that was seen, Scope and Version count. Where it is at another version by
// now, nothing is done, and the error is a [*batch.MovedOnError] with the control as it is
// now: the pause may be another one, for another reason. So it is with SetPolicy and
// Release.
func (r *Runner) Resume(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return r.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionResume, Seen: seen.Version, By: by})
}

// SetPolicy says what becomes of the lane of a control that was seen, when one of its
// batches ends Invalid or Rejected. It goes before Options.Policy; [batch.PolicyDefault]
// takes it back. Of a lane about which nothing was ever said, Control returns a control, too.
func (r *Runner) SetPolicy(ctx context.Context, seen batch.Control, p batch.Policy, by batch.By) (batch.Control, error) {
	return r.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionSetPolicy, Policy: p, Seen: seen.Version, By: by})
}

// Release ends the halt of a lane ([batch.PolicyHalt]) that the operator saw. One by
// another batch gives [batch.ErrMovedOn].
func (r *Runner) Release(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return r.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionRelease, Seen: seen.Version, By: by})
}

func (r *Runner) steer(ctx context.Context, s store.Steering) (batch.Control, error) {
	c, changed, err := r.store.Steer(ctx, s)
	if err != nil {
		return c, fmt.Errorf("%s %s: %w", s.Action, s.Scope, err)
	}
	if changed {
		if s.Action == batch.ActionRelease {
			r.health.halt(s.Scope.Service, false)
		}
		act := batch.Act{Action: s.Action, By: s.By, Scope: s.Scope, Policy: s.Policy}
		r.observe(ctx, batch.Event{Kind: batch.EventOperated, Key: batch.Key{Service: s.Scope.Service}, Act: act})
	}
	if !s.Scope.All { // what was paused with everything is found by the next scans
		r.Wake(s.Scope.Service)
	}
	return c, nil
}

// Control returns what holds a lane, or everything, beside its batches.
func (r *Runner) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	c, err := r.store.Control(ctx, scope)
	if err != nil {
		return c, fmt.Errorf("control of %s: %w", scope, err)
	}
	return c, nil
}

// History returns what operators did to a batch, oldest first, the newest
// [batch.MaxActs] of it.
func (r *Runner) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	acts, err := r.store.History(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", key, err)
	}
	return acts, nil
}

// LaneHistory returns what operators did to a lane, or to everything, oldest first, the
// newest [batch.MaxActs] of it.
func (r *Runner) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	acts, err := r.store.LaneHistory(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", scope, err)
	}
	return acts, nil
}

// Attempts returns what is kept of a batch's attempts, oldest first: of those that did
// not simply end well, the first and the newest, [batch.MaxReports] in all.
func (r *Runner) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	reports, err := r.store.Attempts(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", key, err)
	}
	return reports, nil
}
