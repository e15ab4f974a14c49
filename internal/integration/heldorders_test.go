package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// orderDeliverer delivers orders of one party through a store, in batches of one size.
type orderDeliverer struct {
	*deliverer
	ordersPerBatch int
	orderCount     int
	batchCount     int
}

// deliverBatch brings the orders of one batch to their end, and returns the buffers that each call
// reads.
func (o *orderDeliverer) deliverBatch() (buffers map[string]int64) {
	o.t.Helper()
	const party = "party"
	buffers = map[string]int64{}
	take := func(name string, call func()) { buffers[name] = o.buffersOf(call) }
	os := make([]order.Order, o.ordersPerBatch)
	for i := range os {
		o.orderCount++
		os[i] = order.Order{Party: party, ID: order.ID(fmt.Sprintf("o%08d", o.orderCount)), Priority: o.orderCount % 3, Payload: []byte("order")}
	}
	take("AddOrders", func() { require.NoError(o.t, o.st.AddOrders(o.ctx, os...)) })
	take("Parties", func() {
		loads, err := o.st.Parties(o.ctx, order.PartiesQuery{Start: true, Limit: 10, Cap: o.ordersPerBatch})
		require.NoError(o.t, err)
		require.Len(o.t, loads, 1)
	})
	var refs []order.Ref
	take("NextOrders", func() {
		next, err := o.st.NextOrders(o.ctx, party, order.NextQuery{Max: o.ordersPerBatch})
		require.NoError(o.t, err)
		require.Len(o.t, next, o.ordersPerBatch)
		for _, q := range next {
			refs = append(refs, order.Ref{ID: q.ID, Version: q.Version})
		}
	})
	o.batchCount++
	b := batch.Batch{ID: batch.ID(fmt.Sprintf("%064x", o.batchCount)), Service: party, Payload: []byte("payload")}
	take("PrepareBatch", func() {
		done, err := o.st.PrepareBatch(o.ctx, b, refs)
		require.NoError(o.t, err)
		require.True(o.t, done)
	})
	claims := o.claim(1)
	o.record(claims, batch.BySubmitter, store.Accepted)
	o.record(claims, batch.ByMonitor, store.IsCommitted)
	s := order.Settlement{Batch: b.Key()}
	take("SettleableBatches", func() {
		found, err := o.st.SettleableBatches(o.ctx, 10)
		require.NoError(o.t, err)
		require.Len(o.t, found, 1)
		s.Version = found[0].Record.Version
		for _, r := range found[0].Orders {
			s.Orders = append(s.Orders, order.Verdict{Ref: r, State: order.Confirmed})
		}
	})
	take("SettleOrders", func() {
		done, err := o.st.SettleOrders(o.ctx, []order.Settlement{s})
		require.NoError(o.t, err)
		require.Equal(o.t, []bool{true}, done)
	})
	return buffers
}

// The store remembers no position for orders, so each read of a party's orders also reads the
// party's orders that were finished since the snapshot was taken. This cost stays proportional,
// and only calls that read parties have it.
func TestOrdersUnderAHeldSnapshot(t *testing.T) {
	t.Parallel()
	o := &orderDeliverer{deliverer: &deliverer{bufferCounter: newBufferCounter(t), ctx: t.Context(), lanes: []batch.ServiceID{"party"}}, ordersPerBatch: 50}
	for range 4 {
		o.deliverBatch()
	}
	o.vacuum()
	without := o.deliverBatch()
	o.vacuum()
	end := o.holdSnapshot()
	defer end()
	const turns = 40
	for range turns {
		o.deliverBatch()
	}
	held := o.deliverBatch()
	dead := int64(turns * o.ordersPerBatch)
	for name, n := range held {
		most := 2*without[name] + maxMoreBuffers + deadOrder[name]*dead
		t.Logf("%-18s %6d buffers, %6d held, %.2f more a dead order", name, without[name], n, float64(n-without[name])/float64(dead))
		assert.LessOrEqual(t, n, most, name)
	}
}

// deadOrder is the largest number of buffers that a call reads for each dead order of the party.
// Other calls read none.
var deadOrder = map[string]int64{"Parties": 1, "NextOrders": 1}
