package dltbatch

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
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
// is [store.ErrUnsupported] where the store lacks [store.CanOperate].
// After the store's error the act may have been done or not. A second call with the same
// record is harmless, and gives ErrMovedOn if the first one took effect.

// Cancel makes a waiting batch Rejected: Queued, Delayed or Unknown, with no attempt in doubt
// (else [batch.ErrInDoubt]; Decide may end that). It does not touch a batch that is being
// submitted.
func (r *Runner) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.desk.Cancel(ctx, seen, by)
}

// Requeue puts an Invalid or Rejected batch back into its old place in its lane. The batch leaves
// again once the ledger's ResendQuiet has passed since its last POST. If the batch halted its
// lane, the lane stays halted. Where another ledger than this Runner's serves the service the
// error is [ErrOtherLedger], and nothing is done.
func (r *Runner) Requeue(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.desk.Requeue(ctx, seen, by)
}

// Decide ends a doubt by a person's finding on the ledger ([batch.Ruling]). It is for a batch
// that needs a decision (EventDecision, [Runner.Explain]), and for a waiting batch that Cancel
// refuses. The batch's claim must have expired, else the error is [batch.ErrInDoubt]. The decision
// is about the attempt that seen shows: a later attempt is another doubt and gives
// [batch.ErrMovedOn]. A wrong ruling breaks the promise "at most once in effect", or loses the
// batch. Where prepared bytes may be sent again for ever (dlt.Forever),
// [batch.NotExecutedSendAgain] only sends them again, and [batch.NotExecutedReject] is for good:
// such a batch is not requeued. Where others of the lane are under way, and the batch can be
// withdrawn ([Runner.Withdraw]), it is not given up before it is: [batch.ErrNotAllowed].
func (r *Runner) Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error) {
	return r.desk.Decide(ctx, seen, ruling, by)
}

// Withdraw asks the ledger to keep a batch from taking effect that is under way, where the ledger
// can do that (dlt.Traits.Withdraws): on an EVM chain by a transfer of nothing that has the
// batch's nonce. Whichever takes effect decides, and nothing else does: the batch ends Committed
// or Invalid, or Rejected as cancelled once it can have no effect any more. The batch's claim must
// have expired, else the error is [batch.ErrInDoubt]. A withdrawal cannot be taken back.
func (r *Runner) Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.desk.Withdraw(ctx, seen, by)
}

// Acquit ends the quarantine of a batch, which stays final as it is.
func (r *Runner) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return r.desk.Acquit(ctx, seen, by)
}

// onAct reports an operator's act on a batch, and wakes the lane of the batch.
func (r *Runner) onAct(ctx context.Context, act batch.Act, rec batch.Record) {
	r.events.Operated(ctx, act, rec)
	r.engine.Freed(rec.Service)
}

// onSteered is onAct for an act on a lane or on everything. changed is false if the act changed
// nothing.
func (r *Runner) onSteered(ctx context.Context, act batch.Act, changed bool) {
	if changed {
		r.events.Steered(ctx, act)
	}
	if !act.Scope.All { // after an act on everything, scans find the services
		r.engine.Freed(act.Scope.Service)
	}
}

// Pause lets nothing leave a lane, or any lane, from the next claim of any instance on. It
// does not stop a submission in progress, and batches in flight are still followed. Unlike the
// methods below it takes a scope, not a control that was seen: a pause undoes nobody's act,
// and people need it in a hurry.
func (r *Runner) Pause(ctx context.Context, scope batch.Scope, by batch.By) (batch.Control, error) {
	return r.desk.Pause(ctx, scope, by)
}

// Resume ends the pause that the operator saw ([Runner.Control], [batch.Explanation]). The
// scans of all instances find the waiting batches, at once or within a ScanInterval. Services
// that were paused one by one stay paused when everything is resumed.
//
// Only Scope and Version of the seen control count. If the control has another version by now,
// nothing is done, and the error is a [*batch.MovedOnError] with the present control: the
// pause may be a new one, for another reason. SetPolicy and Release do the same.
func (r *Runner) Resume(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return r.desk.Resume(ctx, seen, by)
}

// SetPolicy decides how a lane goes on when one of its batches ends Invalid or Rejected. It
// takes precedence over Options.Policy; [batch.PolicyDefault] removes it. seen comes from
// Control, which returns a control also for a lane that was never steered.
func (r *Runner) SetPolicy(ctx context.Context, seen batch.Control, p batch.Policy, by batch.By) (batch.Control, error) {
	return r.desk.SetPolicy(ctx, seen, p, by)
}

// Release ends the halt of a lane ([batch.PolicyHalt]) that the operator saw. If another batch
// halts the lane by now, the error is [batch.ErrMovedOn].
func (r *Runner) Release(ctx context.Context, seen batch.Control, by batch.By) (batch.Control, error) {
	return r.desk.Release(ctx, seen, by)
}

// Control returns the pause, halt and policy of a lane, or of everything.
func (r *Runner) Control(ctx context.Context, scope batch.Scope) (batch.Control, error) {
	return r.desk.Control(ctx, scope)
}

// History returns the acts of operators upon a batch, oldest first: the newest
// [batch.MaxActs].
func (r *Runner) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	return r.desk.History(ctx, key)
}

// LaneHistory returns the acts of operators upon a lane, or upon everything, oldest first: the
// newest [batch.MaxActs].
func (r *Runner) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	return r.desk.LaneHistory(ctx, scope)
}

// Attempts returns the stored reports of a batch's attempts, oldest first: the first and the
// newest, [batch.MaxReports] in all. An attempt that simply ended well leaves none.
func (r *Runner) Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error) {
	return r.desk.Attempts(ctx, key)
}
