package dltbatch_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// newRefusingLedger returns a ledger that refuses the batches ids until relent is called.
func newRefusingLedger(ids ...batch.ID) (l *ledgermem.Ledger, relent func()) {
	var off atomic.Bool
	l = ledgermem.New(&ledgermem.Options{Fault: func(a batch.Attempt) ledgermem.Fault {
		if !off.Load() && slices.Contains(ids, a.ID) {
			return ledgermem.Fault{Kind: ledgermem.Rejected}
		}
		return ledgermem.Fault{}
	}})
	return l, func() { off.Store(true) }
}

// recordOf returns the record that a person would see.
func recordOf(t *testing.T, r *dltbatch.Runner, b batch.Batch) batch.Record {
	t.Helper()
	rec, err := r.Get(t.Context(), b.Key())
	require.NoError(t, err)
	return rec
}

// A pause made in one process holds in all, and so does the end of the pause.
func TestPauseHoldsInTheWholeCluster(t *testing.T) {
	tier.Hints(t) // the hint of Resume
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s")} {
		synctest.Test(t, func(t *testing.T) {
			st, ledger, seen := memory.New(), ledgermem.New(nil), &eventRecorder{}
			console := newRunner(t, st, ledger, &dltbatch.Options{Observer: seen}) // on this Runner nothing calls Run
			stop := startRun(t, newRunner(t, st, ledger, nil))
			defer func() { require.NoError(t, stop()) }()
			c, err := console.Pause(t.Context(), scope, somebody)
			require.NoError(t, err)
			assert.Equal(t, somebody, c.PausedBy)
			s, other := newBatch("s", "a"), newBatch("other", "b")
			require.NoError(t, console.Add(t.Context(), s, other))
			time.Sleep(time.Minute)
			rec, err := console.Get(t.Context(), s.Key())
			require.NoError(t, err)
			assert.Equal(t, batch.Queued, rec.State)
			rec, err = console.Get(t.Context(), other.Key())
			require.NoError(t, err)
			assert.Equal(t, scope.All, rec.State == batch.Queued, "another lane is not concerned")
			e, err := console.Explain(t.Context(), s.Key())
			require.NoError(t, err)
			assert.Equal(t, batch.CausePaused, e.Cause)
			assert.Equal(t, scope, e.Control.Scope)
			assert.Contains(t, e.Text, "ada")

			_, err = console.Resume(t.Context(), c, somebody)
			require.NoError(t, err)
			begin := time.Now()
			assert.Equal(t, batch.Committed, awaitFinal(t, console, s).State)
			assert.LessOrEqual(t, time.Since(begin), 2*time.Second, "a scan of the other process and a poll")
			acts, err := console.LaneHistory(t.Context(), scope)
			require.NoError(t, err)
			require.Len(t, acts, 2)
			assert.Equal(t, batch.ActionPause, acts[0].Action)
			assert.Equal(t, batch.ActionResume, acts[1].Action)
			assert.Len(t, seen.ofKind(batch.EventOperated), 2)
		})
	}
}

func TestHaltAndRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := memory.New(), &eventRecorder{}
		ledger, relent := newRefusingLedger("bad")
		r := newRunner(t, st, ledger, &dltbatch.Options{Observer: seen, Policy: batch.PolicyHalt})
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		bad, next, other := newBatch("s", "bad"), newBatch("s", "next"), newBatch("other", "fine")
		require.NoError(t, r.Add(t.Context(), bad, next, other))
		assert.Equal(t, batch.Rejected, awaitFinal(t, r, bad).State)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, other).State)
		time.Sleep(time.Minute)
		e, err := r.Explain(t.Context(), next.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.CauseHalted, e.Cause)
		assert.Equal(t, bad.Key(), e.Blocker)
		require.Len(t, seen.ofKind(batch.EventHalted), 1)
		assert.Equal(t, bad.Key(), seen.ofKind(batch.EventHalted)[0].Key)

		relent()
		_, err = r.Requeue(t.Context(), recordOf(t, r, bad), somebody)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		rec, err := r.Get(t.Context(), bad.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Queued, rec.State, "a requeue releases nothing")
		why, err := r.Explain(t.Context(), bad.Key())
		require.NoError(t, err)
		assert.Contains(t, why.Text, "it halted its lane", "not by a batch that is itself")
		assert.Contains(t, why.Text, "requeued since; release the lane")
		_, err = r.Release(t.Context(), e.Control, somebody)
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, next).State)
		order := slices.DeleteFunc(postedIDs(ledger), func(id batch.ID) bool { return id == other.ID })
		assert.Equal(t, []batch.ID{"bad", "bad", "next"}, order, "in its old place")
		acts, err := r.History(t.Context(), bad.Key())
		require.NoError(t, err)
		require.Len(t, acts, 1)
		assert.Equal(t, somebody, acts[0].By)
	})
}

// A lane's own policy takes precedence over the Runner's.
func TestQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := memory.New(), &eventRecorder{}
		ledger, _ := newRefusingLedger("bad")
		r := newRunner(t, st, ledger, &dltbatch.Options{Observer: seen, Policy: batch.PolicyHalt})
		_, err := r.SetPolicy(t.Context(), batch.Control{Scope: batch.Only("s")}, batch.PolicyQuarantine, somebody)
		require.NoError(t, err)
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		bad, next := newBatch("s", "bad"), newBatch("s", "next")
		require.NoError(t, r.Add(t.Context(), bad, next))
		rec := awaitFinal(t, r, bad)
		assert.Equal(t, batch.Rejected, rec.State)
		assert.True(t, rec.Quarantined)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, next).State, "the lane goes on")
		assert.Len(t, seen.ofKind(batch.EventQuarantined), 1)
		aside, _, err := st.List(t.Context(), store.ListQuery{Quarantined: true})
		require.NoError(t, err)
		require.Len(t, aside, 1)
		rec, err = r.Acquit(t.Context(), recordOf(t, r, bad), somebody)
		require.NoError(t, err)
		assert.False(t, rec.Quarantined)
		assert.Equal(t, batch.Rejected, rec.State)
	})
}

func TestCancelDecideAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
		first, second := newBatch("s", "a"), newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), first, second))
		_, err := r.Cancel(t.Context(), recordOf(t, r, first), batch.By{})
		require.ErrorIs(t, err, batch.ErrInvalidInput)
		rec, err := r.Cancel(t.Context(), recordOf(t, r, first), somebody)
		require.NoError(t, err)
		assert.Equal(t, batch.Rejected, rec.State)
		assert.Equal(t, batch.KindCancelled, rec.Error.Kind)
		assert.Equal(t, rec.State, awaitFinal(t, r, first).State)
		_, err = r.Decide(t.Context(), recordOf(t, r, second), batch.WasCommitted, somebody)
		require.ErrorIs(t, err, batch.ErrNotAllowed)
		rec, err = r.Requeue(t.Context(), rec, somebody)
		require.NoError(t, err)
		assert.Equal(t, batch.Queued, rec.State)
		e, err := r.Explain(t.Context(), second.Key())
		require.NoError(t, err)
		assert.Equal(t, first.Key(), e.Blocker, "it stands in its old place")
		_, err = r.Explain(t.Context(), batch.Key{Service: "s", ID: "none"})
		require.ErrorIs(t, err, batch.ErrNotFound)
	})
}

// RetryOf gives each service its own retries: their number and pauses.
func TestRetryPolicyOfAService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.Number <= 3 {
				return ledgermem.Fault{Kind: ledgermem.Busy}
			}
			return ledgermem.Fault{}
		}})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{
			Retry: dltbatch.RetryPolicy{QuickRetries: -1}, Instance: "one",
			RetryOf: func(s batch.ServiceID) dltbatch.RetryPolicy {
				switch s {
				case "twice":
					return dltbatch.RetryPolicy{Budget: batch.Budget{Attempts: 2, EveryTry: true}}
				case "slow":
					return dltbatch.RetryPolicy{Delay: time.Hour, MaxDelay: time.Hour}
				case "panics":
					panic("a slip")
				}
				return dltbatch.RetryPolicy{}
			},
		})
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		own := newBatch("twice", "own")
		own.Budget = batch.Budget{Attempts: 10, EveryTry: true}
		twice, slow, plain, panics := newBatch("twice", "t"), newBatch("slow", "s"), newBatch("plain", "p"), newBatch("panics", "q")
		begin := time.Now()
		require.NoError(t, r.Add(t.Context(), twice, own, slow, plain, panics))
		rec := awaitFinal(t, r, twice)
		assert.Equal(t, batch.Rejected, rec.State)
		assert.Equal(t, batch.KindExhausted, rec.Error.Kind)
		assert.Equal(t, 2, rec.Spent)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, own).State, "its own budget counts")
		assert.Equal(t, batch.Committed, awaitFinal(t, r, plain).State)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, panics).State)
		assert.Less(t, time.Since(begin), time.Hour)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, slow).State)
		assert.Greater(t, time.Since(begin), 2*time.Hour)

		kept, err := r.Attempts(t.Context(), plain.Key())
		require.NoError(t, err)
		require.Len(t, kept, 4, "three that failed, and the one after them")
		for i, a := range kept {
			assert.Equal(t, i+1, a.Attempt)
			assert.Equal(t, "one", a.Instance)
		}
		assert.Equal(t, batch.KindBusy, kept[0].Kind)
		assert.Empty(t, kept[3].Kind)
	})
}

// A batch whose attempt simply succeeded leaves no report.
func TestNothingIsKeptOfWhatSimplyWorked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		awaitFinal(t, r, b)
		kept, err := r.Attempts(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Empty(t, kept)
	})
}

// Paused or halted lanes delay no other lane.
func TestClosedLanesSlowNobody(t *testing.T) {
	took := func(closed int) (d time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			r := newRunner(t, memory.New(), ledgermem.New(&ledgermem.Options{Latency: 10 * time.Millisecond, CommitAfter: 10 * time.Millisecond}), nil)
			for i := range closed {
				s := batch.ServiceID(fmt.Sprintf("closed%04d", i))
				require.NoError(t, r.Add(t.Context(), newBatch(s, batch.ID(s))))
				_, err := r.Pause(t.Context(), batch.Only(s), somebody)
				require.NoError(t, err)
			}
			stop := startRun(t, r)
			defer func() { require.NoError(t, stop()) }()
			time.Sleep(time.Minute)
			begin := time.Now()
			var last batch.Batch
			for i := range 50 {
				last = newBatch("open", batch.ID(fmt.Sprint("b", i)))
				require.NoError(t, r.Add(t.Context(), last))
			}
			require.Equal(t, batch.Committed, awaitFinal(t, r, last).State)
			d = time.Since(begin)
		})
		return d
	}
	assert.Equal(t, took(0), took(7000), "in virtual time: no round was spent on them")
}
