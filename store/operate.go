package store

import (
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// CheckSeen returns a [*batch.InputError] for a record that nobody can have seen: every stored
// batch has a version of 1 or more.
func CheckSeen(seen batch.Record) error {
	if seen.Version < 1 {
		return &batch.InputError{Key: seen.Key, Field: "Record.Version", Value: fmt.Sprint(seen.Version), Want: "the version of the record that was seen, 1 or more"}
	}
	return nil
}

// Unmoved returns a [*batch.MovedOnError] if now does not have the version that was seen, or is
// another batch that was added under the same id after retention had removed the seen batch. It is
// the fence of operators' acts on a batch.
func Unmoved(seen, now batch.Record) error {
	another := !seen.CreatedAt.IsZero() && !seen.CreatedAt.Equal(now.CreatedAt)
	if now.Version != seen.Version || another {
		return &batch.MovedOnError{Seen: seen.Version, Now: now}
	}
	return nil
}

// Cancel is [Store].Cancel.
func (r Row) Cancel(now time.Time, reason string) (Row, error) {
	r = r.AsOf(now)
	switch {
	case r.State == batch.Submitting || r.DoubtAttempt != 0:
		return r, fmt.Errorf("%w: cannot cancel from %s", batch.ErrInDoubt, r.State)
	case !batch.Allowed(r.State, batch.Rejected, batch.ByOperator) || r.Final():
		return r, fmt.Errorf("%w: cannot cancel from %s", batch.ErrNotAllowed, r.State)
	}
	r.Error = &batch.SubmissionError{Kind: batch.KindCancelled, Message: batch.Excerpt(reason, batch.MaxErrorText)}
	r.makeFinal(batch.Rejected, now)
	r.Version++
	return r, nil
}

// Requeue says how a batch goes back to its place in its lane.
type Requeue struct {
	// Quiet is the least time between the last POST and the next claim: the ledger's
	// ResendQuiet.
	Quiet time.Duration
}

// Requeue is [Store].Requeue. Attempts, spent budget and the place stay as they were.
func (r Row) Requeue(now time.Time, q Requeue) (Row, error) {
	if !batch.Allowed(r.State, batch.Queued, batch.ByOperator) || !r.Final() {
		return r, fmt.Errorf("%w: cannot requeue from %s", batch.ErrNotAllowed, r.State)
	}
	if r.Error != nil && r.Error.Kind == batch.KindGivenUp {
		return r, fmt.Errorf("%w: it was given up while an attempt could still take effect, and the bytes of that attempt are not known any more", batch.ErrNotAllowed)
	}
	if r.OrdersSettled {
		return r, fmt.Errorf("%w: its orders are settled, and may be part of another batch", batch.ErrNotAllowed)
	}
	r = r.AsOf(now)
	r.State = batch.Queued
	r.FinalAt, r.SettlesAt = time.Time{}, time.Time{}
	r.NotBefore = time.Time{}
	if !r.LastPost.IsZero() {
		r.NotBefore = r.LastPost.Add(q.Quiet)
	}
	r.Requeued, r.Quarantined = true, false
	r.Error, r.Receipts, r.Failures = nil, nil, 0
	r.MovedAt = time.Time{}
	r.Rollbacks, r.SeenAttempt, r.SeenEndpoint = 0, 0, ""
	r.Version++
	return r, nil
}

// Decide is [Store].Decide.
func (r Row) Decide(now time.Time, ruling batch.Ruling, reason string) (Row, error) {
	if err := ruling.Validate(); err != nil {
		return r, err
	}
	to := ruling.State()
	r = r.AsOf(now)
	open := r.State == batch.Submitting
	switch r.State {
	case batch.Pending, batch.Valid:
		open = r.Undecided()
	case batch.Delayed, batch.Unknown: // such a batch may not be cancelled while an earlier attempt is in doubt
		open = r.DoubtAttempt != 0
	}
	if !open {
		return r, fmt.Errorf("%w: a batch that is %s needs no decision", batch.ErrNotAllowed, r.State)
	}
	if !batch.Allowed(r.State, to, batch.ByOperator) {
		return r, fmt.Errorf("%w: cannot decide %s to %s", batch.ErrNotAllowed, r.State, to)
	}
	if r.Live(now) {
		return r, fmt.Errorf("%w: the claim has not expired", batch.ErrInDoubt)
	}
	switch to {
	case batch.Unknown:
		if !r.isSameBytesForEver() {
			r.clearDoubt()
		}
		r.Refused = false
		r.makeClaimable(now, 0)
		r.markMoved(time.Time{}) // the deadline begins with the next claim
	case batch.Rejected:
		kind := batch.KindCancelled
		if r.isSameBytesForEver() {
			kind = batch.KindGivenUp
		}
		r.LastPost = r.lastPostEnd()
		r.Error = &batch.SubmissionError{Kind: kind, Message: batch.Excerpt(reason, batch.MaxErrorText)}
		r.makeFinal(to, now)
	default:
		r.LastPost = r.lastPostEnd()
		r.Error = nil
		r.makeFinal(to, now)
	}
	r.Version++
	return r, nil
}

// Withdraw is [Store].Withdraw. The row keeps its state, its doubt and its bytes, because only the
// ledger's answer ends a withdrawn batch. A person who withdraws a batch has decided about it, so
// its deadline begins anew.
func (r Row) Withdraw(now time.Time) (Row, error) {
	r = r.AsOf(now)
	switch {
	case r.Final():
		return r, fmt.Errorf("%w: cannot withdraw from %s", batch.ErrNotAllowed, r.State)
	case r.Withdrawn:
		return r, fmt.Errorf("%w: it is withdrawn already, and what takes effect decides", batch.ErrNotAllowed)
	case r.DoubtAttempt == 0:
		return r, fmt.Errorf("%w: nothing of it is under way; cancel it", batch.ErrNotAllowed)
	case !r.isSameBytesForEver() || r.State == batch.Invalid:
		return r, fmt.Errorf("%w: no prepared bytes are kept for it that may be sent again for ever", batch.ErrNotAllowed)
	case r.Live(now):
		return r, fmt.Errorf("%w: the claim has not expired", batch.ErrInDoubt)
	}
	r.Withdrawn, r.Refused = true, false
	r.markMoved(now)
	if r.Monitored(now) {
		r.NextCheck = now
	}
	r.Version++
	return r, nil
}

// isSameBytesForEver reports whether each further attempt sends the bytes of the attempts in
// doubt, to a ledger that never executes them twice. A resend then does not need a person's ruling
// about the doubt, and the ruling is not trusted: only the ledger ends the doubt. Otherwise a
// batch whose budget is used up later would be rejected and its bytes forgotten, and other bytes
// would repeat the effect while the first may still come (docs/design.md#prepared-bytes).
func (r Row) isSameBytesForEver() bool {
	return r.Prepared != nil && r.isHarmlessForEver()
}
