package order_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// orderRows returns an order in each of its states, all at version 3.
func orderRows() map[order.State]order.Row {
	rows := map[order.State]order.Row{}
	for s := order.Queued; s <= order.Quarantined; s++ {
		r := order.Row{State: s, Version: 3, Batch: "b", Place: 1, Batches: 1, Group: "g"}
		if s.Final() {
			r.FinalAt = start
		}
		rows[s] = r
	}
	return rows
}

// TestOrderMoves has every move of an order from every state: a move that is not named does not
// change the row.
func TestOrderMoves(t *testing.T) {
	deadline := start.Add(time.Minute)
	verdict := func(s order.State) order.Verdict {
		return order.Verdict{Ref: order.Ref{Version: 3}, State: s, Group: "new"}
	}
	for name, c := range map[string]struct {
		from, to order.State
		do       func(r order.Row) (order.Row, bool)
	}{
		"dequeue": {order.Queued, order.Dequeued, func(r order.Row) (order.Row, bool) {
			return r.Dequeue(start, deadline, 3, "next", 7)
		}},
		"confirm": {order.Dequeued, order.Confirmed, func(r order.Row) (order.Row, bool) {
			return r.Settle(start, "b", verdict(order.Confirmed))
		}},
		"queue again": {order.Dequeued, order.Queued, func(r order.Row) (order.Row, bool) {
			return r.Settle(start, "b", verdict(order.Queued))
		}},
		"fail":  {order.Queued, order.Failed, func(r order.Row) (order.Row, bool) { return r.Fail(start, verdict(order.Failed)) }},
		"split": {order.Queued, order.Queued, func(r order.Row) (order.Row, bool) { return r.Split(verdict(order.Queued)) }},
		"expire": {order.Queued, order.Failed, func(r order.Row) (order.Row, bool) {
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
	next, _ := orderRows()[order.Queued].Dequeue(start, time.Time{}, 3, "next", 7)
	assert.Equal(t, order.Row{State: order.Dequeued, Version: 4, Batch: "next", Place: 7, Batches: 2, Group: "g"}, next)
	assert.True(t, next.DequeuedFrom(3, "next"))
	assert.False(t, next.DequeuedFrom(4, "next"), "it was that already")
	assert.False(t, next.DequeuedFrom(3, "b"))
	again, _ := next.Settle(start, "next", order.Verdict{Ref: order.Ref{Version: 4}, State: order.Queued})
	assert.Empty(t, again.Group)
	_, ok := next.Settle(start, "b", order.Verdict{Ref: order.Ref{Version: 4}, State: order.Queued})
	assert.False(t, ok, "it is part of another")
}

func TestOrderDeadline(t *testing.T) {
	r := order.NewRow()
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

func TestNextCut(t *testing.T) {
	sizes := []int{10, 20, 30}
	for _, c := range []struct{ max, bytes, want int }{{9, 0, 3}, {2, 0, 2}, {0, 0, 1}, {9, 60, 3}, {9, 59, 2}, {9, 1, 1}} {
		assert.Equal(t, c.want, order.NextQuery{Max: c.max, MaxBytes: c.bytes}.Cut(sizes), "%+v", c)
	}
	assert.Zero(t, order.NextQuery{Max: 9}.Cut(nil))
}

func TestCheckOrders(t *testing.T) {
	o := func(id order.ID, key, payload string) order.Order {
		return order.Order{ID: id, Party: "p", Key: key, Payload: []byte(payload)}
	}
	twins, err := order.Check([]order.Order{o("a", "k", "x"), o("b", "", "x"), o("a", "other", "x"), o("c", "k", "x"), o("d", "", "x")})
	require.NoError(t, err)
	assert.Equal(t, []bool{false, false, true, true, false}, twins)
	for _, bad := range [][]order.Order{{o("a", "", "x"), o("a", "", "y")}, {o("a", "k", "x"), o("b", "k", "y")}} {
		_, err := order.Check(bad)
		require.ErrorIs(t, err, batch.ErrConflict)
	}
}
