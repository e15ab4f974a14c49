package ordertest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func raceTests() []test {
	return []test{
		{name: "of many that prepare, one does", run: racePrepare},
		{name: "the same batch from many is one, and done for all", run: raceSame},
		{name: "of many that settle, one does", run: raceSettle},
		{name: "adds at once keep their order, and twins wait for each other", run: raceAdd},
		{name: "settling and requeuing exclude each other", run: raceRequeue},
	}
}

// together runs do n times at once.
func (f *fixture) together(n int, do func(i int) error) {
	f.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		require.NoError(f, err)
	}
}

func racePrepare(f *fixture) {
	for round := range 5 {
		party := batch.ServiceID(fmt.Sprint("p", round))
		f.add(newOrders(party, string(party)+"-", 8)...)
		rs := refsOf(f.nextOrders(party, 8))
		var won atomic.Int64
		f.together(6, func(i int) error {
			done, err := f.store.PrepareBatch(f.ctx, newBatch(party, batch.ID(fmt.Sprint(party, "-", i))), rs[i%3:i%3+4])
			if done {
				won.Add(1)
			}
			return err
		})
		assert.Equal(f, int64(1), won.Load())
		dequeued, bs := 0, map[batch.ID]bool{}
		for _, o := range f.list(party) {
			if o.State == order.Dequeued {
				dequeued++
				bs[o.Batch] = true
			}
		}
		assert.Equal(f, 4, dequeued)
		assert.Len(f, bs, 1)
		stored, _ := must2(f.store.List(f.ctx, store.ListQuery{Service: &party}))(f)
		assert.Len(f, stored, 1)
	}
}

func raceSame(f *fixture) {
	f.add(newOrders("p", "o", 8)...)
	rs := refsOf(f.nextOrders("p", 8))
	var won atomic.Int64
	f.together(6, func(int) error {
		done, err := f.store.PrepareBatch(f.ctx, newBatch("p", "b"), rs)
		if done {
			won.Add(1)
		}
		return err
	})
	assert.Equal(f, int64(6), won.Load())
}

func raceSettle(f *fixture) {
	var bs []batch.Batch
	for _, p := range []batch.ServiceID{"p", "q", "r"} {
		f.add(newOrders(p, string(p), 4)...)
		b, _ := f.prepare(p, batch.ID("b "+p), 4)
		f.finish(b, store.IsCommitted)
		bs = append(bs, b)
	}
	found := must(f.store.SettleableBatches(f.ctx, 9))(f)
	require.Len(f, found, len(bs))
	var won atomic.Int64
	f.together(6, func(i int) error {
		var ss []order.Settlement
		for j := range found { // each in another order
			ss = append(ss, settlement(found[(i+j)%len(found)], order.Verdict{State: order.Confirmed}))
		}
		done, err := f.store.SettleOrders(f.ctx, ss)
		for _, d := range done {
			if d {
				won.Add(1)
			}
		}
		return err
	})
	assert.Equal(f, int64(len(bs)), won.Load())
}

func raceAdd(f *fixture) {
	f.together(6, func(i int) error {
		for n := range 10 {
			own := newOrders("p", fmt.Sprintf("own%d-%d-", i, n), 3)
			shared := newOrder("p", order.ID(fmt.Sprint("shared", n)))
			keyed := newOrder("p", order.ID(fmt.Sprint("keyed", n, "-", i)))
			keyed.Key, keyed.Payload = fmt.Sprint("key", n), []byte("same")
			if err := f.store.AddOrders(f.ctx, append(own, shared, keyed)...); err != nil {
				return err
			}
		}
		return nil
	})
	rs := f.list("p")
	assert.Len(f, rs, 6*10*3+10+10)
	at := map[order.ID]int{}
	for i, r := range rs {
		at[r.ID] = i
	}
	for i := range 6 {
		last := -1
		for n := range 10 {
			for _, o := range newOrders("p", fmt.Sprintf("own%d-%d-", i, n), 3) {
				require.Greater(f, at[o.ID], last, "%s", o.ID)
				last = at[o.ID]
			}
		}
	}
}

func raceRequeue(f *fixture) {
	for round := range 8 {
		party := batch.ServiceID(fmt.Sprint("p", round))
		f.add(newOrder(party, order.ID(party)))
		b, _ := f.prepare(party, batch.ID("b "+party), 1)
		f.finish(b, store.Refused)
		s := settlement(f.settleable(), order.Verdict{State: order.Failed})
		seen := f.get(b)
		var settled, requeued atomic.Bool
		f.together(2, func(i int) error {
			if i == 0 {
				done, err := f.store.SettleOrders(f.ctx, []order.Settlement{s})
				settled.Store(len(done) == 1 && done[0])
				return err
			}
			_, err := f.store.Requeue(f.ctx, seen, store.Requeue{}, batch.By{Actor: "somebody"})
			requeued.Store(err == nil)
			return nil
		})
		require.NotEqual(f, settled.Load(), requeued.Load(), "round %d", round)
	}
}
