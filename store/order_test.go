package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// orderRows is an order in each of its states, all at version 3.
func orderRows() map[batch.OrderState]store.OrderRow {
	rows := map[batch.OrderState]store.OrderRow{}
	for s := batch.OrderQueued; s <= batch.OrderQuarantined; s++ {
		r := store.OrderRow{State: s, Version: 3, Batch: "b", Place: 1, Batches: 1, Group: "g"}
		if s.Final() {
			r.FinalAt = start
		}
		rows[s] = r
	}
	return rows
}

// Every move of an order, from every state: a move that is not named leaves the row as it was.
func TestOrderMoves(t *testing.T) {
	deadline := start.Add(time.Minute)
	verdict := func(s batch.OrderState) store.OrderVerdict {
		return store.OrderVerdict{OrderRef: store.OrderRef{Version: 3}, State: s, Group: "new"}
	}
	for name, c := range map[string]struct {
		from, to batch.OrderState
		do       func(r store.OrderRow) (store.OrderRow, bool)
	}{
		"dequeue": {batch.OrderQueued, batch.OrderDequeued, func(r store.OrderRow) (store.OrderRow, bool) {
			return r.Dequeue(start, deadline, 3, "next", 7)
		}},
		"confirm": {batch.OrderDequeued, batch.OrderConfirmed, func(r store.OrderRow) (store.OrderRow, bool) {
			return r.Settle(start, "b", verdict(batch.OrderConfirmed))
		}},
		"queue again": {batch.OrderDequeued, batch.OrderQueued, func(r store.OrderRow) (store.OrderRow, bool) {
			return r.Settle(start, "b", verdict(batch.OrderQueued))
		}},
		"fail":  {batch.OrderQueued, batch.OrderFailed, func(r store.OrderRow) (store.OrderRow, bool) { return r.Fail(start, verdict(batch.OrderFailed)) }},
		"split": {batch.OrderQueued, batch.OrderQueued, func(r store.OrderRow) (store.OrderRow, bool) { return r.Split(verdict(batch.OrderQueued)) }},
		"expire": {batch.OrderQueued, batch.OrderFailed, func(r store.OrderRow) (store.OrderRow, bool) {
			return r.Expire(deadline, deadline)
		}},
	} {
		for state, r := range orderRows() {
			next, ok := c.do(r)
			require.Equal(t, state == c.from, ok, "%s from %s", name, state)
			if !ok {
				require.Equal(t, r, next)
				continue
			}
			assert.Equal(t, c.to, next.State, name)
			assert.Equal(t, int64(4), next.Version, name)
			assert.Equal(t, c.to.Final(), !next.FinalAt.IsZero(), name)
			older := r
			older.Version = 2
			if _, ok := c.do(older); name != "expire" {
				assert.False(t, ok, "%s, fenced", name)
			}
		}
	}
	next, _ := orderRows()[batch.OrderQueued].Dequeue(start, time.Time{}, 3, "next", 7)
	assert.Equal(t, store.OrderRow{State: batch.OrderDequeued, Version: 4, Batch: "next", Place: 7, Batches: 2, Group: "g"}, next)
	assert.True(t, next.DequeuedFrom(3, "next"))
	assert.False(t, next.DequeuedFrom(4, "next"), "it was that already")
	assert.False(t, next.DequeuedFrom(3, "b"))
	again, _ := next.Settle(start, "next", store.OrderVerdict{OrderRef: store.OrderRef{Version: 4}, State: batch.OrderQueued})
	assert.Empty(t, again.Group)
	_, ok := next.Settle(start, "b", store.OrderVerdict{OrderRef: store.OrderRef{Version: 4}, State: batch.OrderQueued})
	assert.False(t, ok, "it is part of another")
}

func TestOrderDeadline(t *testing.T) {
	r := store.NewOrderRow()
	for _, c := range []struct {
		now, deadline time.Time
		passed        bool
	}{
		{start, time.Time{}, false}, {start, start, true}, {start, start.Add(1), false}, {start.Add(1), start, true},
	} {
		assert.Equal(t, c.passed, r.Expired(c.now, c.deadline))
		_, dequeued := r.Dequeue(c.now, c.deadline, 1, "b", 0)
		assert.Equal(t, !c.passed, dequeued)
		_, expired := r.Expire(c.now, c.deadline)
		assert.Equal(t, c.passed, expired)
	}
}

// A batch is settled once, when it is final, and is not requeued from then on.
func TestRowSettleOrders(t *testing.T) {
	for name, r := range standings(t) {
		next, ok := r.SettleOrders(r.Version)
		require.Equal(t, r.Final(), ok, name)
		_, fenced := r.SettleOrders(r.Version - 1)
		assert.False(t, fenced, name)
		if !ok {
			assert.Equal(t, r, next, name)
			continue
		}
		assert.Equal(t, r.Version+1, next.Version)
		_, twice := next.SettleOrders(next.Version)
		assert.False(t, twice, name)
		_, err := next.Requeue(start, store.Requeue{})
		require.ErrorIs(t, err, batch.ErrNotAllowed, name)
		if r.State != batch.Committed {
			late, a := next.Apply(monitored(next, store.IsCommitted), start)
			require.Equal(t, store.Written, a.Result, name)
			assert.True(t, late.OrdersSettled, "a commit that is told late changes nothing about its orders")
		}
	}
}

func TestNextCut(t *testing.T) {
	sizes := []int{10, 20, 30}
	for _, c := range []struct{ max, bytes, want int }{{9, 0, 3}, {2, 0, 2}, {0, 0, 1}, {9, 60, 3}, {9, 59, 2}, {9, 1, 1}} {
		assert.Equal(t, c.want, store.NextQuery{Max: c.max, MaxBytes: c.bytes}.Cut(sizes), "%+v", c)
	}
	assert.Zero(t, store.NextQuery{Max: 9}.Cut(nil))
}

func TestCheckOrders(t *testing.T) {
	o := func(id batch.OrderID, key, payload string) batch.Order {
		return batch.Order{ID: id, Party: "p", Key: key, Payload: []byte(payload)}
	}
	twins, err := store.CheckOrders([]batch.Order{o("a", "k", "x"), o("b", "", "x"), o("a", "other", "x"), o("c", "k", "x"), o("d", "", "x")})
	require.NoError(t, err)
	assert.Equal(t, []bool{false, false, true, true, false}, twins)
	for _, bad := range [][]batch.Order{{o("a", "", "x"), o("a", "", "y")}, {o("a", "k", "x"), o("b", "k", "y")}} {
		_, err := store.CheckOrders(bad)
		require.ErrorIs(t, err, batch.ErrConflict)
	}
}
