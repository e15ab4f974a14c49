// Package acts does the acts of people upon stored batches and lanes, with the same code in
// processes with a ledger and in processes without one.
package acts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Desk does acts upon a store and reads their history.
type Desk struct {
	Store store.Store
	// Quiet returns dlt.Traits.ResendQuiet of a service's ledger.
	Quiet func(ctx context.Context, service batch.ServiceID) (time.Duration, error)
	// Withdraws returns dlt.Traits.Withdraws of a service's ledger, and its name.
	Withdraws func(ctx context.Context, service batch.ServiceID) (can bool, ledger string, err error)
	// Tell tells other processes which lanes or batches an act set free or ended; may be nil.
	Tell func(ctx context.Context, h store.Hint)
	// Done is called after each act upon a batch; rec is the batch after the act. May be nil.
	Done func(ctx context.Context, act batch.Act, rec batch.Record)
	// Steered is called after each act upon a lane or everything; changed reports whether the act
	// changed anything. May be nil.
	Steered func(ctx context.Context, act batch.Act, changed bool)
}

// Cancel makes a waiting batch Rejected.
func (d Desk) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := d.Store.Cancel(ctx, seen, by)
	return d.finish(ctx, rec, err, batch.Act{Action: batch.ActionCancel, By: by}, seen.Key)
}

// Requeue puts a final batch back into its lane.
func (d Desk) Requeue(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	quiet, err := d.Quiet(ctx, seen.Service)
	var rec batch.Record
	if err == nil {
		rec, err = d.Store.Requeue(ctx, seen, store.Requeue{Quiet: quiet}, by)
	}
	return d.finish(ctx, rec, err, batch.Act{Action: batch.ActionRequeue, By: by}, seen.Key)
}

// Decide ends a doubt. It refuses to reject a batch that can be withdrawn while others of its lane
// are under way.
func (d Desk) Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error) {
	err := d.checkRuling(ctx, seen, ruling)
	var rec batch.Record
	if err == nil {
		rec, err = d.Store.Decide(ctx, seen, ruling, by)
	}
	return d.finish(ctx, rec, err, batch.Act{Action: batch.ActionDecide, By: by}, seen.Key)
}

// Acquit ends a quarantine.
func (d Desk) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := d.Store.Acquit(ctx, seen, by)
	return d.finish(ctx, rec, err, batch.Act{Action: batch.ActionAcquit, By: by}, seen.Key)
}

// CheckAct returns the error that an act upon the batch would return now. It returns nil if the
// act would be done, if the batch has changed since it was seen (the act itself reports that), or
// if the store cannot inspect a batch.
func (d Desk) CheckAct(ctx context.Context, seen batch.Record, do batch.Action, ruling batch.Ruling) error {
	if !d.Store.Abilities().Has(store.CanInspect) {
		return nil
	}
	look, err := d.Store.Look(ctx, seen.Key, 1)
	if err == nil && look.Row.Version == seen.Version {
		err = d.checkAllowed(ctx, seen, look, do, ruling)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", do, seen.Key, err)
	}
	return nil
}

func (d Desk) checkAllowed(ctx context.Context, seen batch.Record, look store.Look, do batch.Action, ruling batch.Ruling) (err error) {
	switch do {
	case batch.ActionCancel:
		_, err = look.Row.Cancel(look.At, "")
	case batch.ActionRequeue:
		if _, err = d.Quiet(ctx, seen.Service); err == nil {
			_, err = look.Row.Requeue(look.At, store.Requeue{})
		}
	case batch.ActionDecide:
		if err = d.checkRuling(ctx, seen, ruling); err == nil {
			_, err = look.Row.Decide(look.At, ruling, "")
		}
	case batch.ActionAcquit:
		_, err = look.Row.Acquit()
	case batch.ActionWithdraw:
		if err = d.mayWithdraw(ctx, seen); err == nil {
			_, err = look.Row.Withdraw(look.At)
		}
	}
	return err
}

// Withdraw asks the ledger to prevent a batch from taking effect.
func (d Desk) Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	err := d.mayWithdraw(ctx, seen)
	var rec batch.Record
	if err == nil {
		rec, err = d.Store.Withdraw(ctx, seen, by)
	}
	return d.finish(ctx, rec, err, batch.Act{Action: batch.ActionWithdraw, By: by}, seen.Key)
}

// mayWithdraw returns an error if the batch's ledger cannot withdraw batches.
func (d Desk) mayWithdraw(ctx context.Context, seen batch.Record) error {
	can, ledger, err := d.Withdraws(ctx, seen.Service)
	if err == nil && !can {
		err = fmt.Errorf("%w: the ledger %q cannot keep a batch from taking effect that was sent to it", batch.ErrNotAllowed, batch.Excerpt(ledger, 64))
	}
	return err
}

// checkRuling refuses NotExecutedReject for a batch that the ledger can withdraw, while other
// batches of the lane are under way whose prepared bytes build on this batch. If the batch is
// withdrawn already, the ruling is allowed: the ledger was asked, and could not prevent the batch.
func (d Desk) checkRuling(ctx context.Context, seen batch.Record, ruling batch.Ruling) error {
	if ruling != batch.NotExecutedReject || !d.Store.Abilities().Has(store.CanInspect) {
		return nil
	}
	look, err := d.Store.Look(ctx, seen.Key, 1)
	if errors.Is(err, batch.ErrNotFound) {
		return nil // Decide returns this error itself
	}
	if err != nil {
		return err
	}
	if _, err := look.Row.Withdraw(look.At); err != nil || look.Row.Version != seen.Version {
		return nil //nolint:nilerr // the batch has no doubt or has changed, which Decide reports
	}
	others := 0
	for _, r := range look.Lane {
		if r.Key != seen.Key && r.Row.Prepared != nil {
			others++
		}
	}
	if others == 0 {
		return nil
	}
	if can, _, err := d.Withdraws(ctx, seen.Service); err != nil || !can {
		return nil //nolint:nilerr // the ledger cannot, or the record does not say: a person decides
	}
	return fmt.Errorf("%w: what was sent for it may still take effect, and others of its lane are under way (%d): withdraw it, and the ledger decides", batch.ErrNotAllowed, others)
}

func (d Desk) finish(ctx context.Context, rec batch.Record, err error, act batch.Act, key batch.Key) (batch.Record, error) {
	if err != nil {
		return rec, fmt.Errorf("%s %s: %w", act.Action, key, err)
	}
	act.Scope, act.Batch, act.To = batch.Only(key.Service), key.ID, rec.State
	h := store.Hint{Lanes: []batch.ServiceID{key.Service}}
	if rec.Final() {
		h.Finals = []uint64{store.KeyHash(string(key.Service), string(key.ID))}
	}
	d.sendHint(ctx, h)
	if d.Done != nil {
		d.Done(ctx, act, rec)
	}
	return rec, nil
}

func (d Desk) sendHint(ctx context.Context, h store.Hint) {
	if d.Tell != nil {
		d.Tell(ctx, h)
	}
}

// Pause stops the posting of a scope.
func (d Desk) Pause(ctx context.Context, scope batch.Scope, by batch.By) (batch.Control, error) {
	return d.steer(ctx, store.Steering{Scope: scope, Action: batch.ActionPause, By: by})
}

// Resume ends the pause that was seen.
func (d Desk) Resume(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return d.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionResume, Seen: seen.Version, By: by})
}

// SetPolicy sets the policy of a lane.
func (d Desk) SetPolicy(ctx context.Context, seen batch.Control, p batch.Policy, by batch.By) (batch.Control, error) {
	return d.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionSetPolicy, Policy: p, Seen: seen.Version, By: by})
}

// Release ends the halt that was seen.
func (d Desk) Release(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return d.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionRelease, Seen: seen.Version, By: by})
}

func (d Desk) steer(ctx context.Context, s store.Steering) (batch.Control, error) {
	c, changed, err := d.Store.Steer(ctx, s)
	if err != nil {
		return c, fmt.Errorf("%s %s: %w", s.Action, s.Scope, err)
	}
	switch {
	case !changed:
	case s.Scope.All:
		d.sendHint(ctx, store.Hint{WholeTopics: store.TopicLanes})
	default:
		d.sendHint(ctx, store.Hint{Lanes: []batch.ServiceID{s.Scope.Service}})
	}
	if d.Steered != nil {
		d.Steered(ctx, batch.Act{Action: s.Action, By: s.By, Scope: s.Scope, Policy: s.Policy}, changed)
	}
	return c, nil
}

// Control returns the control of a scope.
func (d Desk) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	c, err := d.Store.Control(ctx, scope)
	if err != nil {
		return c, fmt.Errorf("control of %s: %w", scope, err)
	}
	return c, nil
}

// History returns the acts upon a batch.
func (d Desk) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	acts, err := d.Store.History(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", key, err)
	}
	return acts, nil
}

// LaneHistory returns the acts upon a scope.
func (d Desk) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	acts, err := d.Store.LaneHistory(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", scope, err)
	}
	return acts, nil
}

// Attempts returns the reports of a batch's attempts.
func (d Desk) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	reports, err := d.Store.Attempts(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", key, err)
	}
	return reports, nil
}
