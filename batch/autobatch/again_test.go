package autobatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// Retention removes an order and its batch, and the batch's tombstone stays. An order that is
// added again is a new order. It must not wait for ever because its builder derives the id of the
// removed batch again.
func TestOrdersAddedAgainAfterRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var troubles []error
		r := newEngineTest(t, orderBuilder{}, &autobatch.Options{Observer: func(e autobatch.OrderEvent) {
			if e.Err != nil {
				troubles = append(troubles, e.Err)
			}
		}}, nil)
		defer r.stopAndWait()
		var want []order.ID
		for range 4 {
			require.NoError(t, r.engine.Add(t.Context(), order.Order{ID: "a", Party: "p", Payload: []byte(payPayload)}, order.Order{ID: "b", Party: "p", Payload: []byte(payPayload)}))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			for _, id := range []order.ID{"a", "b"} {
				rec, err := r.engine.Await(ctx, id)
				require.NoError(t, err)
				require.Equal(t, order.Confirmed, rec.State)
				want = append(want, id)
			}
			cancel()
			p, err := r.st.Prune(t.Context(), store.PruneQuery{Tombstone: func(batch.ServiceID, string) bool { return true }})
			require.NoError(t, err)
			require.Equal(t, store.Pruned{Batches: 1, Orders: 2}, p)
		}
		assert.Equal(t, want, r.books.executedOrders("p"))
		assert.NoError(t, r.books.check())
		assert.Empty(t, troubles)
	})
}

// A builder that gives all its batches the same id is reported, and is not called without end.
func TestKnownIDWithoutRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls int
		var conflicts int
		r := newEngineTest(t, order.BuilderFunc(func(_ context.Context, party batch.ServiceID, _ []order.Order) (batch.Batch, error) {
			calls++
			return batch.Batch{ID: "one", Service: party, Payload: []byte(`pay ["a"]`)}, nil
		}), &autobatch.Options{Observer: func(e autobatch.OrderEvent) {
			assert.ErrorIs(t, e.Err, batch.ErrConflict)
			conflicts++
		}}, nil)
		require.NoError(t, r.st.Add(t.Context(), batch.Batch{ID: "one", Service: "p", Payload: []byte("pay []")}))
		require.NoError(t, r.engine.Add(t.Context(), order.Order{ID: "a", Party: "p", Payload: []byte(payPayload)}))
		time.Sleep(time.Minute)
		r.stopAndWait()
		assert.Positive(t, conflicts)
		assert.Equal(t, calls, conflicts)
	})
}
