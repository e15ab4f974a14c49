package crash

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// TestKillWithAllFaults combines all faults: children are killed, one in ten of their statements
// fails, and their node is repeatedly restarted twice while a batch is under way. Every
// acknowledged batch is executed once, in order.
func TestKillWithAllFaults(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	node := sawtoothtest.Start(t, &sawtoothtest.Options{
		BlockInterval: 10 * time.Millisecond, CacheTime: 500 * time.Millisecond,
		Faults: &sawtoothtest.Faults{Seed: *crashSeed, ResetAfter: 0.05, Late: 0.05, MaxLateDelay: 100 * time.Millisecond},
	})
	few := (*killsPerWindow + 4) / 5
	batches, want := countingBatches(t, 5*few*5, laneCount, "")
	twice := 0
	restarts := func(ctx context.Context, st *sqlite.Store) {
		for rest := time.Duration(0); twice < 4*few; { // bounded, since each lost batch takes a second
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
			}
			if rest = 2 * time.Millisecond; node.PoolLen() == 0 {
				continue
			}
			key, ok := pendingBatch(ctx, st)
			if !ok {
				continue
			}
			node.Restart()
			select { // until the worker may have begun to ask about the batch, and to post it again
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
			if rec, err := st.Get(ctx, key); err == nil && !rec.Final() {
				node.Restart()
				twice++
			}
			rest = 300 * time.Millisecond
		}
	}
	suite := killChildren(t, childJob{Kind: "sawtooth", URL: node.URL(), FaultSeed: *crashSeed}, batches, few, restarts)

	t.Logf("%3d times the node was restarted twice while a batch was under way", twice)
	require.NotZero(t, twice)
	require.NoError(t, node.Check(want))
	suite.checkRecords(t)
}

// pendingBatch returns a batch that the ledger has taken, by what the store knows.
func pendingBatch(ctx context.Context, st *sqlite.Store) (batch.Key, bool) {
	open, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 100})
	i := slices.IndexFunc(open, func(r batch.Record) bool { return r.State == batch.Pending })
	if err != nil || i < 0 {
		return batch.Key{}, false
	}
	return open[i].Key, true
}

// retryOnFault repeats a call that the test has made fail, as a caller does after an error.
func retryOnFault(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, flaky.ErrBefore) && !errors.Is(err, flaky.ErrAfter) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
