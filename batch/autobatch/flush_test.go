package autobatch_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
)

// batchSizes returns the number of orders in each batch on the ledger, in order.
func (r *engineTest) batchSizes(party batch.ServiceID) (n []int) {
	for _, id := range r.books.Log(party) {
		n = append(n, strings.Count(r.books.contents[id], `"`)/2)
	}
	return n
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEngineTest(t, orderBuilder{}, &autobatch.Options{MaxSize: 3, FlushAge: 10 * time.Second}, &ledgermem.Options{CommitAfter: 2 * time.Second})
		start := time.Now()
		add := func(o order.Order) { require.NoError(t, r.engine.Add(t.Context(), o)) }
		took := func(o order.Order) time.Duration {
			require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, o.ID).State)
			d := time.Since(start)
			start = time.Now()
			return d
		}
		add(newOrder("p", 1))
		d := took(newOrder("p", 1))
		assert.GreaterOrEqual(t, d, 12*time.Second, "by age")
		assert.Less(t, d, 14*time.Second)
		add(newOrder("p", 2))
		add(newOrder("p", 3))
		add(newOrder("p", 4))
		assert.Less(t, took(newOrder("p", 4)), 4*time.Second, "by count")
		urgent := newOrder("p", 6)
		urgent.Urgent = true
		add(newOrder("p", 5))
		add(urgent)
		assert.Less(t, took(newOrder("p", 5)), 4*time.Second, "an urgent one takes along what waits")
		assert.Equal(t, []int{1, 3, 2}, r.batchSizes("p"))
		r.stopAndWait()
	})
	synctest.Test(t, func(t *testing.T) { // by default no order waits, and the next batch fills while one is in flight
		r := newEngineTest(t, orderBuilder{}, nil, &ledgermem.Options{CommitAfter: 2 * time.Second})
		for i := range 20 {
			require.NoError(t, r.engine.Add(t.Context(), newOrder("p", i)))
			time.Sleep(50 * time.Millisecond)
		}
		awaitOrder(t, r.engine, newOrder("p", 19).ID)
		assert.Equal(t, []int{1, 19}, r.batchSizes("p"))
		r.stopAndWait()
	})
}

// Orders that fill MaxBytes are sent at once, and the rest waits for more orders.
func TestFlushByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEngineTest(t, orderBuilder{}, &autobatch.Options{MaxBytes: 4 * len(payPayload), FlushAge: 10 * time.Second}, &ledgermem.Options{CommitAfter: 2 * time.Second})
		start := time.Now()
		for i := range 3 {
			require.NoError(t, r.engine.Add(t.Context(), newOrder("p", i)))
		}
		time.Sleep(5 * time.Second)
		assert.Zero(t, r.books.submissions(), "there is room for one more")
		big := newOrder("p", 3)
		big.Deadline = start.Add(time.Hour) // has no effect
		require.NoError(t, r.engine.Add(t.Context(), big, newOrder("p", 4)))
		require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, big.ID).State)
		assert.Less(t, time.Since(start), 9*time.Second, "by bytes, and not by age")
		require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, newOrder("p", 4).ID).State)
		assert.GreaterOrEqual(t, time.Since(start), 15*time.Second, "by age")
		assert.Equal(t, []int{4, 1}, r.batchSizes("p"))
		r.stopAndWait()
	})
}

// An urgent order does not wait for other orders, but for a batch of its party in flight. Its
// place in the order follows its priority.
func TestUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEngineTest(t, orderBuilder{}, &autobatch.Options{MaxSize: 3, FlushAge: time.Hour}, &ledgermem.Options{CommitAfter: 10 * time.Second})
		urgent := func(i, priority int) order.Order {
			o := newOrder("p", i)
			o.Urgent, o.Priority = true, priority
			return o
		}
		start := time.Now()
		require.NoError(t, r.engine.Add(t.Context(), urgent(0, 0)))
		time.Sleep(time.Second)
		assert.Equal(t, 1, r.books.submissions(), "at once, and alone")
		require.NoError(t, r.engine.Add(t.Context(), newOrder("p", 1), newOrder("p", 2), newOrder("p", 3), urgent(4, 1)))
		require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, "p-004").State)
		assert.Less(t, time.Since(start), 25*time.Second, "with the next batch")
		assert.Equal(t, []order.ID{"p-000", "p-004", "p-001", "p-002"}, r.books.executedOrders("p"))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 2, r.books.submissions(), "who is not urgent waits for company")
		r.stopAndWait()
	})
}

// An order whose deadline passes before it is part of a batch fails, and is never sent: while
// another batch of its party is in flight, while it waits for other orders, or if the deadline had
// passed before Add. An order that is part of a batch no longer has a deadline.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEngineTest(t, orderBuilder{}, &autobatch.Options{FlushAge: 30 * time.Second}, &ledgermem.Options{CommitAfter: 20 * time.Second})
		start := time.Now()
		within := func(party batch.ServiceID, i int, d time.Duration) order.Order {
			o := newOrder(party, i)
			o.Deadline = start.Add(d)
			return o
		}
		first := within("busy", 0, time.Second) // in flight by then
		first.Urgent = true
		require.NoError(t, r.engine.Add(t.Context(), first))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, r.engine.Add(t.Context(),
			within("busy", 1, 5*time.Second), newOrder("busy", 2), within("company", 0, 6*time.Second), within("late", 0, 0)))
		for _, c := range []struct {
			id    order.ID
			after time.Duration
		}{{"late-000", 0}, {"busy-001", 5 * time.Second}, {"company-000", 6 * time.Second}} {
			rec := awaitOrder(t, r.engine, c.id)
			require.Equal(t, order.Failed, rec.State, c.id)
			require.Equal(t, order.KindExpired, rec.Error.Kind, c.id)
			assert.Zero(t, rec.Batches, c.id)
			assert.GreaterOrEqual(t, rec.FinalAt.Sub(start), c.after, c.id)
			assert.Less(t, rec.FinalAt.Sub(start), c.after+3*time.Second, "%s: within an interval or two", c.id)
		}
		require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, "busy-000").State)
		require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, "busy-002").State)
		assert.Equal(t, []order.ID{"busy-000", "busy-002"}, r.books.executedOrders("busy"))
		assert.Equal(t, 2, r.books.submissions(), "nothing else was sent")
		r.stopAndWait()
	})
}
