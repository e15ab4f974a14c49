package store_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// rowsByStanding returns rows in all standings by name, at testStart + 1 minute or earlier.
func rowsByStanding(t *testing.T) map[string]store.Row {
	t.Helper()
	settle := func(o store.Outcome, d time.Duration) store.Outcome { o.Settle = d; return o }
	delay := func(o store.Outcome) store.Outcome { o.Delay = time.Minute; return o }
	rows := map[string]store.Row{"queued": store.NewRow()}
	live := store.NewRow().Claim(testStart, 2*time.Minute, hourResend)
	rows["live"] = live
	rows["expired"] = store.NewRow().Claim(testStart.Add(-ttl), ttl, hourResend)
	rows["doubt"] = mustApply(t, live, submitterOutcome(live, store.Doubtful), testStart)
	rows["undecided"] = mustApply(t, rows["doubt"], monitorOutcome(rows["doubt"], store.Undecidable), testStart)
	rows["pending"] = mustApply(t, live, submitterOutcome(live, store.Accepted), testStart)
	rows["valid"] = mustApply(t, rows["pending"], monitorOutcome(rows["pending"], store.IsValid), testStart)
	rows["delayed"] = mustApply(t, live, delay(submitterOutcome(live, store.Failed)), testStart)
	rows["unknown"] = mustApply(t, rows["doubt"], monitorOutcome(rows["doubt"], store.NoTrace), testStart)
	rows["not committed"] = mustApply(t, rows["doubt"], monitorOutcome(rows["doubt"], store.NotCommitted), testStart)
	again := rows["unknown"].Claim(testStart, 2*time.Minute, hourResend)
	rows["live again"] = again
	rows["stuck"] = mustApply(t, rows["pending"], monitorOutcome(rows["pending"], store.Undecidable), testStart)
	rows["lost"] = mustApply(t, rows["valid"], monitorOutcome(rows["valid"], store.Undecidable), testStart)
	rows["pending again"] = mustApply(t, again, submitterOutcome(again, store.Accepted), testStart)
	rows["delayed again"] = mustApply(t, again, delay(submitterOutcome(again, store.Failed)), testStart)
	rows["refused in doubt"] = mustApply(t, again, submitterOutcome(again, store.Refused), testStart)
	rows["unsettled"] = mustApply(t, rows["pending"], settle(monitorOutcome(rows["pending"], store.IsInvalid), time.Hour), testStart)
	rows["invalid"] = mustApply(t, rows["pending"], monitorOutcome(rows["pending"], store.IsInvalid), testStart)
	rows["committed"] = mustApply(t, rows["pending"], monitorOutcome(rows["pending"], store.IsCommitted), testStart)
	rows["rejected"] = mustApply(t, live, submitterOutcome(live, store.Refused), testStart)
	requeued, err := rows["rejected"].Requeue(testStart, store.Requeue{})
	require.NoError(t, err)
	rows["requeued"] = requeued
	return rows
}

func TestNewRow(t *testing.T) {
	r := store.NewRow()
	assert.Equal(t, store.Row{State: batch.Queued, Version: 1}, r)
	assert.True(t, r.IsReady(testStart))
	assert.False(t, r.Attempted())
	assert.False(t, r.Final())
	assert.True(t, r.Resendable(testStart, ttl, store.Resend{}), "nothing is in doubt")
}

func TestClaim(t *testing.T) {
	r := store.NewRow().Claim(testStart, ttl, hourResend)
	assert.Equal(t, store.Row{
		State: batch.Submitting, Version: 2, Attempt: 1, ClaimExpires: testStart.Add(ttl), NextCheck: testStart.Add(ttl),
		DoubtAttempt: 1, DoubtSince: testStart, ResendUntil: testStart.Add(time.Hour), ClaimTTL: ttl, MovedAt: testStart,
	}, r)
	assert.True(t, r.Attempted())
	unknown := rowsByStanding(t)["unknown"]
	again := unknown.Claim(testStart.Add(time.Minute), ttl, store.Resend{HarmlessFor: 2 * time.Hour})
	assert.Equal(t, 2, again.Attempt)
	assert.Equal(t, 1, again.DoubtAttempt, "the first one stays open")
	assert.Equal(t, 1, again.Resends)
	assert.Equal(t, testStart, again.DoubtSince, "what is harmless counts from the first")
	assert.Equal(t, testStart.Add(2*time.Hour), again.ResendUntil)
}

// A claim is over at ClaimExpires, not after it.
func TestLiveEndsAtTheExpiry(t *testing.T) {
	r := store.NewRow().Claim(testStart, ttl, hourResend)
	assert.True(t, r.Live(testStart.Add(ttl-1)))
	assert.False(t, r.Monitored(testStart.Add(ttl-1)))
	assert.False(t, r.Live(testStart.Add(ttl)))
	assert.True(t, r.Monitored(testStart.Add(ttl)))
	r.State = batch.Pending
	assert.False(t, r.Live(testStart), "there is no other live state")
}

func TestMonitored(t *testing.T) {
	owned := map[string]bool{
		"expired": true, "doubt": true, "undecided": true, "pending": true, "valid": true, "stuck": true, "lost": true, "pending again": true,
		"refused in doubt": true, "unsettled": true,
	}
	for name, r := range rowsByStanding(t) {
		assert.Equal(t, owned[name], r.Monitored(testStart.Add(time.Second)), name)
		if r.Final() || r.State.Claimable() {
			assert.False(t, r.Monitored(testStart.Add(1000*time.Hour)), name)
		}
	}
}

func TestReady(t *testing.T) {
	for name, r := range rowsByStanding(t) {
		now := testStart.Add(time.Second)
		want := map[string]bool{"queued": true, "unknown": true, "not committed": true, "requeued": true}[name]
		assert.Equal(t, want, r.IsReady(now), name)
	}
	r := rowsByStanding(t)["delayed"]
	assert.False(t, r.IsReady(r.NotBefore.Add(-1)))
	assert.True(t, r.IsReady(r.NotBefore))
}

// A resend is allowed if its POST arrives, at the latest, when a resend is still harmless.
func TestResendableToTheInstant(t *testing.T) {
	r := rowsByStanding(t)["unknown"]
	last := r.ResendUntil.Add(-ttl - hourResend.LateArrival)
	assert.True(t, r.Resendable(last, ttl, hourResend))
	assert.False(t, r.Resendable(last.Add(1), ttl, hourResend))
	assert.False(t, r.Resendable(last, ttl+1, hourResend))
	assert.False(t, r.Resendable(last, ttl, store.Resend{LateArrival: hourResend.LateArrival + 1}))
	assert.True(t, rowsByStanding(t)["not committed"].Resendable(testStart.Add(1000*time.Hour), ttl, store.Resend{}), "resolved")
}

// A row that may no longer be resent goes back to the monitor with the age of its last POST.
func TestReturn(t *testing.T) {
	for _, name := range []string{"unknown", "delayed again"} {
		r := rowsByStanding(t)[name]
		now := testStart.Add(5 * time.Hour)
		back := r.BackToMonitor(now)
		assert.Equal(t, batch.Submitting, back.State, name)
		assert.Equal(t, r.Version+1, back.Version, name)
		assert.Equal(t, r.Attempt, back.Attempt, "%s: nothing was tried", name)
		assert.Equal(t, r.DoubtAttempt, back.DoubtAttempt, name)
		assert.Equal(t, now, back.NextCheck, name)
		assert.True(t, back.Monitored(now), name)
		assert.Equal(t, 5*time.Hour, back.InFlight(store.Ref{}, batch.Budget{}, now).PostedAgo, name)
	}
	assert.Equal(t, testStart, store.Row{State: batch.Unknown}.BackToMonitor(testStart).ClaimExpires, "nothing is known of its last POST")
}

func TestLeased(t *testing.T) {
	r := rowsByStanding(t)["pending"]
	leased := r.Leased(testStart.Add(time.Minute), time.Hour)
	assert.Equal(t, testStart.Add(time.Minute), leased.AskedAt)
	assert.Equal(t, testStart.Add(time.Hour+time.Minute), leased.NextCheck)
	leased.AskedAt, leased.NextCheck = r.AskedAt, r.NextCheck
	assert.Equal(t, r, leased, "and nothing else, the version least of all")
}

func TestInFlight(t *testing.T) {
	r := rowsByStanding(t)["refused in doubt"]
	r.Spent, r.Failures, r.Requeued, r.Decision = 3, 4, true, "why"
	r.SettlesAt = testStart.Add(2 * time.Hour)
	ref := store.Ref{Key: testKey, Row: 7}
	budget := batch.Budget{Attempts: 9, EveryTry: true}
	assert.Equal(t, store.InFlight{
		Ref: ref, Version: r.Version, State: batch.Submitting, Attempt: 2, Spent: 3, Budget: budget,
		ClaimTTL: r.ClaimTTL, PostedAgo: time.Minute, Age: time.Minute, Ended: true, Resends: 0, ResendLeft: time.Hour - time.Minute, SettleLeft: 2*time.Hour - time.Minute,
		DoubtAttempt: 1, DoubtAgo: time.Minute, Failures: 4, Refused: true, Requeued: true, Called: true, Undecided: true,
		CheckIn: r.NextCheck.Sub(testStart) - time.Minute,
		Was:     &r,
	}, r.InFlight(ref, budget, testStart.Add(time.Minute)))
	expired := rowsByStanding(t)["expired"]
	assert.Equal(t, time.Minute, expired.InFlight(ref, budget, testStart.Add(time.Minute)).PostedAgo, "a crashed attempt may have posted until its claim ended")
}

func TestRecordOfARow(t *testing.T) {
	for name, r := range rowsByStanding(t) {
		r.Receipts = []batch.Receipt{{TransactionID: "t"}}
		rec := r.Record(testKey)
		assert.Equal(t, batch.Record{
			Key: testKey, State: r.State, Version: r.Version, Attempt: r.Attempt, Spent: r.Spent, FinalAt: r.FinalAt,
			ClaimExpires: rec.ClaimExpires, NotBefore: r.NotBefore, LastPost: r.LastPost, SettlesAt: r.SettlesAt,
			DoubtSince: r.DoubtSince, ResendUntil: r.ResendUntil, Error: r.Error, Decision: r.Decision, Receipts: r.Receipts,
		}, rec, name)
		assert.Equal(t, r.State == batch.Submitting, !rec.ClaimExpires.IsZero(), name)
		assert.Equal(t, r.Final(), rec.Final(), name)
	}
}

// Allows gives the right answer for the smallest and the largest duration, without overflow.
func TestResendAllows(t *testing.T) {
	const never, forever = time.Duration(math.MinInt64), time.Duration(math.MaxInt64)
	for _, c := range []struct {
		lateArrival, timeLeft, ttl time.Duration
		want                       bool
	}{
		{0, time.Minute, time.Minute, true},
		{0, time.Minute - 1, time.Minute, false},
		{time.Minute, 2 * time.Minute, time.Minute, true},
		{time.Minute, 2*time.Minute - 1, time.Minute, false},
		{time.Minute, -time.Hour, time.Minute, false},
		{forever, forever, time.Minute, false},
		{forever, never, time.Minute, false},
		{time.Minute, never, time.Minute, false},
		{0, never, forever, false},
		{0, forever, forever, true},
	} {
		require.Equal(t, c.want, store.Resend{LateArrival: c.lateArrival}.Allows(c.timeLeft, c.ttl), "%+v", c)
	}
}

// SettleOrders succeeds once, when the batch is final. From then on the batch cannot be requeued.
func TestRowSettleOrders(t *testing.T) {
	for name, r := range rowsByStanding(t) {
		next, ok := r.SettleOrders(r.Version)
		require.Equal(t, r.Final(), ok, name)
		_, fenced := r.SettleOrders(r.Version - 1)
		assert.False(t, fenced, name)
		if !ok {
			assert.Equal(t, r, next, name)
			continue
		}
		assert.Equal(t, r.Version+1, next.Version)
		_, twice := next.SettleOrders(next.Version)
		assert.False(t, twice, name)
		_, err := next.Requeue(testStart, store.Requeue{})
		require.ErrorIs(t, err, batch.ErrNotAllowed, name)
		if r.State != batch.Committed {
			late, a := next.Apply(monitorOutcome(next, store.IsCommitted), testStart)
			require.Equal(t, store.Written, a.Result, name)
			assert.True(t, late.OrdersSettled, "a commit that is told late changes nothing about its orders")
		}
	}
}

func TestRowPrunable(t *testing.T) {
	final := store.Row{State: batch.Committed, FinalAt: time.Unix(1, 0)}
	aside := store.Row{State: batch.Invalid, FinalAt: time.Unix(1, 0), Quarantined: true}
	assert.True(t, final.Prunable(false))
	assert.False(t, final.Prunable(true), "its orders are not settled")
	assert.False(t, aside.Prunable(false), "it waits for a person")
	assert.False(t, store.NewRow().Prunable(false), "it is open")
}
