package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Operators may act from any process, whether or not Run runs in it: the act is written to the
// database, and every claim of every instance reads it there. Each method wants to know who
// acts, and records this in the history in the same transaction.
//
// An act upon a batch applies to the record that the operator saw: from Get, a list, or a
// [batch.MovedOnError]. If the batch has another version by now, nothing is done. The error is
// then a [*batch.MovedOnError] with the present record, so that the operator can decide anew.
// Only Key and Version of the record count, and CreatedAt where it is set.
//
// All return [batch.ErrNotFound], [batch.ErrMovedOn], [batch.ErrNotAllowed] where the state
// does not admit the act, [batch.ErrInDoubt], a [*batch.InputError], or the store's error, which
// is [store.ErrUnsupported] where the store is no [store.Operator].
// After the store's error the act may have been done or not. A second call with the same
// record is harmless, and gives ErrMovedOn if the first one took effect.

// Cancel makes a batch Rejected that is not on its way: Queued or Delayed, with no attempt in
// doubt (else [batch.ErrInDoubt]). It does not touch a batch that is being submitted.
func (r *Runner) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := r.store.Cancel(ctx, seen, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionCancel, By: by}, seen.Key)
}

// Requeue puts an Invalid or Rejected batch back into its old place in its lane. The batch
// leaves again once the ledger's ResendQuiet has passed since its last POST. If the batch
// halted its lane, the lane stays halted.
func (r *Runner) Requeue(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.requeue(ctx, seen, false, by)
}

// RequeueAtEnd is Requeue to the end of the lane: CreatedAt becomes the present time, as for a
// new batch.
func (r *Runner) RequeueAtEnd(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.requeue(ctx, seen, true, by)
}

func (r *Runner) requeue(ctx context.Context, seen batch.Record, atEnd bool, by batch.By) (batch.Record, error) {
	q := store.Requeue{Quiet: r.ledger.Traits(seen.Service).ResendQuiet, AtEnd: atEnd}
	rec, err := r.store.Requeue(ctx, seen, q, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionRequeue, By: by, AtEnd: atEnd}, seen.Key)
}

// Decide ends a doubt: it makes the batch Committed, Unknown (declared not committed, so that
// it is sent again) or Rejected. It is for a batch that needs a decision (EventDecision,
// [Runner.Explain]). The batch's claim must have expired, else the error is
// [batch.ErrInDoubt]. The decision is about the attempt that seen shows: a later attempt is
// another doubt and gives [batch.ErrMovedOn]. A wrong decision breaks the promise "at most
// once in effect", or loses the batch.
func (r *Runner) Decide(ctx context.Context, seen batch.Record, to batch.State, by batch.By) (batch.Record, error) {
	rec, err := r.store.Decide(ctx, seen, to, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionDecide, By: by}, seen.Key)
}

// Acquit ends the quarantine of a batch, which stays final as it is.
func (r *Runner) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := r.store.Acquit(ctx, seen, by)
	return r.operated(ctx, rec, err, batch.Act{Action: batch.ActionAcquit, By: by}, seen.Key)
}

// operated reports an operator's act and wakes the waiters and the lane that it concerns.
func (r *Runner) operated(ctx context.Context, rec batch.Record, err error, act batch.Act, key batch.Key) (batch.Record, error) {
	if err != nil {
		return rec, fmt.Errorf("%s %s: %w", act.Action, key, err)
	}
	act.Scope, act.Batch, act.To = batch.Only(key.Service), key.ID, rec.State
	r.observe(ctx, batch.Event{
		Kind: batch.EventOperated, Key: key, State: rec.State, By: batch.ByOperator, Attempt: rec.Attempt, Act: act, SinceAdded: between(rec.CreatedAt, rec.FinalAt),
	})
	if rec.Final() {
		r.final(key)
	}
	r.freed(key.Service)
	return rec, nil
}

// freed is Wake for a lane that an operator may have set free: what is out may be decided.
func (r *Runner) freed(service batch.ServiceID) {
	if e := r.engine.Load(); e != nil {
		e.monitor.Follow(service)
		e.queuer.Hint(service)
	}
}

// Pause lets nothing leave a lane, or any lane, from the next claim of any instance on. It
// does not stop a submission in progress, and batches in flight are still followed. Unlike the
// methods below it takes a scope, not a control that was seen: a pause undoes nobody's act,
// and people need it in a hurry.
func (r *Runner) Pause(ctx context.Context, scope batch.Scope, by batch.By) (batch.Control, error) {
	return r.steer(ctx, store.Steering{Scope: scope, Action: batch.ActionPause, By: by})
}

// Resume ends the pause that the operator saw ([Runner.Control], [batch.Explanation]). The
// scans of all instances find the waiting batches, at once or within a ScanInterval. Services
// that were paused one by one stay paused when everything is resumed.
//
// Only Scope and Version of the seen control count. If the control has another version by now,
// nothing is done, and the error is a [*batch.MovedOnError] with the present control: the
// pause may be a new one, for another reason. SetPolicy and Release do the same.
func (r *Runner) Resume(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return r.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionResume, Seen: seen.Version, By: by})
}

// SetPolicy decides how a lane goes on when one of its batches ends Invalid or Rejected. It
// takes precedence over Options.Policy; [batch.PolicyDefault] removes it. seen comes from
// Control, which returns a control also for a lane that was never steered.
func (r *Runner) SetPolicy(ctx context.Context, seen batch.Control, p batch.Policy, by batch.By) (batch.Control, error) {
	return r.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionSetPolicy, Policy: p, Seen: seen.Version, By: by})
}

// Release ends the halt of a lane ([batch.PolicyHalt]) that the operator saw. If another batch
// halts the lane by now, the error is [batch.ErrMovedOn].
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
		r.observe(ctx, batch.Event{Kind: batch.EventOperated, Key: batch.Key{Service: s.Scope.Service}, By: batch.ByOperator, Act: act})
	}
	if !s.Scope.All { // the next scans find the services that were paused with everything
		r.freed(s.Scope.Service)
	}
	return c, nil
}

// Control returns the pause, halt and policy of a lane, or of everything.
func (r *Runner) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	c, err := r.store.Control(ctx, scope)
	if err != nil {
		return c, fmt.Errorf("control of %s: %w", scope, err)
	}
	return c, nil
}

// History returns the acts of operators upon a batch, oldest first: the newest
// [batch.MaxActs].
func (r *Runner) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	acts, err := r.store.History(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", key, err)
	}
	return acts, nil
}

// LaneHistory returns the acts of operators upon a lane, or upon everything, oldest first: the
// newest [batch.MaxActs].
func (r *Runner) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	acts, err := r.store.LaneHistory(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", scope, err)
	}
	return acts, nil
}

// Attempts returns the stored reports of a batch's attempts, oldest first: the first and the
// newest, [batch.MaxReports] in all. An attempt that simply ended well leaves none.
func (r *Runner) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	reports, err := r.store.Attempts(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", key, err)
	}
	return reports, nil
}
