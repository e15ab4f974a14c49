package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// requireAllowedFor checks that do returns an error and the unchanged row for all rows but the
// allowed ones.
func requireAllowedFor(t *testing.T, do func(store.Row) (store.Row, error), allowed, inDoubt string) {
	t.Helper()
	for name, r := range rowsByStanding(t) {
		next, err := do(r)
		switch {
		case strings.Contains(allowed, "|"+name+"|"):
			assert.NoError(t, err, name)
			assert.Equal(t, r.Version+1, next.Version, name)
			continue
		case strings.Contains(inDoubt, "|"+name+"|"):
			assert.ErrorIs(t, err, batch.ErrInDoubt, name)
		default:
			assert.ErrorIs(t, err, batch.ErrNotAllowed, name)
			assert.NotErrorIs(t, err, batch.ErrInDoubt, name)
		}
		assert.Equal(t, r, next, name)
	}
}

func TestCancel(t *testing.T) {
	requireAllowedFor(t, func(r store.Row) (store.Row, error) { return r.Cancel(testStart, "why") }, "|queued|delayed|not committed|requeued|",
		"|live|expired|doubt|undecided|pending|valid|stuck|lost|unknown|live again|pending again|delayed again|refused in doubt|unsettled|")
	r, err := rowsByStanding(t)["delayed"].Cancel(testStart.Add(time.Second), "no\x00"+strings.Repeat("x", 2000))
	require.NoError(t, err)
	assert.Equal(t, batch.Rejected, r.State)
	assert.Equal(t, testStart.Add(time.Second), r.FinalAt)
	assert.Equal(t, batch.KindCancelled, r.Error.Kind)
	assert.True(t, strings.HasPrefix(r.Error.Message, "no\ufffdxx"))
	assert.LessOrEqual(t, len(r.Error.Message), batch.MaxErrorText)
}

// Withdraw is allowed for a batch whose kept bytes may be sent again for ever, with an attempt in
// doubt and no live claim. It changes only Withdrawn, the deadline and the next check.
func TestWithdraw(t *testing.T) {
	withdraw := func(r store.Row) (store.Row, error) { return r.Withdraw(testStart.Add(time.Hour)) }
	requireAllowedFor(t, withdraw, "", "")
	for name, r := range rowsByStanding(t) {
		r.Prepared = []byte("nonce 7")
		if r.DoubtAttempt != 0 {
			r.ResendUntil = r.DoubtSince.Add(dlt.Forever)
		}
		next, err := withdraw(r)
		switch {
		case r.Final() || r.DoubtAttempt == 0 || r.State == batch.Invalid:
			require.ErrorIs(t, err, batch.ErrNotAllowed, name)
			continue
		case r.Live(testStart.Add(time.Hour)):
			require.ErrorIs(t, err, batch.ErrInDoubt, name)
			continue
		}
		require.NoError(t, err, name)
		assert.True(t, next.Withdrawn && !next.Called() && !next.Refused, name)
		assert.Equal(t, r.State, next.State, name)
		assert.Equal(t, r.Prepared, next.Prepared, name)
		assert.Equal(t, r.DoubtAttempt, next.DoubtAttempt, name)
		assert.Equal(t, r.Version+1, next.Version, name)
		_, err = withdraw(next)
		require.ErrorIs(t, err, batch.ErrNotAllowed, name)
	}
}

// A refusal of a later attempt does not end a withdrawn batch and holds nothing up: the batch is
// sent again after "not found", until the ledger ends it. A refusal that was kept before the
// withdrawal does not prevent this either.
func TestRefusalOfWithdrawn(t *testing.T) {
	r := rowsByStanding(t)["refused in doubt"]
	r.Prepared, r.ResendUntil = []byte("nonce 7"), r.DoubtSince.Add(dlt.Forever)
	r, err := r.Withdraw(testStart)
	require.NoError(t, err)
	for _, finding := range []store.Finding{store.Refused, store.Doubtful, store.Refused} {
		r = mustApply(t, r, monitorOutcome(r, store.NoTrace), testStart)
		r = r.Claim(testStart, ttl, store.Resend{HarmlessFor: dlt.Forever})
		o := submitterOutcome(r, finding)
		o.Last, o.Error = true, &batch.SubmissionError{Kind: batch.KindRejected, Message: "too large"}
		r = mustApply(t, r, o, testStart)
		assert.Equal(t, batch.Submitting, r.State)
		assert.False(t, r.Refused)
		assert.Equal(t, o.Error, r.Error)
	}
	r = mustApply(t, r, monitorOutcome(r, store.NotCommitted), testStart)
	assert.Equal(t, batch.Rejected, r.State)
	assert.Equal(t, batch.KindCancelled, r.Error.Kind)
}

func TestRequeue(t *testing.T) {
	requireAllowedFor(t, func(r store.Row) (store.Row, error) { return r.Requeue(testStart, store.Requeue{Quiet: time.Hour}) }, "|invalid|rejected|", "")
	r := rowsByStanding(t)["invalid"]
	r.Spent, r.Failures = 2, 3
	next, err := r.Requeue(testStart.Add(time.Minute), store.Requeue{Quiet: 20 * time.Minute})
	require.NoError(t, err)
	assert.Equal(t, store.Row{
		State: batch.Queued, Version: r.Version + 1, Attempt: 1, Spent: 2, LastPost: r.LastPost, NextCheck: next.NextCheck,
		NotBefore: r.LastPost.Add(20 * time.Minute), Requeued: true,
	}, next)
	cancelled, err := store.NewRow().Cancel(testStart, "")
	require.NoError(t, err)
	next, err = cancelled.Requeue(testStart, store.Requeue{Quiet: time.Hour})
	require.NoError(t, err)
	assert.True(t, next.IsReady(testStart), "it was never posted")
}

// If each attempt sends the same kept bytes for ever, a person's ruling does not end the doubt. A
// batch that was given up is never requeued: its bytes are forgotten, and other bytes would repeat
// its effect.
func TestAPersonsWordAboutKeptBytes(t *testing.T) {
	now := testStart.Add(time.Hour)
	for name, c := range map[string]struct {
		rule           store.Resend
		keptBytes      []byte
		sendsSameBytes bool
	}{
		"kept, for ever":    {store.Resend{HarmlessFor: dlt.Forever}, []byte("nonce 7"), true},
		"nothing kept":      {store.Resend{HarmlessFor: dlt.Forever}, nil, false},
		"kept, for an hour": {store.Resend{HarmlessFor: time.Hour}, []byte("begin 7"), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := store.NewRow().Claim(testStart, ttl, c.rule)
			r.Prepared = c.keptBytes
			again, err := r.Decide(now, batch.NotExecutedSendAgain, "")
			require.NoError(t, err)
			assert.Equal(t, c.keptBytes, again.Prepared)
			assert.True(t, again.IsReady(now))
			assert.True(t, again.Resendable(now, ttl, c.rule))
			assert.Equal(t, c.sendsSameBytes, again.DoubtAttempt != 0)
			_, err = again.Cancel(now, "")
			if c.sendsSameBytes {
				require.ErrorIs(t, err, batch.ErrInDoubt)
			} else {
				require.NoError(t, err)
			}

			over, err := r.Decide(now, batch.NotExecutedReject, "gone")
			require.NoError(t, err)
			assert.Nil(t, over.Prepared)
			_, err = over.Requeue(now, store.Requeue{})
			if c.sendsSameBytes {
				assert.Equal(t, &batch.SubmissionError{Kind: batch.KindGivenUp, Message: "gone"}, over.Error)
				require.ErrorIs(t, err, batch.ErrNotAllowed)
			} else {
				assert.Equal(t, &batch.SubmissionError{Kind: batch.KindCancelled, Message: "gone"}, over.Error)
				require.NoError(t, err)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	for _, ruling := range batch.Rulings() {
		requireAllowedFor(t, func(r store.Row) (store.Row, error) { return r.Decide(testStart, ruling, "why") },
			"|expired|doubt|undecided|stuck|lost|refused in doubt|unknown|delayed again|", "|live|live again|")
	}
	for _, ruling := range []batch.Ruling{"", "unknown", "Committed"} {
		for name, r := range rowsByStanding(t) {
			next, err := r.Decide(testStart, ruling, "why")
			require.ErrorIs(t, err, batch.ErrInvalidInput, name)
			assert.Equal(t, r, next, name)
		}
	}
	now := testStart.Add(time.Hour)
	for _, name := range []string{"expired", "undecided", "stuck", "lost", "refused in doubt", "unknown", "delayed again"} {
		r := rowsByStanding(t)[name]
		next, err := r.Decide(now, batch.NotExecutedSendAgain, "")
		require.NoError(t, err)
		assert.True(t, next.IsReady(now), name)
		assert.True(t, next.Resendable(now, ttl, store.Resend{}), "%s: declared not committed, nothing is in doubt", name)
		assert.False(t, next.Refused, name)
		assert.Empty(t, next.Decision, name)
		assert.Equal(t, testStart, next.LastPost, name)

		next, err = r.Decide(now, batch.NotExecutedReject, "why")
		require.NoError(t, err)
		assert.Equal(t, &batch.SubmissionError{Kind: batch.KindCancelled, Message: "why"}, next.Error, name)
		assert.Equal(t, now, next.FinalAt, name)
		assert.Equal(t, testStart, next.LastPost, name)

		next, err = r.Decide(now, batch.WasCommitted, "why")
		require.NoError(t, err)
		assert.Nil(t, next.Error, name)
		assert.True(t, next.Final(), name)
	}
}
