package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// conflictFreeBatches returns n batches of one lane that share no address.
func conflictFreeBatches(service batch.ServiceID, n int) []batch.Batch {
	bs := make([]batch.Batch, n)
	for i := range bs {
		bs[i] = batch.Batch{ID: batch.ID(fmt.Sprintf("%s-%05d", service, i)), Service: service, Payload: []byte("x")}
		bs[i].Footprint.Writes = []string{fmt.Sprintf("%08x", i)}
	}
	return bs
}

// TestParallelFairness is promise 7 for a lane with thousands of batches that may all leave: at
// any time, another lane waits only for batches that were claimed before its own.
func TestParallelFairness(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		const latency = 10 * time.Millisecond
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: time.Second, Latency: latency})
		r, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Parallel(0)})
		require.NoError(t, err)
		require.NoError(t, r.Add(t.Context(), conflictFreeBatches("many", 3000)...))
		require.NoError(t, r.Add(t.Context(), conflictFreeBatches("early", 1)...))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		begin := time.Now()
		go func() { done <- r.Run(ctx) }()
		time.Sleep(200 * time.Millisecond) // the lane is at full speed by then
		late := time.Now()
		require.NoError(t, r.Add(t.Context(), conflictFreeBatches("late", 1)...))
		require.NoError(t, r.Idle(ctx))
		posted := map[batch.ServiceID]time.Time{}
		many := 0
		for _, e := range ledger.Journal() {
			if e.Kind == ledgermem.PostStart {
				posted[e.Key.Service] = e.At
				if e.Key.Service == "many" && e.At.Before(late) {
					many++
				}
			}
		}
		require.Greater(t, many, 500, "so many left before")
		require.True(t, posted["many"].After(late.Add(100*time.Millisecond)), "and there were more to leave")
		require.LessOrEqual(t, posted["early"].Sub(begin), 2*latency, "the first round holds a POST for each hand")
		require.LessOrEqual(t, posted["late"].Sub(late), 100*time.Millisecond+2*latency, "no more is claimed ahead than 100 ms of POSTs")
		cancel()
		require.NoError(t, <-done)
	})
}

// TestHangingParallelLaneDelaysNoOtherLane is the second part of promise 7: if a quick lane begins
// to hang, the batches that were claimed from it take no other lane's place.
func TestHangingParallelLaneDelaysNoOtherLane(t *testing.T) {
	tier.Plain(t)
	for name, scope := range pressureScopes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkParallelLaneHangs(t, scope) })
		})
	}
}

var pressureScopes = map[string]dlt.PressureScope{"service": dlt.ScopeService, "endpoint": dlt.ScopeEndpoint}

func checkParallelLaneHangs(t *testing.T, scope dlt.PressureScope) {
	var hangs atomic.Bool
	traits := ledgermem.Unforgiving(time.Second)
	traits.PressureScope = scope
	ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Latency: 10 * time.Millisecond, Fault: func(a batch.Attempt) ledgermem.Fault {
		if a.Service == "deep" && hangs.Load() {
			return ledgermem.Fault{Kind: ledgermem.Hang}
		}
		return ledgermem.Fault{}
	}})
	r, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Parallel(0)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	require.NoError(t, r.Add(ctx, conflictFreeBatches("deep", 5000)...))
	time.Sleep(500 * time.Millisecond)
	hangs.Store(true)
	for i := range 20 {
		b := conflictFreeBatches(batch.ServiceID(fmt.Sprintf("good%02d", i)), 1)[0]
		start := time.Now()
		require.NoError(t, r.Add(ctx, b))
		rec, err := r.Await(ctx, b.Key())
		require.NoError(t, err)
		require.Equal(t, batch.Committed, rec.State)
		most := 200 * time.Millisecond
		if i == 0 {
			most = 2 * time.Second // the Runner does not know at once that the lane hangs
		}
		require.Less(t, time.Since(start), most, "%d", i)
		time.Sleep(3 * time.Second)
	}
	cancel()
	require.NoError(t, <-done)
}
