// Package acts has the acts of people upon stored batches and lanes. Processes with a ledger and
// processes without one do it by the same code.
package acts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Desk is where people act, and look up who did what.
type Desk struct {
	Store store.Store
	// Quiet returns dlt.Traits.ResendQuiet of a service's ledger.
	Quiet func(ctx context.Context, service batch.ServiceID) (time.Duration, error)
	// Withdraws returns dlt.Traits.Withdraws of a service's ledger, and its name.
	Withdraws func(ctx context.Context, service batch.ServiceID) (can bool, ledger string, err error)
	// Tell tells other processes which lanes or batches an act set free or ended; nil tells
	// nobody.
	Tell func(ctx context.Context, h store.Hint)
	// Done is called after each act upon a batch, which is rec now; nil is nobody.
	Done func(ctx context.Context, act batch.Act, rec batch.Record)
	// Steered is called after each act upon a lane or everything; changed says whether there
	// was anything to do. nil is nobody.
	Steered func(ctx context.Context, act batch.Act, changed bool)
}

// Cancel makes a waiting batch Rejected.
func (d Desk) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := d.Store.Cancel(ctx, seen, by)
	return d.done(ctx, rec, err, batch.Act{Action: batch.ActionCancel, By: by}, seen.Key)
}

// Requeue puts a final batch back into its lane.
func (d Desk) Requeue(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	quiet, err := d.Quiet(ctx, seen.Service)
	var rec batch.Record
	if err == nil {
		rec, err = d.Store.Requeue(ctx, seen, store.Requeue{Quiet: quiet}, by)
	}
	return d.done(ctx, rec, err, batch.Act{Action: batch.ActionRequeue, By: by}, seen.Key)
}

// Decide ends a doubt. It does not give a batch up that can be withdrawn, and for which others of
// its lane would wait.
func (d Desk) Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error) {
	err := d.checkRuling(ctx, seen, ruling)
	var rec batch.Record
	if err == nil {
		rec, err = d.Store.Decide(ctx, seen, ruling, by)
	}
	return d.done(ctx, rec, err, batch.Act{Action: batch.ActionDecide, By: by}, seen.Key)
}

// Acquit ends a quarantine.
func (d Desk) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	rec, err := d.Store.Acquit(ctx, seen, by)
	return d.done(ctx, rec, err, batch.Act{Action: batch.ActionAcquit, By: by}, seen.Key)
}

// Refuses returns the error with which an act upon the batch that was seen would be refused now,
// and nil where it would be done, where the batch has moved on since, as the act itself says, or
// where the store cannot look.
func (d Desk) Refuses(ctx context.Context, seen batch.Record, do batch.Action, ruling batch.Ruling) error {
	if !d.Store.Abilities().Has(store.CanInspect) {
		return nil
	}
	look, err := d.Store.Look(ctx, seen.Key, 1)
	if err == nil && look.Row.Version == seen.Version {
		err = d.refuses(ctx, seen, look, do, ruling)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", do, seen.Key, err)
	}
	return nil
}

func (d Desk) refuses(ctx context.Context, seen batch.Record, look store.Look, do batch.Action, ruling batch.Ruling) (err error) {
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

// Withdraw asks the ledger to keep a batch from taking effect.
func (d Desk) Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	err := d.mayWithdraw(ctx, seen)
	var rec batch.Record
	if err == nil {
		rec, err = d.Store.Withdraw(ctx, seen, by)
	}
	return d.done(ctx, rec, err, batch.Act{Action: batch.ActionWithdraw, By: by}, seen.Key)
}

// mayWithdraw refuses to withdraw a batch of a ledger that cannot do that.
func (d Desk) mayWithdraw(ctx context.Context, seen batch.Record) error {
	can, ledger, err := d.Withdraws(ctx, seen.Service)
	if err == nil && !can {
		err = fmt.Errorf("%w: the ledger %q cannot keep a batch from taking effect that was sent to it", batch.ErrNotAllowed, batch.Excerpt(ledger, 64))
	}
	return err
}

// checkRuling refuses a ruling that gives up a batch where the ledger can be asked for certainty,
// and where other batches of the lane are under way, whose bytes rest on this one's. A batch that
// is withdrawn already may be given up: the ledger was asked, and cannot do it.
func (d Desk) checkRuling(ctx context.Context, seen batch.Record, ruling batch.Ruling) error {
	if ruling != batch.NotExecutedReject || !d.Store.Abilities().Has(store.CanInspect) {
		return nil
	}
	look, err := d.Store.Look(ctx, seen.Key, 1)
	if errors.Is(err, batch.ErrNotFound) {
		return nil // Decide says so
	}
	if err != nil {
		return err
	}
	if _, err := look.Row.Withdraw(look.At); err != nil || look.Row.Version != seen.Version {
		return nil //nolint:nilerr // there is nothing to ask for, or it has moved on, as Decide says
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
		return nil //nolint:nilerr // where nobody knows, a person does
	}
	return fmt.Errorf("%w: what was sent for it may still take effect, and others of its lane are under way (%d): withdraw it, and the ledger decides", batch.ErrNotAllowed, others)
}

func (d Desk) done(ctx context.Context, rec batch.Record, err error, act batch.Act, key batch.Key) (batch.Record, error) {
	if err != nil {
		return rec, fmt.Errorf("%s %s: %w", act.Action, key, err)
	}
	act.Scope, act.Batch, act.To = batch.Only(key.Service), key.ID, rec.State
	h := store.Hint{Lanes: []batch.ServiceID{key.Service}}
	if rec.Final() {
		h.Finals = []uint64{store.KeyHash(string(key.Service), string(key.ID))}
	}
	d.tell(ctx, h)
	if d.Done != nil {
		d.Done(ctx, act, rec)
	}
	return rec, nil
}

func (d Desk) tell(ctx context.Context, h store.Hint) {
	if d.Tell != nil {
		d.Tell(ctx, h)
	}
}

// Pause lets nothing leave a scope.
func (d Desk) Pause(ctx context.Context, scope batch.Scope, by batch.By) (batch.Control, error) {
	return d.steer(ctx, store.Steering{Scope: scope, Action: batch.ActionPause, By: by})
}

// Resume ends the pause that was seen.
func (d Desk) Resume(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return d.steer(ctx, store.Steering{Scope: seen.Scope, Action: batch.ActionResume, Seen: seen.Version, By: by})
}

// SetPolicy gives a lane a policy.
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
		d.tell(ctx, store.Hint{WholeTopics: store.TopicLanes})
	default:
		d.tell(ctx, store.Hint{Lanes: []batch.ServiceID{s.Scope.Service}})
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
