package canton_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// commitTransfers commits n batches of the party Alice.
func (r *testClient) commitTransfers(n int) {
	r.t.Helper()
	for i := range n {
		require.NoError(r.t, r.submit(attempt(transfer(fmt.Sprintf("fill-%d", i)), 1, nil)))
	}
	require.Eventually(r.t, func() bool {
		return r.participant.Count(cantontest.Executed, fmt.Sprintf("fill-%d", n-1)) == 1
	}, 30*time.Second, 5*time.Millisecond)
}

func (r *testClient) waitForExecution(id string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.participant.Count(cantontest.Executed, id) == 1 }, 30*time.Second, time.Millisecond)
}

// After a crash another process finds these statuses (docs/ledgers/canton.md#after-a-crash).
func TestStatusesAfterACrash(t *testing.T) {
	t.Run("the answer was lost", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		b := transfer("b")
		a := attempt(b, 1, r.prepare(b))
		r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault {
			return cantontest.Fault{Answer: cantontest.AnswerReset, Accept: true}
		})
		require.Equal(t, batch.KindDoubt, dlt.Kind(r.submit(a)))
		r.participant.SetFault(nil)
		r.participant.Advance(1_000_000)
		r.client = r.newClient(nil)
		r.waitForStatus(a, batch.ReportedCommitted)
	})
	t.Run("a plain 503 after the request timeout", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		b := transfer("b")
		a := attempt(b, 1, r.prepare(b))
		r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault {
			return cantontest.Fault{Answer: cantontest.AnswerTimeout, Accept: true}
		})
		require.Equal(t, batch.KindDoubt, dlt.Kind(r.submit(a)))
		r.participant.SetFault(nil)
		r.waitForStatus(a, batch.ReportedCommitted)
	})
	t.Run("it arrives after its connection has ended", func(t *testing.T) {
		r := newTestClient(t, nil, nil)
		b := transfer("b")
		a := attempt(b, 1, r.prepare(b))
		r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault {
			return cantontest.Fault{Answer: cantontest.AnswerReset, Accept: true, AcceptAfter: 100 * time.Millisecond}
		})
		require.Equal(t, batch.KindDoubt, dlt.Kind(r.submit(a)))
		r.participant.SetFault(nil)
		s, err := r.askStatus(a)
		require.NoError(t, err)
		assert.Equal(t, batch.ReportedUnknown, s.Reported)
		r.waitForStatus(a, batch.ReportedCommitted)
	})
	t.Run("without what was prepared, further back than one looks", func(t *testing.T) {
		r := newTestClient(t, nil, &canton.Options{LookBack: 100})
		b := transfer("b")
		require.NoError(t, r.submit(attempt(b, 1, nil)))
		r.waitForExecution("b")
		r.participant.Advance(200)
		s, err := r.askStatus(attempt(b, 1, nil))
		require.NoError(t, err)
		assert.Equal(t, batch.ReportedUnknown, s.Reported)
		assert.Contains(t, s.Message, "no further back than offset 111")
		// Sending the batch again does no harm, and then its commit is found.
		second := attempt(b, 2, nil)
		require.NoError(t, r.submit(second))
		r.waitForStatus(second, batch.ReportedCommitted)
		assert.Equal(t, 1, r.participant.Count(cantontest.Executed, "b"))
	})
	t.Run("the participant restarts", func(t *testing.T) {
		r := newTestClient(t, &cantontest.Options{CompleteAfter: 100 * time.Millisecond}, nil)
		b := transfer("b")
		a := attempt(b, 1, r.prepare(b))
		require.NoError(t, r.submit(a))
		r.participant.Restart()
		r.client = r.newClient(nil)
		r.waitForStatus(a, batch.ReportedCommitted)
	})
	t.Run("the participant loses it", func(t *testing.T) {
		r := newTestClient(t, &cantontest.Options{CompleteAfter: 100 * time.Millisecond}, nil)
		b := transfer("b")
		a := attempt(b, 1, r.prepare(b))
		require.NoError(t, r.submit(a))
		r.participant.Crash()
		r.client = r.newClient(nil)
		s, err := r.askStatus(a)
		require.NoError(t, err)
		require.Equal(t, batch.ReportedUnknown, s.Reported)
		a.Number = 2
		require.NoError(t, r.submit(a))
		assert.Equal(t, 2, r.waitForStatus(a, batch.ReportedCommitted).Attempt)
	})
}

// A rejection counts for the attempt in its submission id, and a success counts for the batch.
func TestARejectionCountsForItsAttempt(t *testing.T) {
	r := newTestClient(t, nil, nil)
	b := transfer("b")
	prepared := r.prepare(b)
	r.participant.SetFault(func(p cantontest.RequestPoint) cantontest.Fault {
		return map[int]cantontest.Fault{1: {Reject: "LOCAL_VERDICT_LOCKED_CONTRACTS"}, 2: {Reject: "INCONSISTENT"}}[p.Try]
	})
	require.NoError(t, r.submit(attempt(b, 1, prepared)))
	assert.Equal(t, 1, r.waitForStatus(attempt(b, 1, prepared), batch.ReportedFailed).Attempt)
	s, err := r.askStatus(attempt(b, 0, prepared))
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedFailed, s.Reported, "asked about the batch as a whole, the last one counts")
	require.NoError(t, r.submit(attempt(b, 2, prepared)))
	assert.Equal(t, 2, r.waitForStatus(attempt(b, 2, prepared), batch.ReportedInvalid).Attempt)
	s, err = r.askStatus(attempt(b, 1, prepared))
	require.NoError(t, err)
	assert.Equal(t, 2, s.Attempt, "a late asker hears of the later attempt, by its number")
	s, err = r.askStatus(attempt(b, 3, prepared))
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedUnknown, s.Reported, "nothing is known of the third")
	require.NoError(t, r.submit(attempt(b, 3, prepared)))
	assert.Equal(t, 3, r.waitForStatus(attempt(b, 4, prepared), batch.ReportedCommitted).Attempt, "whatever attempt is asked about")
}

func TestMoreCompletionsThanAPage(t *testing.T) {
	for name, o := range map[string]cantontest.Options{
		"pages":                           {},
		"small limit":                     {ListLimit: 7},
		"a limit of one":                  {ListLimit: 1},
		"checkpoints count":               {CheckpointEvery: 1},
		"checkpoints and a limit of some": {CheckpointEvery: 2, ListLimit: 5},
		"others use the participant":      {OffsetStep: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			o.CompleteAfter = time.Millisecond
			r := newTestClient(t, &o, &canton.Options{PageLimit: 30})
			first, last, never := transfer("first"), transfer("last"), transfer("never")
			prepared := r.prepare(first)
			require.NoError(t, r.submit(attempt(first, 1, prepared)))
			r.waitForExecution("first")
			r.commitTransfers(75)
			require.NoError(t, r.submit(attempt(last, 1, nil)))
			r.waitForExecution("last")
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			got := map[batch.ID]batch.Reported{}
			for range 5 { // a call reads a limited number of pages, and the next call goes on
				var open []batch.Attempt
				for _, b := range [...]batch.Batch{never, last, first} {
					if got[b.ID] == noReport {
						open = append(open, batch.Attempt{Key: b.Key(), Number: 1, Prepared: prepared})
					}
				}
				out, err := r.client.BatchStatuses(ctx, "Alice", open)
				require.NoError(t, err)
				for _, s := range out {
					got[s.ID] = s.Reported
				}
				if len(got) == 3 {
					break
				}
			}
			assert.Equal(t, map[batch.ID]batch.Reported{
				"first": batch.ReportedCommitted, "last": batch.ReportedCommitted, "never": batch.ReportedUnknown,
			}, got)
		})
	}
}

// Completions that were read once are not read again, and a single commit is reported without a
// wait.
func TestCompletionsAreReadOnce(t *testing.T) {
	r := newTestClient(t, &cantontest.Options{CompleteAfter: time.Millisecond}, &canton.Options{IdleWait: 2 * time.Second})
	b, never := transfer("b"), transfer("never")
	prepared := r.prepare(b)
	require.NoError(t, r.submit(attempt(b, 1, prepared)))
	r.waitForExecution("b")
	start := time.Now()
	r.waitForStatus(attempt(b, 1, prepared), batch.ReportedCommitted)
	assert.Less(t, time.Since(start), 2*time.Second, "it waited for more than was asked about")

	r.commitTransfers(40)
	asked := 0
	r.participant.SetFault(func(p cantontest.RequestPoint) cantontest.Fault {
		if p.Operation == cantontest.OpCompletions {
			asked++
		}
		return cantontest.Fault{}
	})
	for range 2 {
		s, err := r.askStatus(attempt(never, 1, prepared))
		require.NoError(t, err)
		require.Equal(t, batch.ReportedUnknown, s.Reported)
	}
	assert.Equal(t, 3, asked, "a short page and a long one, and then one that goes on from there")
}

func TestPruning(t *testing.T) {
	r := newTestClient(t, nil, nil)
	b, later := transfer("b"), transfer("later")
	prepared := r.prepare(b)
	require.NoError(t, r.submit(attempt(b, 1, prepared)))
	r.waitForExecution("b")
	r.participant.Prune(r.participant.LedgerEnd())
	require.NoError(t, r.submit(attempt(later, 1, nil)))
	r.waitForExecution("later")

	s, err := r.askStatus(attempt(b, 1, prepared))
	assert.Zero(t, s.Reported, "its completion may have been pruned, so that nothing can be said")
	require.ErrorContains(t, err, "pruned")
	s, err = r.askStatus(attempt(later, 1, prepared))
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedCommitted, s.Reported, "what is left is found, from however far back")
	s, err = r.askStatus(attempt(b, 1, nil))
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedUnknown, s.Reported, "looking back promises nothing")
	assert.NotEmpty(t, s.Message)

	// The participant still deduplicates the command.
	second := attempt(b, 2, prepared)
	require.NoError(t, r.submit(second))
	s, _ = r.askStatus(second)
	assert.Equal(t, batch.ReportedCommitted, s.Reported)
}

func TestOffsetAfterTheLedgerEnd(t *testing.T) {
	r := newTestClient(t, nil, nil)
	b := transfer("b")
	s, err := r.askStatus(attempt(b, 1, []byte(`{"offset":5000}`)))
	assert.Zero(t, s.Reported)
	assert.ErrorContains(t, err, "OFFSET_AFTER_LEDGER_END")
}

// Within the deduplication period a command takes effect once, and after it again, as
// Traits.ResendHarmlessFor says.
func TestThePeriodIsWhatTheTraitsSay(t *testing.T) {
	r := newTestClient(t, nil, &canton.Options{DeduplicationPeriod: time.Second, LateArrival: 100 * time.Millisecond})
	assert.Equal(t, time.Second, r.client.Traits("Alice").ResendHarmlessFor)
	b := transfer("b")
	require.NoError(t, r.submit(attempt(b, 1, nil)))
	r.waitForExecution("b")
	require.NoError(t, r.submit(attempt(b, 2, nil)))
	assert.Equal(t, 1, r.participant.Count(cantontest.Accepted, "b"))
	n := 2
	require.Eventually(t, func() bool {
		n++
		require.NoError(t, r.submit(attempt(b, n, nil)))
		return r.participant.Count(cantontest.Accepted, "b") == 2
	}, 30*time.Second, 50*time.Millisecond)
	require.Eventually(t, func() bool { return r.participant.Check(nil) != nil }, 30*time.Second, time.Millisecond, "the journal shows that it took effect twice")
}

// A participant that reads slowly seems to have no completion. The client then sends the same
// command again, which does no harm, and does not take the missing completion as evidence.
func TestSlowParticipant(t *testing.T) {
	r := newTestClient(t, nil, &canton.Options{LateArrival: 1, DecidedWithin: 1, IdleWait: 10 * time.Millisecond})
	b := transfer("b")
	a := attempt(b, 1, r.prepare(b))
	require.NoError(t, r.submit(a))
	r.waitForExecution("b")
	r.participant.SetFault(func(cantontest.RequestPoint) cantontest.Fault {
		return cantontest.Fault{SlowRead: 60 * time.Millisecond}
	})
	s, err := r.askStatus(a)
	require.NoError(t, err)
	assert.Equal(t, batch.ReportedUnknown, s.Reported)
	found, err := r.client.Resolve(t.Context(), dlt.Doubt{Attempt: a, Since: time.Hour, Ended: time.Hour})
	require.NoError(t, err)
	assert.Equal(t, dlt.Committed, found)
	a.Number = 2
	require.NoError(t, r.submit(a))
	r.participant.SetFault(nil)
	r.waitForStatus(a, batch.ReportedCommitted)
	assert.Equal(t, 1, r.participant.Count(cantontest.Executed, "b"))
}
