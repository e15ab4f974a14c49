// Package operator reads a store and acts upon it for a person. It shows which batches wait and
// why, and who did what, and it offers every act that a person may do to a batch or a lane. It
// needs a store and no ledger client: a command and a console can be built on it.
//
// Some answers depend on more than the store's rows. A requeue has to know the ledger's
// ResendQuiet, and an explanation has to know the strategy and the length of claims. Each Runner
// records these settings in the store under the name of the ledger that serves a service, and a
// [Desk] reads them there. If they are not on record, or if Runners recorded different ones, the
// Desk refuses with a [*SettingsError] and never guesses. [Desk.Settings] shows the record.
package operator

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/acts"
	"github.com/dltbatch/dltbatch/internal/isnil"
	"github.com/dltbatch/dltbatch/internal/pages"
	"github.com/dltbatch/dltbatch/store"
)

// Desk is an operator's view of a store. Its methods may be called concurrently, and from any
// process.
//
// Each act takes the name of the person who acts, and the store records it in the history in the
// same transaction. An act upon a batch applies to the record that the person saw: from Get, a
// list, [batch.Explanation.Seen], or a [batch.MovedOnError]. If the batch has another version by
// now, the act does nothing and returns a [*batch.MovedOnError] with the present record. Only the
// fields Key and Version of the record count, and CreatedAt if it is set. An act upon a lane
// applies in the same way to the control that the person saw, by its Scope and Version.
//
// The acts return [batch.ErrNotFound], [batch.ErrMovedOn], [batch.ErrNotAllowed] where the state
// does not admit the act, [batch.ErrInDoubt], a [*batch.InputError], or the store's error. The
// error is [store.ErrUnsupported] where the store lacks an ability ([store.Abilities]). After any
// other error of the store the act may or may not have been done. A second call with the same
// record is harmless, and returns ErrMovedOn if the first call took effect.
//
// The Runners of other processes learn of an act from the store: at once or at their next scan. No
// [batch.Observer] gets an event about the act.
type Desk struct {
	store store.Store
	acts  acts.Desk
}

// New returns a Desk for a store. It does no I/O.
func New(s store.Store) (*Desk, error) {
	if isnil.Is(s) {
		return nil, fmt.Errorf("operator: %w", &batch.InputError{Field: "store", Value: "nil", Want: "a store, such as sqlite.New's"})
	}
	d := &Desk{store: s}
	d.acts = acts.Desk{Store: d.store, Quiet: d.resendQuiet, Withdraws: d.canWithdraw}
	if s.Abilities().Has(store.CanHint) {
		d.acts.Tell = d.sendHint
	}
	return d, nil
}

// hintTimeLimit is the time limit for a hint to the Runners. If a hint is lost, a scan finds the
// change.
const hintTimeLimit = time.Second

// sendHint sends a hint to the Runners of other processes about the lanes and batches that an act
// changed.
func (d *Desk) sendHint(ctx context.Context, h store.Hint) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeLimit)
	defer cancel()
	_ = d.store.Tell(ctx, h) // the act is done even if the hint is lost
}

// Cancel makes a waiting batch Rejected: a Queued, Delayed or Unknown one without an attempt in
// doubt. With an attempt in doubt the error is [batch.ErrInDoubt], and Decide may end the doubt.
// Cancel does not change a batch that is being submitted.
func (d *Desk) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return d.acts.Cancel(ctx, seen, by)
}

// Requeue puts an Invalid or Rejected batch back into its old place in its lane. The batch
// leaves again once the ledger's ResendQuiet has passed since its last POST. If the batch
// halted its lane, the lane stays halted. The error is a [*SettingsError] where the store's
// record does not say what the ResendQuiet is.
func (d *Desk) Requeue(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return d.acts.Requeue(ctx, seen, by)
}

// Decide ends a doubt by what a person found on the ledger ([batch.Ruling]). It also ends a
// waiting batch that Cancel refuses. The batch's claim must have expired, else the error is
// [batch.ErrInDoubt]. A wrong ruling breaks the promise "at most once", or loses the batch. Where
// prepared bytes may be sent again for ever (dlt.Forever), [batch.NotExecutedSendAgain] only sends
// them again, and [batch.NotExecutedReject] is final: such a batch cannot be requeued. A batch
// that can be withdrawn, while others of its lane are under way, must be withdrawn before it is
// rejected: the error is [batch.ErrNotAllowed].
func (d *Desk) Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error) {
	return d.acts.Decide(ctx, seen, ruling, by)
}

// Withdraw asks the ledger to prevent a batch under way from taking effect, where the ledger can
// do that (dlt.Traits.Withdraws): on an EVM chain by a transfer of 0 wei that has the batch's
// nonce. Only one of the two can take effect, and this decides: the batch ends Committed or
// Invalid, or it ends Rejected as cancelled once it can have no effect any more. The batch's claim
// must have expired, else the error is [batch.ErrInDoubt]. A withdrawal cannot be undone. The
// error is a [*SettingsError] where the store's record does not say what the ledger can do.
func (d *Desk) Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return d.acts.Withdraw(ctx, seen, by)
}

// CanWithdraw reports whether [Desk.Withdraw] works for a service: whether its ledger can prevent
// a batch under way from taking effect. The error is a [*SettingsError] where that is not on
// record.
func (d *Desk) CanWithdraw(ctx context.Context, service batch.ServiceID) (bool, error) {
	can, _, err := d.canWithdraw(ctx, service)
	return can, err
}

// Acquit ends the quarantine of a batch. The batch stays final and keeps its state.
func (d *Desk) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return d.acts.Acquit(ctx, seen, by)
}

// CheckAct returns the error that an act upon the batch would return now, and does not act. A
// caller can use it to ask for no confirmation of an act that cannot be done. The error is nil
// where the act would be done, where the batch has changed since the person saw it (the act itself
// reports that), and where the store lacks [store.CanInspect]. The ruling is read only for
// [batch.ActionDecide].
func (d *Desk) CheckAct(ctx context.Context, seen batch.Record, do batch.Action, ruling batch.Ruling) error {
	return d.acts.CheckAct(ctx, seen, do, ruling)
}

// Pause stops the posting of a lane, or of all lanes, from the next claim of any instance on. It
// does not stop a submission in progress, and batches in flight are still followed. It takes a
// scope and not a control that was seen, because a pause undoes no other person's act, and people
// need it in a hurry.
func (d *Desk) Pause(ctx context.Context, scope batch.Scope, by batch.By) (batch.Control, error) {
	return d.acts.Pause(ctx, scope, by)
}

// Resume ends the pause that the person saw. Services that were paused one by one stay paused
// when everything is resumed.
func (d *Desk) Resume(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return d.acts.Resume(ctx, seen, by)
}

// SetPolicy sets how a lane continues when one of its batches ends Invalid or Rejected.
// [batch.PolicyDefault] removes the lane's policy.
func (d *Desk) SetPolicy(ctx context.Context, seen batch.Control, p batch.Policy, by batch.By) (batch.Control, error) {
	return d.acts.SetPolicy(ctx, seen, p, by)
}

// Release ends the halt of a lane ([batch.PolicyHalt]) that the person saw. If another batch halts
// the lane by now, the error is [batch.ErrMovedOn].
func (d *Desk) Release(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return d.acts.Release(ctx, seen, by)
}

// Control returns the pause, halt and policy of a lane, or of everything.
func (d *Desk) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	return d.acts.Control(ctx, scope)
}

// Controls lists the services that are paused, halted or have a policy.
func (d *Desk) Controls(ctx context.Context, q store.ControlsQuery) ([]batch.Control, error) {
	return d.store.ControlsOf(ctx, q)
}

// Get returns the record of a batch, or [batch.ErrNotFound]. For a batch that retention removed,
// it returns the record of the tombstone, with PrunedAt set.
func (d *Desk) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	rec, err := d.store.Get(ctx, key)
	if err != nil {
		return rec, fmt.Errorf("get: %w", err)
	}
	return rec, nil
}

// List lists batches in the order of their order keys. The error is a [*batch.InputError] for an
// age below 0.
func (d *Desk) List(ctx context.Context, q store.ListQuery) ([]batch.Record, store.Cursor, error) {
	if err := checkAges("ListQuery", q.OlderThan, q.NewerThan); err != nil {
		return nil, "", fmt.Errorf("list: %w", err)
	}
	return d.store.List(ctx, q)
}

// All yields everything that List lists, page by page: q.Limit is the size of a page. An error
// ends the sequence.
func (d *Desk) All(ctx context.Context, q store.ListQuery) iter.Seq2[batch.Record, error] {
	return pages.All(q.After, func(at store.Cursor) ([]batch.Record, store.Cursor, error) {
		q.After = at
		return d.List(ctx, q)
	})
}

// Lanes counts the open batches of lanes, in byte order of services.
func (d *Desk) Lanes(ctx context.Context, q store.CountsQuery) ([]store.LaneCounts, error) {
	return d.store.Counts(ctx, q)
}

// ListOrders lists orders. The error is [store.ErrUnsupported] where the store keeps no orders.
func (d *Desk) ListOrders(ctx context.Context, q order.ListQuery) ([]order.Record, store.Cursor, error) {
	orders, ok := d.store.(order.Store)
	if !ok {
		return nil, "", fmt.Errorf("ListOrders: %w: %T is no order.Store", store.ErrUnsupported, d.store)
	}
	return orders.ListOrders(ctx, q)
}

// AllOrders yields everything that ListOrders lists, page by page. An error ends the sequence.
func (d *Desk) AllOrders(ctx context.Context, q order.ListQuery) iter.Seq2[order.Record, error] {
	return pages.All(q.After, func(at store.Cursor) ([]order.Record, store.Cursor, error) {
		q.After = at
		return d.ListOrders(ctx, q)
	})
}

// History returns the newest [batch.MaxActs] acts of operators upon a batch, oldest first.
func (d *Desk) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	return d.acts.History(ctx, key)
}

// LaneHistory returns the newest [batch.MaxActs] acts of operators upon a lane, or upon
// everything, oldest first.
func (d *Desk) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	return d.acts.LaneHistory(ctx, scope)
}

// Acts returns the acts of operators upon batches, lanes and everything, newest first, and the
// cursor for the next page, which is "" at the end. It needs a store with [store.CanListActs].
// Acts upon a bulk action as a whole are in [Progress].Events.
func (d *Desk) Acts(ctx context.Context, q store.ActsQuery) ([]batch.Act, store.Cursor, error) {
	acts, next, err := d.store.Acts(ctx, q)
	if err != nil {
		return nil, "", fmt.Errorf("history: %w", err)
	}
	return acts, next, nil
}

// AllActs yields everything that Acts lists, page by page. An error ends the sequence.
func (d *Desk) AllActs(ctx context.Context, q store.ActsQuery) iter.Seq2[batch.Act, error] {
	return pages.All(q.After, func(at store.Cursor) ([]batch.Act, store.Cursor, error) {
		q.After = at
		return d.Acts(ctx, q)
	})
}

// Attempts returns the stored reports of a batch's attempts, oldest first.
func (d *Desk) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	return d.acts.Attempts(ctx, key)
}

// Find returns the batches that q names by an id or a caller's key, whole or by the beginning, as
// [store.Store].Find does. It returns no error if nothing is found. It needs a store with
// [store.CanFind].
func (d *Desk) Find(ctx context.Context, q store.FindQuery) (found []batch.Record, more bool, err error) {
	found, more, err = d.store.Find(ctx, q)
	if err != nil {
		return nil, false, fmt.Errorf("find: %w", err)
	}
	return found, more, nil
}
