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
	n := must(f.st.Prune(f.ctx, q))(f)
	return n.Batches + n.Orders
}

func pruneFinal(f *fixture) {
	party, is := f.oneOfEach()
	assert.Zero(f, f.prune(store.PruneQuery{OlderThan: f.u(0.5)}))
	f.pass(1)
	assert.Equal(f, 5, f.prune(store.PruneQuery{OlderThan: f.u(0.5)}), "two batches and three orders")
	assert.ElementsMatch(f, []order.ID{is[order.Dequeued], is[order.Queued]}, recordIDs(f.list(party)))
	f.pass(9)
	assert.Zero(f, f.prune(store.PruneQuery{}))
	f.end(bt(party, "open"), store.IsCommitted)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	assert.Equal(f, []order.ID{is[order.Queued]}, queuedIDs(f.next(party, 9)))
}

func pruneLimit(f *fixture) {
	f.add(many("p", "o", 250)...)
	rs := refs(f.next("p", 250))
	for _, part := range [][]order.Ref{rs[200:], rs[:200]} {
		must(f.st.FailOrders(f.ctx, verdicts(part, order.Verdict{State: order.Failed})))(f)
		f.pass(1)
	}
	assert.Equal(f, 10, f.prune(store.PruneQuery{Limit: 10}))
	assert.Equal(f, 40, f.prune(store.PruneQuery{Limit: 300, OlderThan: f.u(1.5)}))
	assert.Equal(f, refIDs(rs[:200]), recordIDs(f.list("p")))
	assert.Equal(f, 200, f.prune(store.PruneQuery{}))
}

func pruneUnsettled(f *fixture) {
	f.add(many("p", "o", 2)...)
	b, _ := f.prepare("p", "b", 1)
	f.end(b, store.IsCommitted)
	require.NoError(f, f.st.Add(f.ctx, bt("p", "plain")))
	f.end(bt("p", "plain"), store.IsCommitted)
	f.pass(9)
	assert.Equal(f, 1, f.prune(store.PruneQuery{Limit: 1}), "the one behind it")
	assert.Zero(f, f.prune(store.PruneQuery{}))
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	assert.Equal(f, 2, f.prune(store.PruneQuery{}))
	assert.Len(f, f.list("p"), 1)
}

func pruneForgets(f *fixture) {
	o := ord("p", "a")
	o.Key = "k"
	f.add(o)
	must(f.st.FailOrders(f.ctx, verdicts(refs(f.next("p", 1)), order.Verdict{State: order.Failed})))(f)
	f.pass(1)
	require.Equal(f, 1, f.prune(store.PruneQuery{}))
	_, missing := must2(f.st.FinalOrders(f.ctx, []order.ID{"a"}))(f)
	assert.Equal(f, []order.ID{"a"}, missing)
	o.Payload = []byte("other")
	f.add(o)
	assert.Equal(f, []byte("other"), f.next("p", 1)[0].Payload)
}
