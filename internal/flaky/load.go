package flaky

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
)

// Load is the load of a Runner on a failing store: batches are added to each lane, about one in
// each Pause, for the time For. The ledger executes every batch that it gets, even twice.
type Load struct {
	Lanes     int
	MeanPause time.Duration
	Duration  time.Duration
}

// Latencies are the times from the end of a batch's Add to the end of its Await, in ascending
// order.
type Latencies []time.Duration

// Quantile returns a quantile, such as 0.99.
func (l Latencies) Quantile(q float64) time.Duration { return l[min(len(l)-1, int(q*float64(len(l))))] }

// String describes the latencies for the log of a test.
func (l Latencies) String() string {
	return fmt.Sprintf("%d batches: p50 %s, p99 %s, worst %s", len(l), l.Quantile(0.5).Round(time.Millisecond), l.Quantile(0.99).Round(time.Millisecond), l.Quantile(1).Round(time.Millisecond))
}

// retryOnFault repeats a failed call, as a caller does.
func retryOnFault(t testing.TB, do func() error) {
	for {
		err := do()
		if err == nil {
			return
		}
		if !errors.Is(err, ErrBefore) && !errors.Is(err, ErrAfter) && t.Context().Err() == nil {
			t.Errorf("what did not fail by the test's doing: %v", err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Run delivers the load with one Runner, with faults from beginning to end. It compares the
// ledger's log with the order of the Adds: every batch is final, and was executed once and in
// order.
func (l Load) Run(t testing.TB, s store.Store, f *Faults, o *dltbatch.Options) Latencies {
	t.Helper()
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 20 * time.Millisecond, Latency: 2 * time.Millisecond})
	r, err := dltbatch.New(s, ledger, o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for !r.Health().Running { // the Runner's first read of the store must not fail, since nobody repeats it
		time.Sleep(time.Millisecond)
	}
	f.SetCalm(false)

	var mu sync.Mutex
	var took Latencies
	order := map[batch.ServiceID][]batch.ID{}
	var adding, waiting sync.WaitGroup
	end := time.Now().Add(l.Duration)
	for lane := range l.Lanes {
		rng := rand.New(rand.NewPCG(f.seed, uint64(lane)))
		service := batch.ServiceID(fmt.Sprintf("s%03d", lane))
		adding.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				time.Sleep(time.Duration(rng.Int64N(int64(2 * l.MeanPause))))
				b := batch.Batch{ID: batch.ID(fmt.Sprintf("%s-%05d", service, i)), Service: service, Payload: []byte("x")}
				retryOnFault(t, func() error { return r.Add(ctx, b) })
				added := time.Now()
				mu.Lock()
				order[service] = append(order[service], b.ID)
				mu.Unlock()
				waiting.Go(func() {
					retryOnFault(t, func() error { _, err := r.Await(ctx, b.Key()); return err })
					mu.Lock()
					defer mu.Unlock()
					took = append(took, time.Since(added))
				})
			}
		})
	}
	adding.Wait()
	waiting.Wait()
	f.SetCalm(true)
	cancel()
	require.NoError(t, <-done)
	require.NoError(t, ledger.Verify(order))
	for service, ids := range order {
		require.Equal(t, ids, ledger.Log(service), "all, once and in order")
	}
	require.NotEmpty(t, took)
	slices.Sort(took)
	return took
}
