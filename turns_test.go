package dltbatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/store/memory"
)

// Several services need status queries, and only one query may be in flight. The services take
// turns, and do not ask in a tight loop, however soon each query is due again.
func TestQuestionsTakeTurnsAtOneHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		ledger := hooked.Wrap(ledgermem.New(&ledgermem.Options{CommitAfter: time.Second}), hooked.Hooks{
			BatchStatuses: func(ctx context.Context, s batch.ServiceID, all []batch.Attempt, next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error)) ([]batch.Status, error) {
				if asked.Add(1) > 8000 {
					time.Sleep(time.Second) // lets virtual time go on if queries are in a tight loop
				}
				return next(ctx, s, all)
			},
		})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{FirstPoll: time.Millisecond, Pool: 1, StatusConnections: 1})
		for _, s := range []batch.ServiceID{"a", "b", "c", "d"} {
			require.NoError(t, r.Add(t.Context(), newBatch(s, batch.ID(s))))
		}
		stop := startRun(t, r)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		require.NoError(t, r.Idle(ctx))
		require.NoError(t, stop())
		assert.Less(t, asked.Load(), int64(8000), "questions, where each batch is open for a second or two")
	})
}
