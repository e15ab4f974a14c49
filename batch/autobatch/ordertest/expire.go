package ordertest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func expireTests() []test {
	return []test{
		{name: "queued ones whose deadline has passed, earliest first, up to the limit", run: expireQueued},
		{name: "none that is part of a batch, until it is queued again", run: expireDequeued},
	}
}

// expire returns the number of orders that expired, and checks that each is stored as it was
// returned.
func (f *fixture) expire(limit int) int {
	f.Helper()
	all := must(f.store.ExpireOrders(f.ctx, limit))(f)
	for _, v := range all {
		found, _ := must2(f.store.FinalOrders(f.ctx, []order.ID{v.ID}))(f)
		require.Len(f, found, 1)
		r := found[0]
		want := order.Verdict{Ref: order.Ref{ID: r.ID, Version: r.Version, TraceParent: r.TraceParent, Created: r.CreatedAt}, State: r.State, Error: r.Error}
		assert.Equal(f, want, v)
	}
	return len(all)
}

func expireQueued(f *fixture) {
	os := newOrders("p", "o", 6)
	for i, units := range []float64{3.5, 0.7, 0.5, 0, 0.6, 9.5} {
		os[i].TraceParent = fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b%d-01", i)
		if units != 0 {
			os[i].Deadline = f.now().Add(f.units(units))
		}
	}
	f.add(os...)
	assert.Zero(f, f.expire(9))
	f.passUnits(1)
	assert.Zero(f, f.expire(0))
	assert.Equal(f, 2, f.expire(2))
	assert.Equal(f, order.Queued, f.record("p", os[1].ID).State, "the last of the three")
	assert.Equal(f, 1, f.expire(2))
	assert.Zero(f, f.expire(2))
	for _, i := range []int{1, 2, 4} {
		r := f.record("p", os[i].ID)
		assert.Equal(f, order.Failed, r.State)
		assert.Equal(f, order.KindExpired, r.Error.Kind)
		assert.Equal(f, int64(2), r.Version)
		assert.InDelta(f, 0, f.now().Sub(r.FinalAt).Seconds(), f.units(0.5).Seconds())
	}
	f.passUnits(3)
	assert.Equal(f, 1, f.expire(9))
	assert.Equal(f, []order.ID{os[3].ID, os[5].ID}, queuedIDs(f.nextOrders("p", 9)))
}

func expireDequeued(f *fixture) {
	os := newOrders("p", "o", 2)
	os[0].Deadline, os[1].Deadline = f.now().Add(f.units(0.5)), f.now().Add(f.units(0.5))
	f.add(os...)
	b, _ := f.prepare("p", "b", 1)
	f.passUnits(1)
	assert.Equal(f, 1, f.expire(9), "the one that was left behind")
	assert.Equal(f, order.Dequeued, f.record("p", os[0].ID).State)
	f.finish(b, store.Refused)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Queued, Group: "g"})))
	assert.Empty(f, f.nextOrders("p", 9))
	assert.Equal(f, 1, f.expire(9))
	r := f.record("p", os[0].ID)
	assert.Equal(f, order.Failed, r.State)
	assert.Equal(f, b.ID, r.Batch)
	assert.Empty(f, f.parties())
}
