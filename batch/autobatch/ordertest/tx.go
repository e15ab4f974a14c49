package ordertest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

func storeNext(n int) order.NextQuery { return order.NextQuery{Max: n} }

func noTx(h Harness) bool { return h.NoTx }

func txTests() []test {
	return []test{
		{name: "stored with the commit, and gone with a rollback", run: txEnds, exempt: noTx},
		{name: "an error leaves nothing, and the transaction goes on", run: txError, exempt: noTx},
		{name: "an open one holds up nobody", run: txOpen, exempt: func(h Harness) bool { return h.NoTx || h.OneWriter }},
		{name: "an open one holds up writers", run: txWaits, exempt: func(h Harness) bool { return !h.OneWriter }},
	}
}

func txEnds(f *fixture) {
	_, rollback := must2(f.harness.AddOrdersTx(f.ctx, newOrders("p", "no", 3)...))(f)
	require.NoError(f, rollback())
	commit, _ := must2(f.harness.AddOrdersTx(f.ctx, newOrders("p", "yes", 3)...))(f)
	require.NoError(f, commit())
	assert.Equal(f, orderIDs(newOrders("p", "yes", 3)), queuedIDs(f.nextOrders("p", 9)))
}

func txError(f *fixture) {
	f.add(newOrder("p", "a"))
	bad := newOrder("p", "a")
	bad.Payload = []byte("other")
	_, _, err := f.harness.AddOrdersTx(f.ctx, newOrder("p", "new"), bad)
	require.ErrorIs(f, err, batch.ErrConflict)
	assert.Equal(f, []order.ID{"a"}, recordIDs(f.list("p")))
}

func txOpen(f *fixture) {
	commit, _ := must2(f.harness.AddOrdersTx(f.ctx, newOrder("p", "z early")))(f)
	f.add(newOrder("p", "a late"))
	assert.Equal(f, []order.ID{"a late"}, queuedIDs(f.nextOrders("p", 9)))
	f.prepare("p", "b", 9)
	require.NoError(f, commit())
	assert.Equal(f, []order.ID{"z early"}, queuedIDs(f.nextOrders("p", 9)), "it is not lost behind what went ahead")
}

func txWaits(f *fixture) {
	commit, _ := must2(f.harness.AddOrdersTx(f.ctx, newOrder("p", "a")))(f)
	ctx, cancel := context.WithTimeout(f.ctx, 50*time.Millisecond)
	defer cancel()
	require.Error(f, f.store.AddOrders(ctx, newOrder("p", "b")), "AddOrders got through while a transaction was open: the store has more than one writer")
	require.NoError(f, commit())
	f.add(newOrder("p", "c"))
	assert.Equal(f, []order.ID{"a", "c"}, queuedIDs(f.nextOrders("p", 9)))
}
