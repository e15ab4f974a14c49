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

// standings returns rows in all standings by name, at start + 1 minute or earlier.
func standings(t *testing.T) map[string]store.Row {
	t.Helper()
	settle := func(o store.Outcome, d time.Duration) store.Outcome { o.Settle = d; return o }
	delay := func(o store.Outcome) store.Outcome { o.Delay = time.Minute; return o }
	rows := map[string]store.Row{"queued": store.NewRow()}
	live := store.NewRow().Claim(start, 2*time.Minute, hour)
	rows["live"] = live
	rows["expired"] = store.NewRow().Claim(start.Add(-ttl), ttl, hour)
	rows["doubt"] = must(t, live, submitted(live, store.Doubtful), start)
	rows["undecided"] = must(t, rows["doubt"], monitored(rows["doubt"], store.Undecidable), start)
	rows["pending"] = must(t, live, submitted(live, store.Accepted), start)
	rows["valid"] = must(t, rows["pending"], monitored(rows["pending"], store.IsValid), start)
	rows["delayed"] = must(t, live, delay(submitted(live, store.Failed)), start)
	rows["unknown"] = must(t, rows["doubt"], monitored(rows["doubt"], store.NoTrace), start)
	rows["not committed"] = must(t, rows["doubt"], monitored(rows["doubt"], store.NotCommitted), start)
	again := rows["unknown"].Claim(start, 2*time.Minute, hour)
	rows["live again"] = again
	rows["stuck"] = must(t, rows["pending"], monitored(rows["pending"], store.Undecidable), start)
	rows["lost"] = must(t, rows["valid"], monitored(rows["valid"], store.Undecidable), start)
	rows["pending again"] = must(t, again, submitted(again, store.Accepted), start)
	rows["delayed again"] = must(t, again, delay(submitted(again, store.Failed)), start)
	rows["refused in doubt"] = must(t, again, submitted(again, store.Refused), start)
	rows["unsettled"] = must(t, rows["pending"], settle(monitored(rows["pending"], store.IsInvalid), time.Hour), start)
	rows["invalid"] = must(t, rows["pending"], monitored(rows["pending"], store.IsInvalid), start)
	rows["committed"] = must(t, rows["pending"], monitored(rows["pending"], store.IsCommitted), start)
	rows["rejected"] = must(t, live, submitted(live, store.Refused), start)
	requeued, err := rows["rejected"].Requeue(start, store.Requeue{})
	require.NoError(t, err)
	rows["requeued"] = requeued
	return rows
}

func TestNewRow(t *testing.T) {
	r := store.NewRow()
	assert.Equal(t, store.Row{State: batch.Queued, Version: 1}, r)
	assert.True(t, r.Ready(start))
	assert.False(t, r.Attempted())
	assert.False(t, r.Final())
	assert.True(t, r.Resendable(start, ttl, store.Resend{}), "nothing is in doubt")
}

func TestClaim(t *testing.T) {
	r := store.NewRow().Claim(start, ttl, hour)
	assert.Equal(t, store.Row{
		State: batch.Submitting, Version: 2, Attempt: 1, ClaimExpires: start.Add(ttl), NextCheck: start.Add(ttl),
		DoubtAttempt: 1, DoubtSince: start, ResendUntil: start.Add(time.Hour), ClaimTTL: ttl, MovedAt: start,
	}, r)
	assert.True(t, r.Attempted())
	unknown := standings(t)["unknown"]
	again := unknown.Claim(start.Add(time.Minute), ttl, store.Resend{HarmlessFor: 2 * time.Hour})
	assert.Equal(t, 2, again.Attempt)
	assert.Equal(t, 1, again.DoubtAttempt, "the first one stays open")
	assert.Equal(t, 1, again.Resends)
	assert.Equal(t, start, again.DoubtSince, "what is harmless counts from the first")
	assert.Equal(t, start.Add(2*time.Hour), again.ResendUntil)
}

// A claim is over at ClaimExpires, not after it.
func TestLiveEndsAtTheExpiry(t *testing.T) {
	r := store.NewRow().Claim(start, ttl, hour)
	assert.True(t, r.Live(start.Add(ttl-1)))
	assert.False(t, r.Monitored(start.Add(ttl-1)))
	assert.False(t, r.Live(start.Add(ttl)))
	assert.True(t, r.Monitored(start.Add(ttl)))
	r.State = batch.Pending
	assert.False(t, r.Live(start), "there is no other live state")
}

func TestMonitored(t *testing.T) {
	owned := map[string]bool{
		"expired": true, "doubt": true, "undecided": true, "pending": true, "valid": true, "stuck": true, "lost": true, "pending again": true,
		"refused in doubt": true, "unsettled": true,
	}
	for name, r := range standings(t) {
		assert.Equal(t, owned[name], r.Monitored(start.Add(time.Second)), name)
		if r.Final() || r.State.Claimable() {
			assert.False(t, r.Monitored(start.Add(1000*time.Hour)), name)
		}
	}
}

func TestReady(t *testing.T) {
	for name, r := range standings(t) {
		now := start.Add(time.Second)
		want := map[string]bool{"queued": true, "unknown": true, "not committed": true, "requeued": true}[name]
		assert.Equal(t, want, r.Ready(now), name)
	}
	r := standings(t)["delayed"]
	assert.False(t, r.Ready(r.NotBefore.Add(-1)))
	assert.True(t, r.Ready(r.NotBefore))
}

// A resend is allowed if its POST arrives, at the latest, when a resend is still harmless.
func TestResendableToTheInstant(t *testing.T) {
	r := standings(t)["unknown"]
	last := r.ResendUntil.Add(-ttl - hour.LateArrival)
	assert.True(t, r.Resendable(last, ttl, hour))
	assert.False(t, r.Resendable(last.Add(1), ttl, hour))
	assert.False(t, r.Resendable(last, ttl+1, hour))
	assert.False(t, r.Resendable(last, ttl, store.Resend{LateArrival: hour.LateArrival + 1}))
	assert.True(t, standings(t)["not committed"].Resendable(start.Add(1000*time.Hour), ttl, store.Resend{}), "resolved")
}

// A row that may no longer be resent goes back to the monitor with the age of its last POST.
func TestReturn(t *testing.T) {
	for _, name := range []string{"unknown", "delayed again"} {
		r := standings(t)[name]
		now := start.Add(5 * time.Hour)
		back := r.BackToMonitor(now)
		assert.Equal(t, batch.Submitting, back.State, name)
		assert.Equal(t, r.Version+1, back.Version, name)
		assert.Equal(t, r.Attempt, back.Attempt, "%s: nothing was tried", name)
		assert.Equal(t, r.DoubtAttempt, back.DoubtAttempt, name)
		assert.Equal(t, now, back.NextCheck, name)
		assert.True(t, back.Monitored(now), name)
		assert.Equal(t, 5*time.Hour, back.InFlight(store.Ref{}, batch.Budget{}, now).PostedAgo, name)
	}
	assert.Equal(t, start, store.Row{State: batch.Unknown}.BackToMonitor(start).ClaimExpires, "nothing is known of its last POST")
}

func TestLeased(t *testing.T) {
	r := standings(t)["pending"]
	leased := r.Leased(start.Add(time.Minute), time.Hour)
	assert.Equal(t, start.Add(time.Minute), leased.AskedAt)
	assert.Equal(t, start.Add(time.Hour+time.Minute), leased.NextCheck)
	leased.AskedAt, leased.NextCheck = r.AskedAt, r.NextCheck
	assert.Equal(t, r, leased, "and nothing else, the version least of all")
}

func TestInFlight(t *testing.T) {
	r := standings(t)["refused in doubt"]
	r.Spent, r.Failures, r.Requeued, r.Decision = 3, 4, true, "why"
	r.SettlesAt = start.Add(2 * time.Hour)
	ref := store.Ref{Key: key, Row: 7}
	budget := batch.Budget{Attempts: 9, EveryTry: true}
	assert.Equal(t, store.InFlight{
		Ref: ref, Version: r.Version, State: batch.Submitting, Attempt: 2, Spent: 3, Budget: budget,
		ClaimTTL: r.ClaimTTL, PostedAgo: time.Minute, Age: time.Minute, Ended: true, Resends: 0, ResendLeft: time.Hour - time.Minute, SettleLeft: 2*time.Hour - time.Minute,
		DoubtAttempt: 1, DoubtAgo: time.Minute, Failures: 4, Refused: true, Requeued: true, Called: true, Undecided: true,
		CheckIn: r.NextCheck.Sub(start) - time.Minute,
		Was:     &r,
	}, r.InFlight(ref, budget, start.Add(time.Minute)))
	expired := standings(t)["expired"]
	assert.Equal(t, time.Minute, expired.InFlight(ref, budget, start.Add(time.Minute)).PostedAgo, "a crashed attempt may have posted until its claim ended")
}

func TestRecordOfARow(t *testing.T) {
	for name, r := range standings(t) {
		r.Receipts = []batch.Receipt{{TransactionID: "t"}}
		rec := r.Record(key)
		assert.Equal(t, batch.Record{
			Key: key, State: r.State, Version: r.Version, Attempt: r.Attempt, Spent: r.Spent, FinalAt: r.FinalAt,
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
		late, left, ttl time.Duration
		want            bool
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
		require.Equal(t, c.want, store.Resend{LateArrival: c.late}.Allows(c.left, c.ttl), "%+v", c)
	}
}

// SettleOrders succeeds once, when the batch is final. From then on the batch cannot be requeued.
func TestRowSettleOrders(t *testing.T) {
	for name, r := range standings(t) {
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
		_, err := next.Requeue(start, store.Requeue{})
		require.ErrorIs(t, err, batch.ErrNotAllowed, name)
		if r.State != batch.Committed {
			late, a := next.Apply(monitored(next, store.IsCommitted), start)
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
