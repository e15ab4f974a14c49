package main

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

// Each call of a store costs at most this many allocations for a batch, in groups of 500 from 500
// lanes. The figures include the driver's own allocations.
func TestAllocationsOfStores(t *testing.T) {
	const lanes = addGroup
	// Each half second a round also reads the beginning of the open work, and costs more. On a
	// busy machine each round takes longer, so that few rounds are without such a read.
	const warm, counted, most = 3, 5, 50
	dsn, drop, err := ownDatabase(t.Context(), pgtest.Start(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, drop()) }()
	// Reading a row costs one allocation for each number above 255. Schema version 2 added two
	// such numbers: the time of the batch's first claim, and the claim's own period. The beginning
	// of each row's lane costs another. An Add copies each id and payload, so that the claim does
	// not read them.
	postgres := map[string]float64{"add": 3.7, "claim": 22.4, "payloads": 8.4, "accepted": 14.9, "pending": 16.6, "committed": 15.9}
	for _, s := range []struct {
		store  string
		budget map[string]float64
	}{
		{storeNative, map[string]float64{"add": 3.7, "claim": 14.9, "payloads": 3.5, "accepted": 2.9, "pending": 3.5, "committed": 2.9}},
		{storePgx, postgres},
		{storePQ, postgres},
		{storeSQLite, map[string]float64{"add": 23.9, "claim": 36.9, "payloads": 10.6, "accepted": 28.8, "pending": 24.8, "committed": 30.8}},
	} {
		t.Run(s.store, func(t *testing.T) {
			ctx := t.Context()
			d, err := openDatabase(ctx, job{Contender: contenderOurs, Store: s.store, DSN: dsn, Dir: t.TempDir()})
			require.NoError(t, err)
			defer d.close()
			st, shut, err := d.openStore(ctx, true)
			require.NoError(t, err)
			defer shut()
			least := map[string]float64{}
			for part := range s.budget {
				least[part] = math.Inf(1)
			}
			within := func() bool {
				for part, n := range least {
					if n > s.budget[part] {
						return false
					}
				}
				return true
			}
			for round := 0; round < warm+counted || round < most && !within(); round++ {
				w := newWork(uint64(round), addGroup, lanes, payloadSize)
				for part, n := range storeRound(ctx, t, st, w) {
					if round >= warm {
						least[part] = min(least[part], n) // other goroutines may add allocations meanwhile
					}
				}
			}
			for part, n := range least {
				t.Logf("%s: %.2f a batch", part, n)
				assert.LessOrEqual(t, n, s.budget[part], "allocations a batch of %s", part)
			}
		})
	}
}

// storeRound takes batches through a store and returns the number of allocations of each call.
func storeRound(ctx context.Context, t *testing.T, st store.Store, w *work) map[string]float64 {
	allocs := map[string]float64{}
	part := func(name string, do func() error) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := do()
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		allocs[name] = float64(after.Mallocs-before.Mallocs) / float64(len(w.batches))
	}
	q := store.ClaimQuery{Limit: len(w.batches), Window: 1, TTL: time.Minute}
	for i := range w.lanes {
		q.Lanes = append(q.Lanes, laneName(i))
	}
	part("add", func() error { return st.Add(ctx, w.batches...) })
	var claimed store.Claimed
	part("claim", func() (err error) {
		claimed, err = st.Claim(ctx, q, queuer.Serial().Select)
		return err
	})
	var refs []store.Ref
	var outcomes []store.Outcome
	for _, r := range claimed.Runs {
		for _, c := range r.Batches {
			refs = append(refs, c.Ref)
			outcomes = append(outcomes, store.Outcome{Ref: c.Ref, Version: c.Version, Finding: store.Accepted, By: batch.BySubmitter})
		}
	}
	require.Len(t, refs, len(w.batches))
	record := func() error {
		applied, err := st.Record(ctx, outcomes)
		for _, a := range applied {
			require.Equal(t, store.Written, a.Result)
		}
		return err
	}
	part("payloads", func() error { _, err := st.Payloads(ctx, refs); return err })
	part("accepted", record)
	part("pending", func() error {
		due, err := st.Pending(ctx, store.PendingQuery{Limit: len(refs), Lease: time.Minute})
		require.Len(t, due, len(refs))
		return err
	})
	for i := range outcomes {
		outcomes[i].Version++
		outcomes[i].Finding, outcomes[i].By = store.IsCommitted, batch.ByMonitor
	}
	part("committed", record)
	return allocs
}
