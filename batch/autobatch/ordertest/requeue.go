package ordertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func requeueTests() []test {
	return []test{
		{name: "a batch whose orders are settled is not requeued", run: requeueSettled},
		{name: "one that is requeued before is open again, with its orders", run: requeueBefore},
		{name: "a commit that is reported late is written, settled or not", run: requeueLate},
	}
}

// get returns the record of a batch.
func (f *fixture) get(b batch.Batch) batch.Record {
	f.Helper()
	r := must(f.store.Get(f.ctx, b.Key()))(f)
	return r
}

func requeueSettled(f *fixture) {
	f.add(newOrders("p", "o", 2)...)
	b, _ := f.prepare("p", "b", 2)
	f.finish(b, store.Refused)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Queued})))
	was := f.get(b)
	_, err := f.store.Requeue(f.ctx, was, store.Requeue{}, batch.By{Actor: "somebody"})
	require.ErrorIs(f, err, batch.ErrNotAllowed)
	assert.Equal(f, was, f.get(b))
}

func requeueBefore(f *fixture) {
	f.add(newOrders("p", "o", 2)...)
	b, rs := f.prepare("p", "b", 2)
	f.finish(b, store.Refused)
	s := settlement(f.settleable(), order.Verdict{State: order.Queued})
	must(f.store.Requeue(f.ctx, f.get(b), store.Requeue{}, batch.By{Actor: "somebody"}))(f)
	assert.False(f, f.settle(s), "what was decided on is not so any more")
	assert.Empty(f, must(f.store.SettleableBatches(f.ctx, 9))(f))
	assert.Empty(f, f.parties(), "its orders are part of it")
	f.finish(b, store.IsCommitted)
	got := f.settleable()
	assert.Equal(f, refIDs(rs), refIDs(got.Orders))
	assert.False(f, f.settle(s))
	require.True(f, f.settle(settlement(got, order.Verdict{State: order.Confirmed})))
}

func requeueLate(f *fixture) {
	f.add(newOrders("p", "o", 2)...)
	f.add(newOrders("q", "q", 2)...)
	for _, settled := range []bool{false, true} {
		party := map[bool]batch.ServiceID{false: "p", true: "q"}[settled]
		b, _ := f.prepare(party, batch.ID("b of "+party), 2)
		f.finish(b, store.Refused)
		s := settlement(f.settleable(), order.Verdict{State: order.Queued})
		if settled {
			require.True(f, f.settle(s))
		}
		f.write(store.Outcome{Ref: store.Ref{Key: b.Key()}, By: batch.ByMonitor, Finding: store.IsCommitted})
		r := f.get(b)
		assert.Equal(f, batch.Committed, r.State)
		if !settled {
			assert.False(f, f.settle(s), "the orders of a batch that is committed are not queued again")
			require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
			continue
		}
		found, err := f.store.SettleableBatches(f.ctx, 9)
		require.NoError(f, err)
		assert.Empty(f, found, "its orders went their own ways")
		_, err = f.store.Requeue(f.ctx, r, store.Requeue{}, batch.By{Actor: "somebody"})
		require.ErrorIs(f, err, batch.ErrNotAllowed)
	}
}
