package ordertest

import (
	"time"

	"bytes"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func nextTests() []test {
	return []test{
		{name: "higher priority first, then by age", run: nextOrder},
		{name: "up to so many, and so many bytes, and one at least", run: nextBounds},
		{name: "the first split group, all of it and alone", run: nextSplit},
		{name: "what is past its deadline is left out", run: nextDeadline},
		{name: "nothing of another party", run: nextOther},
	}
}

func nextOrder(f *fixture) {
	os := newOrders("p", "o", 9)
	for i := range os {
		os[i].Priority = []int{0, 5, -5}[i%3]
	}
	f.add(os...)
	var want []order.ID
	for _, first := range []int{1, 0, 2} {
		want = append(want, os[first].ID, os[first+3].ID, os[first+6].ID)
	}
	assert.Equal(f, want, queuedIDs(f.nextOrders("p", 9)))
	assert.Equal(f, want[:4], queuedIDs(f.nextOrders("p", 4)))
	assert.Equal(f, want[:1], queuedIDs(f.nextOrders("p", 0)), "one at least")
}

func nextBounds(f *fixture) {
	os := newOrders("p", "o", 6)
	for i := range os {
		os[i].Payload = bytes.Repeat([]byte("x"), []int{10, 20, 30, 5, 5, 5}[i])
	}
	f.add(os...)
	for _, c := range []struct{ limit, size, want int }{
		{9, 0, 6}, {9, 75, 6}, {9, 74, 5}, {9, 59, 2}, {9, 60, 3}, {9, 1, 1}, {2, 60, 2}, {6, 1000, 6},
	} {
		got := must(f.store.NextOrders(f.ctx, "p", order.NextQuery{Max: c.limit, MaxBytes: c.size}))(f)
		assert.Equal(f, orderIDs(os)[:c.want], queuedIDs(got), "%+v: and none is passed over", c)
	}
}

func nextSplit(f *fixture) {
	os := newOrders("p", "o", 6)
	os[5].Priority = 9
	f.add(os...)
	group := func(g string, is ...int) {
		var vs []order.Verdict
		for _, i := range is {
			r := f.record("p", os[i].ID)
			vs = append(vs, order.Verdict{Ref: order.Ref{ID: r.ID, Version: r.Version}, State: order.Queued, Group: g})
		}
		require.True(f, must(f.store.SplitOrders(f.ctx, vs))(f))
	}
	group("a", 3, 4)
	group("b", 1, 2)
	got := must(f.store.NextOrders(f.ctx, "p", order.NextQuery{Max: 1, MaxBytes: 1}))(f)
	assert.Equal(f, []order.ID{os[1].ID, os[2].ID}, queuedIDs(got), "the first is that of the first order, whatever its name")
	assert.Equal(f, "b", got[0].Group)
	assert.Equal(f, int64(2), got[0].Version)
	f.prepare("p", "x", 9)
	f.finish(newBatch("p", "x"), store.IsCommitted)
	b := f.settleable()
	assert.Equal(f, "b", b.Group)
	require.True(f, f.settle(settlement(b, order.Verdict{State: order.Confirmed})))
	assert.Equal(f, []order.ID{os[3].ID, os[4].ID}, queuedIDs(f.nextOrders("p", 9)))
	group("", 3, 4)
	assert.Equal(f, []order.ID{os[5].ID, os[0].ID, os[3].ID, os[4].ID}, queuedIDs(f.nextOrders("p", 9)), "and without a group they are in their old places")
}

func nextDeadline(f *fixture) {
	first := newOrder("p", "the first that there is")
	first.Deadline = time.Unix(0, 1000)
	f.add(first)
	assert.Empty(f, f.nextOrders("p", 9))
	os := newOrders("p", "o", 4)
	os[0].Deadline, os[1].Deadline, os[2].Deadline = f.now().Add(f.units(0.5)), f.now().Add(f.units(1.5)), f.now().Add(-f.units(3))
	f.add(os...)
	assert.Equal(f, []order.ID{os[0].ID, os[1].ID, os[3].ID}, queuedIDs(f.nextOrders("p", 9)))
	f.passUnits(1)
	assert.Equal(f, []order.ID{os[1].ID, os[3].ID}, queuedIDs(f.nextOrders("p", 9)))
	assert.Equal(f, []order.ID{os[1].ID}, queuedIDs(f.nextOrders("p", 1)), "they take nobody's place")
}

func nextOther(f *fixture) {
	f.add(newOrder("p", "a"), newOrder("p2", "b"), newOrder("", "c"))
	assert.Equal(f, []order.ID{"a"}, queuedIDs(f.nextOrders("p", 9)))
	assert.Equal(f, []order.ID{"c"}, queuedIDs(f.nextOrders("", 9)))
	assert.Empty(f, f.nextOrders("none", 9))
	assert.Empty(f, f.nextOrders("nul\x00", 9), "which nobody can have")
}
