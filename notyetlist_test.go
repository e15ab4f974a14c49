package dltbatch_test

import (
	"context"
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
	"github.com/dltbatch/dltbatch/store/memory"
)

// The ledger cannot take one batch of a list yet. The batches before it are sent.
func TestANotYetInAListHoldsNothingBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.MaxList = 5
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: time.Second})
		wrapped := hooked.Wrap(ledger, hooked.Hooks{
			SubmitList: func(ctx context.Context, list []batch.Attempt, next func(context.Context, []batch.Attempt) error) error {
				for _, a := range list {
					if a.ID == "b" {
						return &dlt.Error{Op: "submit", Kind: dlt.ErrNotYet, Message: "b lacks funds"}
					}
				}
				return next(ctx, list)
			},
			Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
				if a.ID == "b" {
					return &dlt.Error{Op: "submit", Kind: dlt.ErrNotYet, Message: "b lacks funds"}
				}
				return next(ctx, a)
			},
		})
		seen := &eventRecorder{}
		r := newRunner(t, memory.New(), wrapped, &dltbatch.Options{Strategy: queuer.Pipelined(20), Observer: seen})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a"), newBatch("s", "b")))
		keepRunning(t, r)
		time.Sleep(3 * time.Hour)
		rec, err := r.Get(t.Context(), newBatch("s", "a").Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
		for _, e := range seen.ofKind(batch.EventDecision) {
			assert.Equal(t, batch.ID("b"), e.Key.ID, "%v", e.Err)
		}
	})
}
