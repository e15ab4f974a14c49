package dltbatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

// dividedLedger is a ledger whose circuit has nodes with different states: a batch is executed,
// shown as Valid, and taken back. A circuit that is whole commits the batch.
type dividedLedger struct {
	dlt.Unimplemented

	mu              sync.Mutex
	postTimes       map[batch.ID][]time.Time
	isWhole         map[batch.ServiceID]bool
	givesNoEvidence bool // true if the ledger gives no evidence
}

const dividedStale = time.Minute

func (l *dividedLedger) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "divided", GroupsByService: true, Stale: dividedStale, Resolves: true}
}

func (l *dividedLedger) Submit(_ context.Context, a batch.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.postTimes[a.ID] = append(l.postTimes[a.ID], time.Now())
	return nil
}

func (l *dividedLedger) BatchStatuses(_ context.Context, s batch.ServiceID, attempts []batch.Attempt) (out []batch.Status, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range attempts {
		word := batch.ReportedValid
		if l.isWhole[s] {
			word = batch.ReportedCommitted
		}
		out = append(out, batch.Status{ID: a.ID, Reported: word})
	}
	return out, nil
}

func (l *dividedLedger) Resolve(_ context.Context, d dlt.Doubt) (dlt.Evidence, error) {
	switch {
	case d.Ended <= dividedStale:
		return dlt.InFlight, nil
	case l.givesNoEvidence:
		return dlt.CannotTell, nil
	}
	return dlt.NotCommitted, nil
}

func (l *dividedLedger) postsOf(id batch.ID) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.postTimes[id]
}

func (l *dividedLedger) makeWhole(s batch.ServiceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isWhole[s] = true
}

// TestADividedCircuitIsHalted: after two executions that were taken back, the lane is halted. No
// instance sends anything from the lane until it is released, and each act on it shows the reason.
func TestADividedCircuitIsHalted(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		ledger := &dividedLedger{postTimes: map[batch.ID][]time.Time{}, isWhole: map[batch.ServiceID]bool{"other": true}}
		st := memory.New()
		var mu sync.Mutex
		var halts []batch.Event
		o := &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == batch.EventHalted {
				halts = append(halts, e)
			}
		})}
		r, another := newRunner(t, st, ledger, o), newRunner(t, st, ledger, o)
		stop, stopAnother := startRun(t, r), startRun(t, another)
		a, b, c := newBatch("s", "a"), newBatch("s", "b"), newBatch("other", "c")
		a.Budget = batch.Budget{Attempts: 9, EveryTry: true}
		require.NoError(t, r.Add(t.Context(), a, b, c))
		begin := time.Now()
		time.Sleep(3 * time.Hour)
		synctest.Wait()

		posts := ledger.postsOf("a")
		require.Len(t, posts, 2)
		assert.Less(t, posts[1].Sub(begin), 2*dividedStale)
		assert.Empty(t, ledger.postsOf("b"))
		assert.Equal(t, batch.Committed, awaitFinal(t, r, c).State, "only its own lane waits")
		control, err := r.Control(t.Context(), batch.Only("s"))
		require.NoError(t, err)
		const why = "the nodes of this circuit disagree"
		assert.Contains(t, control.HaltReason, why)
		for _, batch := range []batch.Batch{a, b} {
			x, err := another.Explain(t.Context(), batch.Key())
			require.NoError(t, err)
			assert.Contains(t, x.Text, why)
		}
		rec, err := r.Get(t.Context(), a.Key())
		require.NoError(t, err)
		assert.Equal(t, 2, rec.Spent)
		mu.Lock()
		if assert.Len(t, halts, 1) {
			assert.Equal(t, a.Key(), halts[0].Key)
			assert.ErrorContains(t, halts[0].Err, why)
		}
		mu.Unlock()
		health := append(r.Health().HaltedServices, another.Health().HaltedServices...)
		assert.Equal(t, []batch.ServiceID{"s"}, health, "the one that found it out says so")

		// The release does not help: the lane is halted again after two more executions.
		_, err = r.Release(t.Context(), control, batch.By{Actor: "ann", Reason: "try"})
		require.NoError(t, err)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		assert.Len(t, ledger.postsOf("a"), 4)
		control, err = r.Control(t.Context(), batch.Only("s"))
		require.NoError(t, err)
		require.Contains(t, control.HaltReason, why)

		ledger.makeWhole("s")
		_, err = r.Release(t.Context(), control, batch.By{Actor: "ann", Reason: "mended"})
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, a).State)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		synctest.Wait()
		assert.Empty(t, r.Health().HaltedServices)
		require.NoError(t, stop())
		require.NoError(t, stopAnother())
	})
}

// TestAnExecutionWithoutATrace: a batch was executed and taken back, and the ledger has no trace
// of it. A person is asked within five minutes after nothing more could be found out.
func TestAnExecutionWithoutATrace(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		ledger := &dividedLedger{postTimes: map[batch.ID][]time.Time{}, givesNoEvidence: true}
		var mu sync.Mutex
		var calledAt time.Time
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == batch.EventDecision && calledAt.IsZero() {
				calledAt = time.Now()
			}
		})})
		keepRunning(t, r)
		b := newBatch("s", "a")
		begin := time.Now()
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		mu.Lock()
		took := calledAt.Sub(begin) - dividedStale
		mu.Unlock()
		t.Logf("reported %s after nothing more could be found out", took)
		assert.Positive(t, took)
		assert.LessOrEqual(t, took, 5*time.Minute)
		assert.Len(t, ledger.postsOf("a"), 1, "and it is not sent again")
		x, err := r.Explain(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.CauseDecision, x.Cause)
	})
}
