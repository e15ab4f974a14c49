package dltbatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A Run shows in the store what it saw of batches: how many became final, and three separate
// latencies. The store keeps the latest periods, and removes older ones.
func TestFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 5 * time.Second, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Latency: 2 * time.Second}
		}})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Instance: "i"})
		b := newBatch("s", "first")
		require.NoError(t, r.Add(ctx, b))
		time.Sleep(4 * time.Second)
		keepRunning(t, r)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		cancelled := newBatch("s", "cancelled")
		_, err := r.Pause(ctx, batch.Only("s"), batch.By{Actor: "ada", Reason: "r"})
		require.NoError(t, err)
		require.NoError(t, r.Add(ctx, cancelled))
		rec, err := r.Get(ctx, cancelled.Key())
		require.NoError(t, err)
		_, err = r.Cancel(ctx, rec, batch.By{Actor: "ada", Reason: "r"})
		require.NoError(t, err)
		time.Sleep(time.Minute)

		flows := statsOf(t, r).Instances[0].Flows
		require.NotEmpty(t, flows)
		var all store.Flow
		for _, f := range flows {
			assert.InDelta(t, 15, f.Took.Seconds(), 1.5)
			all.Final += f.Final
			all.Queue, all.Flight, all.Finality = all.Queue.With(f.Queue), all.Flight.With(f.Flight), all.Finality.With(f.Finality)
		}
		assert.Equal(t, 2, all.Final, "the cancelled one, too")
		assert.Equal(t, 1, all.Queue.N)
		assert.InDelta(t, 4, all.Queue.Mean().Seconds(), 0.5)
		assert.Equal(t, 1, all.Flight.N)
		assert.InDelta(t, 2, all.Flight.Mean().Seconds(), 0.5)
		assert.Equal(t, 1, all.Finality.N)
		assert.Greater(t, all.Finality.Mean(), 2*time.Second)
		assert.Less(t, all.Finality.Max, 10*time.Second)

		time.Sleep(10 * time.Minute)
		i := statsOf(t, r).Instances[0]
		require.Len(t, i.Flows, store.MaxFlows)
		for n, f := range i.Flows {
			assert.Zero(t, f.Final, "it is long ago")
			assert.InDelta(t, float64(15*(store.MaxFlows-1-n)), f.Ago.Seconds(), 20, fmt.Sprint(n))
		}
	})
}

// An instance that posts nothing shows the reason.
func TestInstanceShowsWhyItIsPaused(t *testing.T) {
	for kind, fault := range map[batch.ErrorKind]ledgermem.FaultKind{
		batch.KindBusy: ledgermem.Busy, batch.KindUnavailable: ledgermem.Unavailable, batch.KindMisconfigured: ledgermem.Misconfigured,
	} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := ledgermem.Unforgiving(0)
				tr.PressureScope = dlt.ScopeEndpoint
				ledger := ledgermem.New(&ledgermem.Options{Traits: &tr, Fault: func(batch.Attempt) ledgermem.Fault { return ledgermem.Fault{Kind: fault} }})
				r := newStartedRunner(t, memory.New(), ledger, &dltbatch.Options{Instance: "i"})
				require.NoError(t, r.Add(t.Context(), newBatch("s", "b")))
				var i store.Instance
				for range 1000 {
					if time.Sleep(time.Second); len(statsOf(t, r).Instances) > 0 {
						if i = statsOf(t, r).Instances[0]; i.Paused {
							break
						}
					}
				}
				require.True(t, i.Paused)
				require.Len(t, i.Pauses, 1)
				p := i.Pauses[0]
				assert.True(t, p.All)
				assert.Equal(t, kind, p.Kind)
				assert.Equal(t, kind == batch.KindBusy, p.Why == "", p.Why)
			})
		})
	}
}
