package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// Under synctest the store uses the bubble's time, which stands still while anything runs. Order
// keys differ nevertheless, and a claim expires exactly at its end.
func TestBubbleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		start := time.Now()
		for _, id := range []batch.ID{"c", "b", "a"} {
			require.NoError(t, s.Add(t.Context(), batch.Batch{ID: id, Payload: []byte("p")}))
		}
		rs, _, err := s.List(t.Context(), store.ListQuery{})
		require.NoError(t, err)
		require.Len(t, rs, 3)
		for i, id := range []batch.ID{"c", "b", "a"} {
			assert.Equal(t, id, rs[i].ID)
			assert.True(t, rs[i].CreatedAt.Equal(start.Add(time.Duration(i)*time.Microsecond)), "%s", rs[i].CreatedAt)
		}
		_, err = s.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{""}, Limit: 1, Window: 1, TTL: time.Minute},
			func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(t, err)
		for _, c := range []struct {
			waitTime time.Duration
			dueCount int
		}{{time.Minute - time.Microsecond, 0}, {time.Microsecond, 1}} {
			<-time.After(c.waitTime)
			dueCount, err := s.Pending(t.Context(), store.PendingQuery{Limit: 9, Lease: time.Minute})
			require.NoError(t, err)
			assert.Len(t, dueCount, c.dueCount)
		}
	})
}
