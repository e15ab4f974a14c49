package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A stop during a POST waits for the answer and records it.
func TestAStopRecordsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		ledger := ledgermem.New(&ledgermem.Options{Latency: 4 * time.Second})
		r := newRunner(t, st, ledger, nil)
		stop := startRun(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a"), newBatch("s", "b")))
		time.Sleep(time.Second)
		begin := time.Now()
		require.NoError(t, stop())
		assert.InDelta(t, 3*time.Second, time.Since(begin), float64(50*time.Millisecond), "as long as the POST takes")
		a, err := r.Get(t.Context(), newBatch("s", "a").Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Pending, a.State)
		b, err := r.Get(t.Context(), newBatch("s", "b").Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Queued, b.State)
	})
}

// A request that outlasts its Run does not affect the next Run: its late answer closes a gate of
// the ended Run, and Health does not show the next Run as paused.
func TestARequestThatIsLeftBehindPausesNoLaterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var first atomic.Bool
		traits := ledgermem.Unforgiving(time.Second)
		traits.ResendHarmlessFor = dlt.Forever
		ledger := hooked.Wrap(ledgermem.New(&ledgermem.Options{Traits: &traits}), hooked.Hooks{Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
			if first.CompareAndSwap(false, true) {
				<-release // the ledger ignores its context
				return dlt.ErrBusy
			}
			return next(ctx, a)
		}})
		seen := &eventRecorder{}
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen})
		stop := startRun(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		time.Sleep(time.Second)
		require.ErrorIs(t, stop(), dltbatch.ErrDrain)
		stop = startRun(t, r)
		time.Sleep(time.Second)
		close(release)
		time.Sleep(time.Minute)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("s", "a")).State)
		assert.False(t, r.Health().Paused)
		assert.Empty(t, r.Health().Pauses)
		assert.Empty(t, seen.ofKind(batch.EventPaused))
		require.NoError(t, stop())
	})
}

// eagerStrategy claims a whole lane as one run.
var eagerStrategy = queuer.Strategy{Name: "eager", Window: 10, Select: func(l batch.Lane) []batch.Run {
	var run batch.Run
	for i, b := range l.Batches {
		if !b.Ready {
			return nil
		}
		run = append(run, i)
	}
	return []batch.Run{run}
}}

// A stop puts back the batches that were claimed and not posted. Their attempts are not spent, and
// another instance posts the batches at once.
func TestAStopPutsBackWhatWasNotPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		ledger := ledgermem.New(&ledgermem.Options{Latency: 4 * time.Second})
		o := &dltbatch.Options{Strategy: eagerStrategy, Drain: time.Minute}
		r := newRunner(t, st, ledger, o)
		stop := startRun(t, r)
		var batches []batch.Batch
		order := map[batch.ServiceID][]batch.ID{}
		for i := range 4 {
			b := newBatch("s", batch.ID(fmt.Sprint("b", i)))
			b.Budget = batch.Budget{Attempts: 2, EveryTry: true}
			batches = append(batches, b)
			order["s"] = append(order["s"], b.ID)
		}
		require.NoError(t, r.Add(t.Context(), batches...))
		time.Sleep(time.Second)
		require.NoError(t, stop())
		for i, b := range batches {
			rec, err := r.Get(t.Context(), b.Key())
			require.NoError(t, err)
			want, spent := batch.Queued, 0
			if i == 0 {
				want, spent = batch.Pending, 1
			}
			assert.Equal(t, want, rec.State, "%s", b.ID)
			assert.Equal(t, 1, rec.Attempt, "%s: the claim is counted", b.ID)
			assert.Equal(t, spent, rec.Spent, "%s", b.ID)
			if i > 0 {
				assert.Zero(t, rec.DoubtSince, "%s: nothing was sent, nothing is in doubt", b.ID)
				assert.Zero(t, rec.ClaimExpires)
			}
		}
		next := newRunner(t, st, ledger, nil)
		begin := time.Now()
		stop = startRun(t, next)
		rec := awaitFinal(t, next, batches[1])
		assert.Less(t, time.Since(begin), 15*time.Second, "no claim is waited for")
		assert.Equal(t, batch.Committed, rec.State)
		assert.Equal(t, 2, rec.Attempt, "the number grows")
		assert.Equal(t, 1, rec.Spent, "and the claim that sent nothing is not paid for")
		require.NoError(t, next.Idle(t.Context()))
		require.NoError(t, stop())
		require.NoError(t, ledger.Verify(order))
	})
}

// A stop ends within Drain, even if the ledger and the store hang.
func TestAStopEndsWithinDrain(t *testing.T) {
	for name, hang := range map[string]bool{"ledger hangs": false, "store hangs, too": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &hangingRecordStore{Store: memory.New()}
				ledger := ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
					return ledgermem.Fault{Kind: ledgermem.Hang}
				}})
				r := newRunner(t, st, ledger, &dltbatch.Options{Pool: 32, Drain: 20 * time.Second})
				stop := startRun(t, r)
				for i := range 200 {
					s := batch.ServiceID(fmt.Sprint("s", i))
					require.NoError(t, r.Add(t.Context(), newBatch(s, batch.ID(fmt.Sprint("b", i)))))
				}
				time.Sleep(3 * time.Second)
				st.recordHangs.Store(hang)
				begin := time.Now()
				require.NoError(t, stop())
				assert.LessOrEqual(t, time.Since(begin), 20*time.Second)
			})
		})
	}
}

// hangingRecordStore is a store whose Record hangs.
type hangingRecordStore struct {
	store.Store
	recordHangs atomic.Bool
}

func (s *hangingRecordStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	if s.recordHangs.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Record(ctx, o)
}

// Run returns nil even if its context was done before it began.
func TestAStopBeforeTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, newRunner(t, memory.New(), ledgermem.New(nil), nil).Run(ctx))
}

// ctxIgnoringLedger is a ledger that ignores its context.
type ctxIgnoringLedger struct{ *ledgermem.Ledger }

func (d ctxIgnoringLedger) Submit(context.Context, batch.Attempt) error {
	time.Sleep(time.Hour)
	return nil
}

// A ledger's client that ignores its context does not delay a stop: Run returns an error.
func TestAStopDoesNotWaitForADeafLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), ctxIgnoringLedger{ledgermem.New(nil)}, nil)
		stop := startRun(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		time.Sleep(time.Second)
		begin := time.Now()
		require.ErrorIs(t, stop(), dltbatch.ErrDrain)
		assert.LessOrEqual(t, time.Since(begin), 31*time.Second)
		time.Sleep(2 * time.Hour) // until the goroutines that Run left behind have ended
	})
}

// A stop waits for a status query in flight, even while the store fails, and its answer is
// recorded.
func TestAStopWaitsForWhatTheMonitorAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &failingPendingStore{Store: memory.New()}
		r := newRunner(t, st, &slowStatusLedger{Ledger: ledgermem.New(nil)}, nil)
		stop := startRun(t, r)
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(500 * time.Millisecond) // the query is in flight
		st.pendingFails.Store(true)
		time.Sleep(time.Second) // the store fails, and the monitor retries in vain
		require.NoError(t, stop())
		rec, err := r.Get(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	})
}

// failingPendingStore is a store whose Pending can fail.
type failingPendingStore struct {
	*memory.Store
	pendingFails atomic.Bool
}

func (s *failingPendingStore) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if s.pendingFails.Load() {
		return nil, errors.New("down")
	}
	return s.Store.Pending(ctx, q)
}

// slowStatusLedger is a ledger that answers after a while and ignores its context.
type slowStatusLedger struct{ *ledgermem.Ledger }

func (l *slowStatusLedger) BatchStatuses(_ context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
	time.Sleep(5 * time.Second)
	return l.Ledger.BatchStatuses(context.Background(), s, as)
}
