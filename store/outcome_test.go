package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

var (
	testKey    = batch.Key{Service: "s", ID: "a"}
	testStart  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hourResend = store.Resend{HarmlessFor: time.Hour, LateArrival: time.Second}
)

const ttl = time.Minute

func submitterOutcome(r store.Row, f store.Finding) store.Outcome {
	return store.Outcome{Ref: store.Ref{Key: testKey}, Version: r.Version, By: batch.BySubmitter, Attempt: r.Attempt, Finding: f}
}

func monitorOutcome(r store.Row, f store.Finding) store.Outcome {
	o := submitterOutcome(r, f)
	o.By, o.Attempt = batch.ByMonitor, 0
	return o
}

// mustApply applies an outcome and fails the test unless the result is Written.
func mustApply(t *testing.T, r store.Row, o store.Outcome, now time.Time) store.Row {
	t.Helper()
	next, a := r.Apply(o, now)
	require.NoError(t, a.Err)
	require.Equal(t, store.Written, a.Result)
	require.Equal(t, next, a.Row)
	require.Equal(t, r.State, a.From)
	require.Equal(t, r.Version+1, next.Version)
	return next
}

// rowRefusedInDoubt returns the row of a batch whose first attempt is in doubt and whose second
// attempt was refused.
func rowRefusedInDoubt(t *testing.T) store.Row {
	r := store.NewRow().Claim(testStart, ttl, hourResend)
	r = mustApply(t, r, submitterOutcome(r, store.Doubtful), testStart.Add(time.Second))
	r = mustApply(t, r, monitorOutcome(r, store.NoTrace), testStart.Add(2*time.Second))
	require.True(t, r.Resendable(testStart.Add(3*time.Second), ttl, hourResend))
	r = r.Claim(testStart.Add(3*time.Second), ttl, hourResend)
	o := submitterOutcome(r, store.Refused)
	o.Error = &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
	r = mustApply(t, r, o, testStart.Add(4*time.Second))
	require.True(t, r.Refused)
	require.Equal(t, batch.Submitting, r.State)
	require.Equal(t, 1, r.DoubtAttempt)
	return r
}

// A refused batch is never sent again, even if the ledger says that an attempt of it had no
// effect.
func TestFailedAfterRefusalIsNotClaimableAgain(t *testing.T) {
	r := rowRefusedInDoubt(t)
	o := monitorOutcome(r, store.Failed)
	o.Error = &batch.SubmissionError{Kind: batch.KindFailed}
	next := mustApply(t, r, o, testStart.Add(time.Minute))
	assert.Equal(t, batch.Submitting, next.State)
	assert.Equal(t, 1, next.DoubtAttempt)
	assert.True(t, next.Refused)
	assert.Equal(t, "no", next.Error.Message)
}

// A monitor's answer about a batch in doubt does not start the wait anew.
func TestDoubtByTheMonitorKeepsItsAge(t *testing.T) {
	r := rowRefusedInDoubt(t)
	since := r.ClaimExpires
	for _, f := range []store.Finding{store.IsInvalid, store.Refused, store.Failed, store.Doubtful} {
		o := monitorOutcome(r, f)
		o.Attempt = 2
		now := testStart.Add(time.Minute)
		next := mustApply(t, r, o, now)
		require.Equal(t, batch.Submitting, next.State, f)
		assert.Equal(t, since, next.ClaimExpires, f)
		assert.Equal(t, now.Sub(since), next.InFlight(store.Ref{}, batch.Budget{}, now).PostedAgo, f)
	}
}

// After a call about an attempt that is over, a batch that goes on by itself needs no decision.
// The row remembers the call until the batch moves, so that no person is called twice.
func TestACallIsAboutItsAttempt(t *testing.T) {
	for _, f := range []store.Finding{store.Failed, store.IsInvalid, store.IsPending, store.IsValid, store.NoTrace, store.NotCommitted} {
		r := store.NewRow().Claim(testStart, ttl, hourResend)
		r = mustApply(t, r, submitterOutcome(r, store.Doubtful), testStart)
		r, a := r.Apply(monitorOutcome(r, store.Undecidable), testStart)
		require.True(t, a.Stuck)
		require.True(t, r.Undecided())
		o := monitorOutcome(r, f)
		o.Settle, o.StuckAfter = time.Hour, time.Minute
		r, a = r.Apply(o, testStart.Add(time.Hour))
		require.Equal(t, store.Written, a.Result)
		assert.True(t, r.Called(), f)
		assert.False(t, r.Undecided(), f)
		assert.False(t, a.Stuck, f)
	}
}

// A commit is Held while another process's live claim may still be posting, whoever reports the
// commit.
func TestCommitIsHeldByAnothersLiveClaim(t *testing.T) {
	r := store.NewRow().Claim(testStart, ttl, hourResend)
	late := submitterOutcome(r, store.IsCommitted)
	r = mustApply(t, r, submitterOutcome(r, store.Failed), testStart)
	r = r.Claim(testStart, ttl, hourResend)
	for _, o := range []store.Outcome{late, monitorOutcome(r, store.IsCommitted)} {
		next, a := r.Apply(o, testStart.Add(ttl-1))
		assert.Equal(t, store.Held, a.Result, o.By)
		assert.Equal(t, r, next)
		assert.Equal(t, batch.Committed, mustApply(t, r, o, testStart.Add(ttl)).State)
	}
	r = mustApply(t, r, submitterOutcome(r, store.IsCommitted), testStart.Add(time.Second))
	assert.Equal(t, batch.Committed, r.State, "its own claim holds nothing up")
	assert.Equal(t, testStart.Add(time.Second), r.LastPost, "and the POST is over")
}

// Receipts of a verdict are removed when the ledger takes the verdict back.
func TestReceiptsOfAVerdictThatWasTakenBack(t *testing.T) {
	r := store.NewRow().Claim(testStart, ttl, hourResend)
	r = mustApply(t, r, submitterOutcome(r, store.Accepted), testStart)
	o := monitorOutcome(r, store.IsInvalid)
	o.Settle = time.Hour
	o.Receipts = []batch.Receipt{{TransactionID: "t", Message: "bad nonce"}}
	r = mustApply(t, r, o, testStart)
	require.Len(t, r.Receipts, 1)
	for _, f := range []store.Finding{store.IsPending, store.IsValid, store.IsCommitted} {
		next := mustApply(t, r, monitorOutcome(r, f), testStart)
		assert.Empty(t, next.Receipts, f)
		assert.Nil(t, next.Error, f)
	}
}

// An error belongs to the attempt that failed, so the next accepted attempt clears it. Only a
// refusal that waits for a doubt to be resolved stays.
func TestAcceptanceClearsTheError(t *testing.T) {
	for _, accepted := range []func(store.Row) store.Outcome{
		func(r store.Row) store.Outcome { return submitterOutcome(r, store.Accepted) },
		func(r store.Row) store.Outcome { return monitorOutcome(r, store.IsPending) },
		func(r store.Row) store.Outcome { return monitorOutcome(r, store.IsValid) },
	} {
		r := store.NewRow().Claim(testStart, ttl, hourResend)
		o := submitterOutcome(r, store.Doubtful)
		o.Error = &batch.SubmissionError{Kind: batch.KindDoubt, Message: "the answer was lost"}
		r = mustApply(t, r, o, testStart)
		require.NotNil(t, r.Error)
		r = mustApply(t, r, accepted(r), testStart.Add(time.Second))
		assert.Nil(t, r.Error)

		r = rowRefusedInDoubt(t)
		require.NotNil(t, r.Error)
		kept := r.Error
		r = mustApply(t, r, accepted(r), testStart.Add(time.Hour))
		assert.Equal(t, kept, r.Error)
	}
}

// A batch that the ledger cannot take yet needs a decision once it has been open for StuckAfter.
// The outcome says so once. The batch goes on waiting, and the first acceptance ends the need.
func TestWhatIsNotTakenForLongNeedsADecision(t *testing.T) {
	at := func(m int) time.Time { return testStart.Add(time.Duration(m) * time.Minute) }
	notYet := func(r store.Row, text string) store.Outcome {
		o := submitterOutcome(r, store.Failed)
		o.StuckAfter, o.Error = 10*time.Minute, &batch.SubmissionError{Kind: batch.KindNotYet, Message: text}
		return o
	}
	r := mustApply(t, store.NewRow().Claim(testStart, ttl, hourResend), notYet(store.NewRow().Claim(testStart, ttl, hourResend), "young"), testStart)
	assert.Empty(t, r.Decision)
	r = r.Claim(at(10), ttl, hourResend)
	r, a := r.Apply(notYet(r, "still young"), at(10))
	assert.Empty(t, r.Decision)
	assert.False(t, a.Stuck)
	r = r.Claim(at(11), ttl, hourResend)
	r, a = r.Apply(notYet(r, "no funds"), at(11))
	assert.Equal(t, "not_yet: no funds", r.Decision)
	assert.True(t, a.Stuck)
	assert.Equal(t, batch.Delayed, r.State, "it goes on waiting")
	r = r.Claim(at(12), ttl, hourResend)
	assert.False(t, r.InFlight(store.Ref{}, batch.Budget{}, at(14)).Undecided, "if nobody hears of this attempt, the monitor may ask for a decision")
	busy := submitterOutcome(r, store.Failed)
	busy.Error = &batch.SubmissionError{Kind: batch.KindBusy}
	r, a = r.Apply(busy, at(12))
	assert.Equal(t, "busy", r.Decision, "the last reason")
	assert.False(t, a.Stuck, "it was said")
	r = r.Claim(at(13), ttl, hourResend)
	accepted := mustApply(t, r, submitterOutcome(r, store.Accepted), at(13))
	assert.Empty(t, accepted.Decision, "it has moved")
	doubtful := mustApply(t, r, submitterOutcome(r, store.Doubtful), at(13))
	assert.True(t, doubtful.Called(), "it has not")
	assert.False(t, doubtful.Undecided(), "the ledger was not asked about this attempt")
}

// A batch waits with an attempt in doubt, because a resend is harmless and the ledger cannot take
// the batch yet. After StuckAfter a person is called. The person may decide, since the person may
// not cancel.
func TestWhatWaitsWithADoubtCanBeDecided(t *testing.T) {
	at := func(m int) time.Time { return testStart.Add(time.Duration(m) * time.Minute) }
	r := store.NewRow().Claim(testStart, ttl, hourResend)
	r = mustApply(t, r, submitterOutcome(r, store.Doubtful), testStart)
	unknown := mustApply(t, r, monitorOutcome(r, store.NoTrace), at(1))
	notYet := func(r store.Row) (store.Row, store.Applied) {
		r = r.Claim(at(11), ttl, hourResend)
		o := submitterOutcome(r, store.Failed)
		o.StuckAfter, o.Error = 10*time.Minute, &batch.SubmissionError{Kind: batch.KindNotYet, Message: "no funds"}
		return r.Apply(o, at(11))
	}
	first, a := notYet(unknown)
	require.False(t, a.Stuck, "it may be right after an outage")
	delayed, a := notYet(first)
	require.True(t, a.Stuck)
	for name, r := range map[string]store.Row{"its lane is paused": unknown, "not taken yet": delayed} {
		_, err := r.Cancel(at(11), "")
		assert.ErrorIs(t, err, batch.ErrInDoubt, name)
		for _, ruling := range batch.Rulings() {
			decided, err := r.Decide(at(11), ruling, "as the books say")
			require.NoError(t, err, name)
			assert.Equal(t, ruling.State(), decided.State, name)
			assert.Zero(t, decided.DoubtAttempt, name)
			assert.Empty(t, decided.Decision, name)
		}
		declared, err := r.Decide(at(11), batch.NotExecutedSendAgain, "it never arrived")
		require.NoError(t, err, name)
		cancelled, err := declared.Cancel(at(12), "not wanted any more")
		require.NoError(t, err, name)
		assert.Equal(t, batch.Rejected, cancelled.State, name)
	}
}

// TestRollbacksAreCountedOnceAnAttempt: an execution that the ledger took back is counted when the
// ledger shows it, and not again when the attempt is resolved, whatever the ledger has forgotten
// by then.
func TestRollbacksAreCountedOnceAnAttempt(t *testing.T) {
	row := store.NewRow()
	at := testStart
	apply := func(by batch.Actor, f store.Finding, back bool, halt string) store.Applied {
		t.Helper()
		at = at.Add(time.Minute)
		next, a := row.Apply(store.Outcome{Version: row.Version, By: by, Finding: f, RolledBack: back, Halt: halt, Check: time.Second}, at)
		require.Equal(t, store.Written, a.Result, "%v", a.Err)
		row = next
		return a
	}
	for n := 1; n <= 3; n++ {
		row = row.Claim(at, time.Hour, store.Resend{})
		apply(batch.BySubmitter, store.Accepted, false, "")
		apply(batch.ByMonitor, store.IsValid, false, "")
		posted := row.LastPost
		assert.Equal(t, n-1, row.InFlight(store.Ref{}, batch.Budget{}, at).Rollbacks)
		assert.False(t, row.InFlight(store.Ref{}, batch.Budget{}, at).RolledBack)
		apply(batch.ByMonitor, store.IsValid, true, "")
		assert.Equal(t, posted, row.LastPost, "nothing was posted")
		apply(batch.ByMonitor, store.IsValid, true, "")
		in := row.InFlight(store.Ref{}, batch.Budget{}, at)
		assert.Equal(t, n, in.Rollbacks)
		assert.True(t, in.RolledBack)
		assert.Empty(t, in.Seen, "no endpoint")
		apply(batch.ByMonitor, store.NotCommitted, n == 2, "")
		assert.Equal(t, n, row.Rollbacks)
	}
	row = row.Claim(at, time.Hour, store.Resend{})
	apply(batch.BySubmitter, store.Accepted, false, "")
	apply(batch.ByMonitor, store.IsValid, false, "")
	a := apply(batch.ByMonitor, store.IsValid, true, "why")
	assert.Equal(t, "why", a.Halt)
	assert.Zero(t, row.Rollbacks, "the count begins anew")
	assert.True(t, row.InFlight(store.Ref{}, batch.Budget{}, at).RolledBack)

	first, control := a.Enforce(batch.Control{}, batch.PolicyDefault, at)
	assert.True(t, first.Halted)
	assert.Equal(t, "why", control.HaltReason)
	a.Key.ID = "another batch of the lane"
	second, after := a.Enforce(control, batch.PolicyDefault, at)
	assert.False(t, second.Halted, "a lane is named once")
	assert.Empty(t, second.Halt)
	assert.Equal(t, control, after)
}
