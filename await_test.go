package dltbatch_test

import (
	"context"
	"fmt"
	"sync"
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

// finalsCounter is a store that counts the queries for final batches.
type finalsCounter struct {
	store.Store
	finalsCalls atomic.Int64
}

func (c *finalsCounter) Finals(ctx context.Context, keys []batch.Key) ([]batch.Record, []batch.Key, error) {
	c.finalsCalls.Add(1)
	return c.Store.Finals(ctx, keys)
}

// All Awaits of a process share one query of the store in each PollInterval. No Run runs in this
// process: another one delivers.
func TestAllAwaitsShareOneQueryInAnInterval(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		st := memory.New()
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 10 * time.Second})
		elsewhere := newRunner(t, st, ledger, nil)
		mine := &finalsCounter{Store: st}
		r := newRunner(t, mine, ledger, nil)
		var wg sync.WaitGroup
		for i := range n {
			b := newBatch(batch.ServiceID(fmt.Sprint(i)), batch.ID(fmt.Sprint(i)))
			require.NoError(t, elsewhere.Add(t.Context(), b))
			wg.Go(func() {
				rec, err := r.Await(t.Context(), b.Key())
				assert.NoError(t, err)
				assert.Equal(t, batch.Committed, rec.State)
			})
		}
		begin := time.Now()
		keepRunning(t, elsewhere)
		wg.Wait()
		seconds := int64(time.Since(begin)/time.Second) + 1
		assert.LessOrEqual(t, mine.finalsCalls.Load(), seconds+4, "and a few that hints cause")
		asked := mine.finalsCalls.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, asked, mine.finalsCalls.Load(), "nobody waits")
	})
}

// When this process sees a batch become final, Await returns at once, not a poll interval
// later.
func TestAwaitReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 5 * time.Millisecond})
		r := newStartedRunner(t, memory.New(), ledger, &dltbatch.Options{PollInterval: 10 * time.Second})
		for i := range 20 { // each Await is the only one, so the shared reader starts and stops
			b := newBatch("s", batch.ID(fmt.Sprint(i)))
			begin := time.Now()
			require.NoError(t, r.Add(t.Context(), b))
			awaitFinal(t, r, b)
			assert.Less(t, time.Since(begin), time.Second)
		}
	})
}

// finalDuringReadStore is a store in which a batch becomes final during a read that does not see
// it yet.
type finalDuringReadStore struct {
	store.Store
	duringRead func()
}

func (b *finalDuringReadStore) Finals(ctx context.Context, keys []batch.Key) ([]batch.Record, []batch.Key, error) {
	final, missing, err := b.Store.Finals(ctx, keys)
	if f := b.duringRead; f != nil {
		b.duringRead = nil
		f()
	}
	return final, missing, err
}

// Await does not miss a batch that was final before, or that becomes final during the first read:
// in neither case Await waits for the next poll.
func TestAwaitMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 5 * time.Second})
		st := &finalDuringReadStore{Store: memory.New()}
		r := newStartedRunner(t, st, ledger, &dltbatch.Options{PollInterval: time.Minute})
		time.Sleep(time.Second)
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		committed := func() bool {
			rec, err := r.Get(t.Context(), b.Key())
			require.NoError(t, err)
			return rec.State == batch.Committed
		}
		st.duringRead = func() {
			assert.False(t, committed())
			for !committed() {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Millisecond) // wait until the next batch is reported, too
		}
		var finalAt time.Time
		inner := st.duringRead
		st.duringRead = func() { inner(); finalAt = time.Now() }
		awaitFinal(t, r, b)
		assert.Less(t, time.Since(finalAt), time.Second, "final while it was read")
		assert.Nil(t, st.duringRead)
		begin := time.Now()
		awaitFinal(t, r, b)
		assert.Less(t, time.Since(begin), time.Second, "final before")
	})
}

// slowFinalsStore is a store that delays its answers about final batches.
type slowFinalsStore struct{ store.Store }

func (s slowFinalsStore) Finals(ctx context.Context, keys []batch.Key) ([]batch.Record, []batch.Key, error) {
	final, missing, err := s.Store.Finals(ctx, keys)
	time.Sleep(100 * time.Millisecond)
	return final, missing, err
}

// An Await that begins while a query about its batch is in flight does not use the answer to that
// query, which may be older than the Add or the Requeue before the Await.
func TestAnAwaitGetsNoOlderAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		r := newRunner(t, slowFinalsStore{memory.New()}, ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
			if refuse.Load() {
				return ledgermem.Fault{Kind: ledgermem.Rejected}
			}
			return ledgermem.Fault{}
		}}), nil)
		b := newBatch("s", "a")
		early := make(chan error, 2)
		ask := func() {
			go func() {
				_, err := r.Await(t.Context(), b.Key())
				early <- err
			}()
			time.Sleep(20 * time.Millisecond) // the query is in flight
		}
		ask()
		require.NoError(t, r.Add(t.Context(), b))
		keepRunning(t, r)
		rec, err := r.Await(t.Context(), b.Key())
		require.NoError(t, err, "it is stored")
		require.Equal(t, batch.Rejected, rec.State)
		require.ErrorIs(t, <-early, batch.ErrNotFound)
		refuse.Store(false)
		ask()
		_, err = r.Requeue(t.Context(), rec, somebody)
		require.NoError(t, err)
		rec, err = r.Await(t.Context(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State, "and not the end before the requeue")
		require.NoError(t, <-early)
	})
}
