package ordertest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func prepareTests() []test {
	return []test{
		{name: "the batch is stored, and the orders are part of it", run: prepareStores},
		{name: "once for a party", run: prepareOnce},
		{name: "not when an order has moved on", run: prepareMoved},
		{name: "not when an order is past its deadline", run: prepareLate},
		{name: "again is done, whatever became of it", run: prepareAgain},
		{name: "an id that is known otherwise is a conflict", run: prepareConflict},
		{name: "an order of another party, whatever its state", run: prepareOthers},
		{name: "what cannot be", run: prepareInvalid},
	}
}

// refuse checks that nothing is stored of a batch that PrepareBatch refuses.
func (f *fixture) refuse(b batch.Batch, rs []order.Ref) {
	f.Helper()
	was := f.list(b.Service)
	done, err := f.store.PrepareBatch(f.ctx, b, rs)
	require.NoError(f, err)
	require.False(f, done)
	_, err = f.store.Get(f.ctx, b.Key())
	require.ErrorIs(f, err, batch.ErrNotFound)
	assert.Equal(f, was, f.list(b.Service))
}

func prepareStores(f *fixture) {
	os := newOrders("p", "o", 4)
	f.add(os...)
	b := newBatch("p", "b")
	b.DataChangeID, b.Budget = "change", batch.Budget{Attempts: 3, EveryTry: true}
	b.Transactions = []batch.Transaction{{ID: "t"}}
	rs := refsOf(f.nextOrders("p", 3))
	rs[0], rs[2] = rs[2], rs[0]
	require.True(f, must(f.store.PrepareBatch(f.ctx, b, rs))(f))
	r := must(f.store.Get(f.ctx, b.Key()))(f)
	assert.Equal(f, batch.Queued, r.State)
	assert.Equal(f, b.Budget, r.Budget)
	assert.Equal(f, "change", r.DataChangeID)
	for i, o := range f.list("p") {
		if i == 3 {
			assert.Equal(f, order.Queued, o.State)
			continue
		}
		assert.Equal(f, order.Dequeued, o.State)
		assert.Equal(f, b.ID, o.Batch)
		assert.Equal(f, 1, o.Batches)
		assert.Equal(f, int64(2), o.Version)
		assert.Zero(f, o.FinalAt)
	}
	assert.Equal(f, []order.ID{os[3].ID}, queuedIDs(f.nextOrders("p", 9)))
	assert.Equal(f, []batch.ServiceID{"p"}, must(f.store.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 9}))(f), "as Add stores it")
	assert.Empty(f, must(f.store.SettleableBatches(f.ctx, 9))(f), "it is not final")
	f.finish(b, store.IsCommitted)
	got := f.settleable()
	assert.Equal(f, refIDs(rs), refIDs(got.Orders), "in the order in which it was built")
}

func prepareOnce(f *fixture) {
	f.add(newOrders("p", "o", 4)...)
	f.add(newOrder("q", "x"))
	b, _ := f.prepare("p", "b", 2)
	f.refuse(newBatch("p", "c"), refsOf(f.nextOrders("p", 2)))
	f.prepare("q", "d", 1)
	f.finish(b, store.IsCommitted)
	f.refuse(newBatch("p", "c"), refsOf(f.nextOrders("p", 2)))
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	f.prepare("p", "c", 2)
}

func prepareMoved(f *fixture) {
	f.add(newOrders("p", "o", 4)...)
	rs := refsOf(f.nextOrders("p", 3))
	require.Equal(f, []bool{true}, must(f.store.FailOrders(f.ctx, verdictsOn(rs[1:2], order.Verdict{State: order.Failed})))(f))
	f.refuse(newBatch("p", "b"), rs)
	f.refuse(newBatch("p", "b"), []order.Ref{rs[0], {ID: "none", Version: 1}})
	f.refuse(newBatch("p", "b"), []order.Ref{rs[0], {ID: "nul\x00", Version: 1}})
	f.refuse(newBatch("p", "b"), []order.Ref{{ID: rs[0].ID, Version: 2}})
	f.prepare("p", "b", 9)
}

func prepareLate(f *fixture) {
	os := newOrders("p", "o", 2)
	os[1].Deadline = f.now().Add(f.units(0.5))
	f.add(os...)
	rs := refsOf(f.nextOrders("p", 9))
	require.Len(f, rs, 2)
	f.passUnits(1)
	f.refuse(newBatch("p", "b"), rs)
}

func prepareAgain(f *fixture) {
	f.add(newOrders("p", "o", 4)...)
	b, rs := f.prepare("p", "b", 2)
	again := func() {
		f.Helper()
		was := f.list("p")
		require.True(f, must(f.store.PrepareBatch(f.ctx, b, rs))(f))
		assert.Equal(f, was, f.list("p"))
	}
	again()
	f.finish(b, store.Refused)
	again()
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Queued})))
	again()
}

func prepareConflict(f *fixture) {
	f.add(newOrders("p", "o", 4)...)
	rs := refsOf(f.nextOrders("p", 2))
	plain, keyed := newBatch("p", "plain"), newBatch("p", "keyed")
	keyed.DataChangeID = "change"
	require.NoError(f, f.store.Add(f.ctx, plain, keyed))
	was := f.list("p")
	other, twin, changed := newBatch("p", "plain"), newBatch("p", "twin"), newBatch("p", "changed")
	other.Payload = []byte("other")
	twin.DataChangeID, twin.Payload, changed.DataChangeID = "change", keyed.Payload, "change"
	for name, b := range map[string]batch.Batch{"without orders": plain, "other bytes": other, "a key's": twin, "a key's, other bytes": changed} {
		_, err := f.store.PrepareBatch(f.ctx, b, rs)
		require.ErrorIs(f, err, batch.ErrConflict, name)
	}
	assert.Equal(f, was, f.list("p"))

	f.finish(plain, store.IsCommitted)
	f.finish(keyed, store.IsCommitted)
	b, _ := f.prepare("p", "b", 2)
	_, err := f.store.PrepareBatch(f.ctx, b, refsOf(f.nextOrders("p", 2)))
	require.ErrorIs(f, err, batch.ErrConflict, "other orders")
	f.finish(b, store.Refused)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Queued})))
	_, err = f.store.PrepareBatch(f.ctx, b, refsOf(f.nextOrders("p", 2)))
	require.ErrorIs(f, err, batch.ErrConflict, "the same orders as they are now: that would be another batch")
}

func prepareInvalid(f *fixture) {
	f.add(newOrder("p", "a"), newOrder("q", "b"))
	a := order.Ref{ID: "a", Version: 1}
	for name, c := range map[string]struct {
		b  batch.Batch
		rs []order.Ref
	}{
		"no orders":     {newBatch("p", "x"), nil},
		"twice":         {newBatch("p", "x"), []order.Ref{a, a}},
		"other party":   {newBatch("p", "x"), []order.Ref{a, {ID: "b", Version: 1}}},
		"other service": {newBatch("q", "x"), []order.Ref{a}},
		"bad batch":     {newBatch("p", batch.ID(strings.Repeat("x", 300))), []order.Ref{a}},
	} {
		_, err := f.store.PrepareBatch(f.ctx, c.b, c.rs)
		require.ErrorIs(f, err, batch.ErrInvalidInput, name)
	}
	_, err := f.store.Get(f.ctx, newBatch("p", "x").Key())
	require.ErrorIs(f, err, batch.ErrNotFound)
	assert.Len(f, f.parties(), 2)
}

func prepareOthers(f *fixture) {
	f.add(newOrders("q", "o", 2)...)
	b, rs := f.prepare("q", "b", 2)
	f.finish(b, store.IsCommitted)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	done, err := f.store.PrepareBatch(f.ctx, newBatch("p", "c"), rs)
	require.False(f, done)
	var input *batch.InputError
	require.ErrorAs(f, err, &input)
	_, err = f.store.Get(f.ctx, newBatch("p", "c").Key())
	require.ErrorIs(f, err, batch.ErrNotFound)
}
