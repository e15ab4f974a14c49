package store

import (
	"bytes"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Finding is the fact that a submitter or monitor found out about an attempt.
type Finding uint8

// Findings of a submitter.
const (
	// Accepted: the ledger took the batch for processing.
	Accepted Finding = iota + 1
	// Doubtful: the attempt ended and its outcome is not known.
	Doubtful
	// Unposted: nothing was sent, and the batch goes back to the state from which it was claimed.
	Unposted
	// Failed: the attempt certainly had no effect, and may be repeated after Delay. A monitor also
	// finds it, if the ledger says so.
	Failed
	// Refused: the attempt had no effect and must not be repeated, because the ledger refused the
	// batch for good or the budget is used up. A monitor may find this, too.
	Refused
)

// Findings of a monitor.
const (
	// IsPending, IsValid, IsInvalid and IsCommitted are the ledger's answer.
	IsPending Finding = iota + Refused + 1
	IsValid
	IsInvalid
	IsCommitted
	// Settled: the time has passed in which the Invalid batch could become Committed.
	Settled
	// NoTrace: the ledger has no trace of the batch, and a resend is declared harmless. The doubt
	// stays open.
	NoTrace
	// NotCommitted: evidence shows that the attempt was not committed. The doubt is resolved.
	NotCommitted
	// IsVoid: the prepared bytes, and everything sent with them, had no effect and can have none
	// any more. The doubt is resolved, and the prepared bytes are forgotten: the next attempt
	// prepares anew. It counts only while the row keeps the bytes in [Outcome].Prepared.
	IsVoid
	// Undecidable: nothing more can be found out, or the batch has not moved for too long. A
	// person has to decide.
	Undecidable
	// PutOff: the batch has not moved for too long, and for a part of that time nobody could ask
	// about it. Its deadline is put off ([DeadlinePutOff]).
	PutOff
	// HasReceipts: the receipts of a batch came after its commit was recorded without them. It
	// applies to a Committed row that has none, at any version, and changes nothing else.
	HasReceipts
)

var findingNames = [...]string{
	Accepted: "accepted", Doubtful: "doubtful", Unposted: "unposted", Failed: "failed", Refused: "refused",
	IsPending: "is pending", IsValid: "is valid", IsInvalid: "is invalid", IsCommitted: "is committed",
	Settled: "settled", NoTrace: "no trace", NotCommitted: "not committed", IsVoid: "is void", Undecidable: "undecidable",
	PutOff: "put off", HasReceipts: "has receipts",
}

// String returns the finding as a word.
func (f Finding) String() string {
	if f < Accepted || f > HasReceipts {
		return fmt.Sprintf("finding(%d)", uint8(f))
	}
	return findingNames[f]
}

// Outcome is a finding about one attempt, to be recorded.
type Outcome struct {
	Ref
	// Version is the version of the row before the ledger was asked.
	Version int64
	// Was is the row at Version as the store returned it, without its receipts and with the bytes
	// prepared by then, so that a store need not read the row again. It is nil if the row is not
	// known, or if bytes were prepared since. A store need not use it, and must not change it.
	Was *Row
	// Budget is the budget of the batch, if it is known; no store reads it.
	Budget  batch.Budget
	Finding Finding
	By      batch.Actor
	// Attempt is the number of the attempt that the answer names; 0 if the answer is about the
	// batch as a whole.
	Attempt int
	// Back is the state from which an Unposted batch was claimed.
	Back batch.State
	// Spend counts the attempt against the budget.
	Spend bool
	// Refund gives back the budget that the claim has spent (Budget.EveryTry), because nothing was
	// posted, or because the next attempt only helps this one.
	Refund bool
	// Last is true if there is no further attempt: once the doubt is resolved the batch is
	// Rejected, with Error.
	Last bool
	// RolledBack, with an IsValid or a NotCommitted, is true if the ledger executed the attempt
	// and took it back: [Row].Rollbacks counts it, once for each attempt.
	RolledBack bool
	// Halt, with such an outcome, is the reason why nothing may leave the lane any more, at
	// most [batch.MaxErrorText] bytes; "" leaves the lane as it is. With a Halt the count of
	// rollbacks begins anew.
	Halt string
	// Delay until the batch may be claimed again, with a Failed, NoTrace, NotCommitted or IsVoid.
	Delay time.Duration
	// StuckAfter is how long the batch may be open without moving before a person is called about
	// it; 0 means that nobody is called. The outcome is applied in any case, and the batch goes on
	// as the outcome says.
	StuckAfter time.Duration
	// ForgottenFor, with a Doubtful, is the age of the first attempt that the store has forgotten
	// ([batch.ErrForgotten]). The doubt is at least as old. 0 means that the store has forgotten
	// no attempt.
	ForgottenFor time.Duration
	// Check is the time until the monitor asks (again).
	Check time.Duration
	// Settle is how long an IsInvalid may still become Committed. With a Settled it is the longest
	// time by which the row's SettlesAt may be ahead: a later time was written by a clock that was
	// put right since.
	Settle time.Duration
	// Prepared are the bytes that a monitor asked the ledger about; nil if there are none. With an
	// IsVoid they are the bytes that the row kept when it was read. The version alone does not
	// fence an IsVoid, because a slow submitter keeps bytes, and posts them, without raising the
	// version. With other findings no store reads them.
	Prepared []byte
	// Error is the reason of a Doubtful, Failed, Refused, IsInvalid or Undecidable.
	Error *batch.SubmissionError
	// Endpoint, with an Accepted or an IsPending, is the endpoint that reported the attempt as
	// under way, or "" if it is not worth keeping; at most [MaxEndpointLen] bytes.
	Endpoint string
	// Receipts are the receipts of an IsInvalid, IsCommitted or HasReceipts.
	Receipts []batch.Receipt
	// Policy is the policy for a lane that has none, if this outcome ends the batch: see
	// [Applied.Enforce].
	Policy batch.Policy
	// Report is the report to keep of the attempt. nil keeps nothing, as for an attempt that was
	// simply accepted. The store sets the report's At.
	Report *batch.Report
	// Post is the request to which the answer belongs; zero for the outcome of a monitor, and if
	// nothing was sent. No store reads it.
	Post Post
	// Query is the question to which the answer belongs, also if the answer is written together
	// with an acceptance; zero if an event of the ledger or a POST brought the answer. No store
	// reads it.
	Query Query
}

// Query is a question to the ledger about batches. Its times are of the clock of the process that
// asked.
type Query struct {
	Took     time.Duration
	Answered time.Time // when the answer came
}

// Post is a request that sent batches. Its times are by the clock of the process that made it.
type Post struct {
	Batches  int // the number of batches in the request
	Took     time.Duration
	Answered time.Time // when the answer came, or the process gave the request up
}

// Result is the way in which an outcome was handled.
type Result uint8

// The results.
const (
	// Written: the row is as the outcome says.
	Written Result = iota + 1
	// Fenced: the row's version has moved on; nothing was written.
	Fenced
	// Held: a commit is known, but a live claim may still be posting. Record the commit again when
	// that claim has ended.
	Held
	// Gone: there is no such batch.
	Gone
	// Bad: the outcome cannot be applied; Applied.Err says why.
	Bad
)

// Applied is the effect of one outcome.
type Applied struct {
	Ref
	Result Result
	At     time.Time   // the time of the write, on the database's clock; zero where it is not known
	From   batch.State // the state before
	Row    Row         // the row as it is now; zero when Gone
	// Breach is true if a final batch was committed after all.
	Breach bool
	// Stuck is true if this outcome calls a person: the batch has a decision, and had none before.
	Stuck bool
	// Halt is [Outcome].Halt if it was written and the lane was not halted with a reason before.
	Halt string
	// Halted is true if the policy, or Halt, now keeps everything in the lane.
	Halted bool
	Err    error // for Bad
}

// Apply returns the row after the outcome, and the result to report. The caller writes the row
// back if, and only if, the result is Written and the row differs.
//
// The version fences every outcome except a commit, which is a fact, no matter who reports it.
// A commit applies to the row in any state, open or final, unless a live claim may still be
// posting (docs/design.md#promise-5-fencing). Receipts of a commit apply to the row that has none.
func (r Row) Apply(o Outcome, now time.Time) (Row, Applied) {
	res := Applied{Ref: o.Ref, At: now, From: r.State, Row: r, Result: Written}
	fail := func(result Result, err error) (Row, Applied) {
		res.Result, res.Err = result, err
		return r, res
	}
	switch {
	case o.Finding == IsCommitted && r.State == batch.Committed:
		return r, res
	case o.Finding == HasReceipts && r.State != batch.Committed:
		return fail(Fenced, nil)
	case o.Finding == HasReceipts:
		if len(r.Receipts) == 0 && len(o.Receipts) > 0 {
			r.Receipts = o.Receipts
			r.Version++
			res.Row = r
		}
		return r, res
	case o.Finding == IsCommitted && r.Live(now) && (o.By != batch.BySubmitter || o.Version != r.Version):
		return fail(Held, nil) // even if a submitter reports the commit: the live claim is another process's
	case o.Finding == IsCommitted:
		res.Breach = r.Final() || (r.Requeued && r.State == batch.Queued) // the batch was final, and others may have gone ahead
	case o.Version != r.Version || r.Final():
		return fail(Fenced, nil)
	case o.Finding == IsVoid && !bytes.Equal(o.Prepared, r.Prepared):
		return fail(Fenced, nil)
	case o.By == batch.ByMonitor && r.Live(now): // the claim had expired, and then the clock was put back
		return fail(Fenced, nil)
	}
	next, err := r.AsOf(now).applyFinding(o, now)
	if err != nil {
		return fail(Bad, fmt.Errorf("batch %s: %s: %w", o.Key, o.Finding, err))
	}
	next.setDecision(r, o, now)
	if o.Finding != IsCommitted && !batch.Allowed(r.State, next.State, o.By) {
		return fail(Bad, fmt.Errorf("%w: %s from %s to %s by the %s", batch.ErrNotAllowed, o.Key, r.State, next.State, o.By))
	}
	next.Version++
	if o.Spend {
		next.Spent++
	}
	if o.Refund && next.Spent > 0 {
		next.Spent--
	}
	if res.Row = next; o.Finding == NotCommitted || o.Finding == IsValid {
		res.Halt = o.Halt
	}
	res.Stuck = next.Called() && !r.Called()
	return next, res
}

// applyFinding returns the row after the finding. It leaves the version and the spent attempts as
// they are.
func (r Row) applyFinding(o Outcome, now time.Time) (Row, error) {
	switch o.Finding {
	case Accepted, IsPending:
		r.markPending(now, o)
	case IsValid:
		if r.State != batch.Valid {
			r.applyAcceptance(now, o)
		}
		r.State = batch.Valid
		r.NextCheck = now.Add(o.Check)
		r.countRollback(o)
	case Doubtful:
		r.applyDoubt(now, o)
	case Unposted:
		if !o.Back.Claimable() {
			return r, fmt.Errorf("%w: put back to %s", batch.ErrNotAllowed, o.Back)
		}
		r.resolveOwnAttempt()
		r.State = o.Back
		r.ClaimExpires = time.Time{}
		if !r.NotBefore.IsZero() { // NotBefore had passed at the claim; see [Row.waitStart]
			r.NotBefore, r.NextCheck = now, now
		}
	case Failed:
		r.applyFailure(now, o)
	case Refused:
		r.applyRefusal(now, o)
	case IsInvalid:
		if !r.InFlight(o.Ref, o.Budget, now).AboutLast(o.Attempt) {
			return r, fmt.Errorf("%w: the verdict is about attempt %d, and what became of attempt %d is open", batch.ErrNotAllowed, o.Attempt, r.Attempt)
		}
		if r.DoubtAttempt != 0 && o.Attempt > r.DoubtAttempt {
			// The verdict is about a later attempt; the earlier attempt stays unresolved.
			o.Last = true
			r.applyDoubt(now, o)
			break
		}
		r.LastPost = r.lastPostEnd()
		r.State = batch.Invalid
		r.ClaimExpires = time.Time{}
		r.Error, r.Receipts = o.Error, o.Receipts
		r.SettlesAt = now.Add(o.Settle)
		r.NextCheck = now.Add(o.Check)
		if o.Settle <= 0 {
			r.makeFinal(batch.Invalid, now)
		}
	case Settled:
		wait := r.SettlesAt.Sub(now)
		if r.State != batch.Invalid || wait > 0 && (o.Settle <= 0 || wait <= o.Settle) {
			return r, fmt.Errorf("%w: %s is not settled", batch.ErrNotAllowed, r.State)
		}
		r.makeFinal(batch.Invalid, now)
	case IsCommitted:
		if o.By == batch.BySubmitter && r.Live(now) {
			r.LastPost = now // the claim's POST has ended, though the claim has not
		} else {
			r.LastPost = r.lastPostEnd()
		}
		r.Error, r.Receipts = nil, o.Receipts // the error and the receipts of an earlier verdict are no longer true
		r.makeFinal(batch.Committed, now)
	case NoTrace:
		if r.Refused {
			return r, fmt.Errorf("%w: refused, and in doubt", batch.ErrInDoubt)
		}
		r.makeClaimable(now, o.Delay)
	case NotCommitted:
		r.applyNotCommitted(now, o)
	case IsVoid:
		r.Prepared = nil
		r.applyNotCommitted(now, o)
	case Undecidable:
		r.NextCheck = now.Add(o.Check)
		r.Decision = "needs a decision"
		if o.Error != nil {
			r.Decision = o.Error.Error()
		}
	case PutOff:
		r = r.withDeadlinePutOff(now, o.StuckAfter)
		r.NextCheck = now.Add(o.Check)
	default:
		return r, fmt.Errorf("%w: unknown %s", batch.ErrNotAllowed, o.Finding)
	}
	return r, nil
}

func (r *Row) applyAcceptance(now time.Time, o Outcome) {
	if r.LastPost.IsZero() { // no earlier attempt may have been taken
		r.markMoved(now)
	}
	if o.Finding == Accepted {
		r.LastPost = now
	} else {
		r.LastPost = r.lastPostEnd()
	}
	r.ClaimExpires, r.NotBefore, r.SettlesAt = time.Time{}, time.Time{}, time.Time{}
	r.NextCheck = now.Add(o.Check)
	r.Failures = 0
	r.Receipts = nil // receipts of a verdict that the ledger took back
	if !r.Refused {
		r.Error = nil
	}
}

// applyFailure makes the batch wait for another attempt after an attempt that certainly had no
// effect.
func (r *Row) applyFailure(now time.Time, o Outcome) {
	if r.Refused { // no further attempt follows, however this one ended
		o.Error = r.Error
		r.applyRefusal(now, o)
		return
	}
	if o.By == batch.ByMonitor { // the attempt was posted, and other batches may have followed it
		r.LastPost = r.lastPostEnd()
	}
	r.resolveOwnAttempt()
	r.State = batch.Delayed
	r.ClaimExpires = time.Time{}
	r.NotBefore, r.NextCheck = now.Add(o.Delay), now
	r.Failures++
	r.Error = o.Error
}

// applyRefusal ends the batch, or leaves it in doubt if an earlier attempt may still take effect.
func (r *Row) applyRefusal(now time.Time, o Outcome) {
	r.resolveOwnAttempt()
	if r.DoubtAttempt != 0 {
		o.Last = true
		r.applyDoubt(now, o)
		return
	}
	r.Error = o.Error
	r.makeFinal(batch.Rejected, now)
}

// applyDoubt keeps the attempt as unresolved and gives the row to the monitor at once.
func (r *Row) applyDoubt(now time.Time, o Outcome) {
	over := now
	if p := r.lastPostEnd(); o.By == batch.ByMonitor && !p.IsZero() {
		over = p // nothing was posted since, and the wait must not begin anew with every answer
	}
	r.State = batch.Submitting
	r.ClaimExpires = over
	r.LastPost = over
	r.Failures = 0
	r.NextCheck = now.Add(o.Check)
	if !r.Refused {
		r.Error = o.Error
	}
	// A withdrawn batch needs further attempts however this one ended, since one of them ends the
	// batch.
	r.Refused = r.Refused || o.Last && !r.Withdrawn
	if o.ForgottenFor > 0 {
		r.ageDoubt(now.Add(-o.ForgottenFor))
	}
}

// ageDoubt makes the doubt as old as since, when the first attempt that the store has forgotten
// began. The time in which a resend is harmless ends earlier by as much. The forgotten attempt
// counts as one more POST.
func (r *Row) ageDoubt(since time.Time) {
	if young := r.DoubtSince.Sub(since); young > 0 {
		r.DoubtSince, r.ResendUntil = since, r.ResendUntil.Add(-young)
	}
	r.Resends++
}

// markPending marks the batch as accepted by the ledger. A repeated answer changes only the
// endpoint that gave it and the next check.
func (r *Row) markPending(now time.Time, o Outcome) {
	if r.State != batch.Pending {
		r.applyAcceptance(now, o)
	}
	r.State = batch.Pending
	r.NextCheck = now.Add(o.Check)
	if o.Endpoint != "" {
		r.SeenAttempt, r.SeenEndpoint = r.Attempt, o.Endpoint
	}
}

// applyNotCommitted resolves the doubt: the batch becomes claimable again, or it ends if no
// further attempt may follow.
func (r *Row) applyNotCommitted(now time.Time, o Outcome) {
	r.countRollback(o)
	r.clearDoubt()
	if r.Withdrawn {
		o.Last, o.Error, r.Refused = true, withdrawnError(o.Error), false
	}
	if o.Error != nil && !r.Refused {
		r.Error = o.Error
	}
	if r.Refused || o.Last {
		r.LastPost = r.lastPostEnd()
		r.makeFinal(batch.Rejected, now)
		return
	}
	r.makeClaimable(now, o.Delay)
}

// withdrawnError returns the error of a batch that a person has withdrawn and that had no effect.
// why is the ledger's answer, or nil.
func withdrawnError(why *batch.SubmissionError) *batch.SubmissionError {
	text := "withdrawn"
	if why != nil && why.Message != "" {
		text = batch.Excerpt(text+": "+why.Message, batch.MaxErrorText)
	}
	return &batch.SubmissionError{Kind: batch.KindCancelled, Message: text}
}

// countRollback counts an execution of the present attempt that the ledger took back. With a halt
// the count begins anew.
func (r *Row) countRollback(o Outcome) {
	if o.RolledBack && !r.isRollbackCounted() {
		r.Rollbacks++
		r.SeenAttempt, r.SeenEndpoint = r.Attempt, TakenBack
	}
	if o.Halt != "" {
		r.Rollbacks = 0
	}
}

// makeClaimable makes the batch claimable, after a pause, when the ledger had no trace of it.
func (r *Row) makeClaimable(now time.Time, pause time.Duration) {
	r.LastPost = r.lastPostEnd()
	r.State = batch.Unknown
	r.ClaimExpires = time.Time{}
	r.NotBefore, r.NextCheck = now.Add(pause), now
}

// resolveOwnAttempt ends the doubt about the present attempt, which had no effect. An earlier
// attempt stays in doubt.
func (r *Row) resolveOwnAttempt() {
	if r.DoubtAttempt == r.Attempt {
		r.clearDoubt()
	} else if r.Resends > 0 {
		r.Resends--
	}
}

func (r *Row) clearDoubt() {
	r.DoubtAttempt, r.Resends = 0, 0
	r.DoubtSince, r.ResendUntil = time.Time{}, time.Time{}
}

func (r *Row) makeFinal(s batch.State, now time.Time) {
	r.State = s
	r.FinalAt = now
	r.ClaimExpires, r.NotBefore, r.NextCheck = time.Time{}, time.Time{}, time.Time{}
	r.Refused, r.Withdrawn, r.Decision, r.Prepared = false, false, "", nil
	r.Quarantined, r.ClaimedBy = false, ""
	r.ClaimTTL, r.MovedAt = 0, time.Time{}
	r.Rollbacks, r.SeenAttempt, r.SeenEndpoint = 0, 0, ""
	r.clearDoubt()
}
