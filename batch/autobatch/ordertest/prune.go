package ordertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func pruneTests() []test {
	return []test{
		{name: "final orders that are old enough, and nothing that is open", run: pruneFinal},
		{name: "oldest first, up to the limit", run: pruneLimit},
		{name: "never a batch whose orders are not settled", run: pruneUnsettled},
		{name: "what is gone is new again", run: pruneForgets},
	}
}

func (f *fixture) prune(q store.PruneQuery) int {
	f.Helper()
	n := must(f.store.Prune(f.ctx, q))(f)
	return n.Batches + n.Orders
}

func pruneFinal(f *fixture) {
	party, is := f.oneOfEach()
	assert.Zero(f, f.prune(store.PruneQuery{OlderThan: f.units(0.5)}))
	f.passUnits(1)
	assert.Equal(f, 5, f.prune(store.PruneQuery{OlderThan: f.units(0.5)}), "two batches and three orders")
	assert.ElementsMatch(f, []order.ID{is[order.Dequeued], is[order.Queued]}, recordIDs(f.list(party)))
	f.passUnits(9)
	assert.Zero(f, f.prune(store.PruneQuery{}))
	f.finish(newBatch(party, "open"), store.IsCommitted)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	assert.Equal(f, []order.ID{is[order.Queued]}, queuedIDs(f.nextOrders(party, 9)))
}

func pruneLimit(f *fixture) {
	f.add(newOrders("p", "o", 250)...)
	rs := refsOf(f.nextOrders("p", 250))
	for _, part := range [][]order.Ref{rs[200:], rs[:200]} {
		must(f.store.FailOrders(f.ctx, verdictsOn(part, order.Verdict{State: order.Failed})))(f)
		f.passUnits(1)
	}
	assert.Equal(f, 10, f.prune(store.PruneQuery{Limit: 10}))
	assert.Equal(f, 40, f.prune(store.PruneQuery{Limit: 300, OlderThan: f.units(1.5)}))
	assert.Equal(f, refIDs(rs[:200]), recordIDs(f.list("p")))
	assert.Equal(f, 200, f.prune(store.PruneQuery{}))
}

func pruneUnsettled(f *fixture) {
	f.add(newOrders("p", "o", 2)...)
	b, _ := f.prepare("p", "b", 1)
	f.finish(b, store.IsCommitted)
	require.NoError(f, f.store.Add(f.ctx, newBatch("p", "plain")))
	f.finish(newBatch("p", "plain"), store.IsCommitted)
	f.passUnits(9)
	assert.Equal(f, 1, f.prune(store.PruneQuery{Limit: 1}), "the one behind it")
	assert.Zero(f, f.prune(store.PruneQuery{}))
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	assert.Equal(f, 2, f.prune(store.PruneQuery{}))
	assert.Len(f, f.list("p"), 1)
}

func pruneForgets(f *fixture) {
	o := newOrder("p", "a")
	o.Key = "k"
	f.add(o)
	must(f.store.FailOrders(f.ctx, verdictsOn(refsOf(f.nextOrders("p", 1)), order.Verdict{State: order.Failed})))(f)
	f.passUnits(1)
	require.Equal(f, 1, f.prune(store.PruneQuery{}))
	_, missing := must2(f.store.FinalOrders(f.ctx, []order.ID{"a"}))(f)
	assert.Equal(f, []order.ID{"a"}, missing)
	o.Payload = []byte("other")
	f.add(o)
	assert.Equal(f, []byte("other"), f.nextOrders("p", 1)[0].Payload)
}
