package ordertest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func listTests() []test {
	return []test{
		{name: "what is selected, in order", run: listSelects},
		{name: "page by page", run: listPages},
		{name: "one order by its id or its key, or the beginning of one", run: listFound},
		{name: "what is final, what is missing, and nothing of what is open", run: listFinals},
		{name: "what is open is counted, where the store counts", run: listCounts},
	}
}

// oneOfEach makes orders of one party, one in every state.
func (f *fixture) oneOfEach() (party batch.ServiceID, is map[order.State]order.ID) {
	f.Helper()
	os := newOrders("p", "o", 5)
	f.add(os...)
	is = map[order.State]order.ID{
		order.Confirmed: os[0].ID, order.Failed: os[1].ID, order.Quarantined: os[2].ID, order.Dequeued: os[3].ID, order.Queued: os[4].ID,
	}
	b, _ := f.prepare("p", "committed", 1)
	f.finish(b, store.IsCommitted)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	b, _ = f.prepare("p", "refused", 1)
	f.finish(b, store.Refused)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Failed})))
	require.Equal(f, []bool{true}, must(f.store.FailOrders(f.ctx, verdictsOn(refsOf(f.nextOrders("p", 1)), order.Verdict{State: order.Quarantined})))(f))
	f.prepare("p", "open", 1)
	return "p", is
}

func listSelects(f *fixture) {
	party, is := f.oneOfEach()
	f.add(newOrder("q", "other"))
	for state, id := range is {
		for _, p := range []*batch.ServiceID{nil, &party} {
			rs, next := must2(f.store.ListOrders(f.ctx, order.ListQuery{Party: p, States: []order.State{state, 99}}))(f)
			assert.Empty(f, next)
			want := []order.ID{id}
			if p == nil && state == order.Queued {
				want = append(want, "other")
			}
			assert.Equal(f, want, recordIDs(rs), "%s", state)
			assert.Equal(f, state, rs[0].State)
		}
	}
	for b, want := range map[batch.ID][]order.ID{
		"committed": {is[order.Confirmed]}, "refused": {is[order.Failed]}, "open": {is[order.Dequeued]}, "none": {}, "nul\x00": {},
	} {
		rs, _ := must2(f.store.ListOrders(f.ctx, order.ListQuery{Batch: b}))(f)
		assert.Equal(f, want, recordIDs(rs), "%s", b)
	}
	q := batch.ServiceID("q")
	rs, _ := must2(f.store.ListOrders(f.ctx, order.ListQuery{Party: &q, Batch: "open"}))(f)
	assert.Empty(f, rs)
	bad := batch.ServiceID("\xff")
	rs, _ = must2(f.store.ListOrders(f.ctx, order.ListQuery{Party: &bad}))(f)
	assert.Empty(f, rs)
	f.finish(newBatch(party, "open"), store.Refused)
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Queued})))
	rs, _ = must2(f.store.ListOrders(f.ctx, order.ListQuery{Batch: "open"}))(f)
	assert.Equal(f, []order.ID{is[order.Dequeued]}, recordIDs(rs), "its last, though it is queued again")
}

func listFound(f *fixture) {
	party, is := f.oneOfEach()
	key := func(id order.ID, key string) order.Order {
		o := newOrder("q", id)
		o.Key = key
		return o
	}
	f.add(key("q1", "invoice 1"), key("q2", "invoice 10"), newOrder("q", "q10"))
	found := func(q order.FindQuery) (ids []order.ID) {
		f.Helper()
		rs, more := must2(f.store.FindOrders(f.ctx, q))(f)
		require.False(f, more)
		for _, r := range rs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	for state, id := range is {
		rs, _ := must2(f.store.FindOrders(f.ctx, order.FindQuery{ID: id}))(f)
		require.Len(f, rs, 1)
		assert.Equal(f, state, rs[0].State)
		assert.Equal(f, party, rs[0].Party)
	}
	assert.Equal(f, []order.ID{"q1", "q10", "q2"}, found(order.FindQuery{ID: "q", Begins: true}))
	assert.Equal(f, []order.ID{"q1", "q10"}, found(order.FindQuery{ID: "q1", Begins: true}))
	assert.Equal(f, []order.ID{"q1"}, found(order.FindQuery{ID: "q1"}))
	assert.Equal(f, []order.ID{"q1"}, found(order.FindQuery{Key: "invoice 1"}))
	assert.Equal(f, []order.ID{"q1", "q2"}, found(order.FindQuery{Key: "inv", Begins: true}))
	for _, q := range []order.FindQuery{{ID: "none"}, {ID: "nul\x00"}, {Key: "invoice"}, {Key: "\xff", Begins: true}, {ID: "Q", Begins: true}} {
		assert.Empty(f, found(q), "%+v", q)
	}
	rs, more := must2(f.store.FindOrders(f.ctx, order.FindQuery{ID: "q", Begins: true, Limit: 2}))(f)
	assert.Len(f, rs, 2)
	assert.True(f, more)
	for _, q := range []order.FindQuery{{}, {Begins: true}, {ID: "a", Key: "b"}} {
		_, _, err := f.store.FindOrders(f.ctx, q)
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", q)
	}
}

func listPages(f *fixture) {
	var want []order.ID
	for i := range 25 {
		os := newOrders(batch.ServiceID(fmt.Sprint(i%3)), fmt.Sprint("call", i, "-"), 3)
		f.add(os...)
		f.tick()
		want = append(want, orderIDs(os)...)
	}
	var got []order.ID
	for q := (order.ListQuery{Limit: 7}); ; {
		rs, next := must2(f.store.ListOrders(f.ctx, q))(f)
		got = append(got, recordIDs(rs)...)
		if q.After = next; next == "" {
			break
		}
		require.Len(f, rs, 7)
	}
	assert.Equal(f, want, got)
	f.add(newOrders("many", "m", 1100)...)
	for limit, n := range map[int]int{0: 100, 5000: 1000} {
		rs, next := must2(f.store.ListOrders(f.ctx, order.ListQuery{Limit: limit}))(f)
		assert.Len(f, rs, n)
		assert.NotEmpty(f, next)
	}
	_, _, err := f.store.ListOrders(f.ctx, order.ListQuery{After: "nonsense"})
	require.ErrorIs(f, err, batch.ErrInvalidInput)
}

func listFinals(f *fixture) {
	party, is := f.oneOfEach()
	ask := []order.ID{"none", "nul\x00", ""}
	var want []order.ID
	for state, id := range is {
		ask = append(ask, id, id)
		if state.Final() {
			want = append(want, id)
		}
	}
	for i := range 1200 {
		ask = append(ask, order.ID(fmt.Sprint("missing", i)))
	}
	final, missing := must2(f.store.FinalOrders(f.ctx, ask))(f)
	assert.ElementsMatch(f, want, recordIDs(final))
	for _, r := range final {
		assert.Equal(f, f.record(party, r.ID), r)
	}
	assert.Len(f, missing, 1203)
	assert.Subset(f, missing, []order.ID{"none", "nul\x00", "", "missing1199"})
	final, missing = must2(f.store.FinalOrders(f.ctx, nil))(f)
	assert.Empty(f, final)
	assert.Empty(f, missing)
}

func listCounts(f *fixture) {
	if !f.store.Abilities().Has(store.CanCountOpen) {
		f.Logf("the store lacks %s", store.CanCountOpen)
		return
	}
	counted := func() store.Totals { return must(f.store.CountOpen(f.ctx))(f) }
	assert.Empty(f, counted().Orders)
	_, named := f.oneOfEach()
	f.tick()
	f.add(newOrder("q", "other"))
	got := counted()
	assert.Equal(f, map[string]int{"queued": 2, "dequeued": 1}, got.Orders)
	oldest := named[order.Dequeued]
	rs, _ := must2(f.store.ListOrders(f.ctx, order.ListQuery{States: []order.State{order.Dequeued}}))(f)
	assert.Equal(f, oldest, rs[0].ID)
	assert.Equal(f, rs[0].CreatedAt, got.OldestOrder)
	rs, _ = must2(f.store.ListOrders(f.ctx, order.ListQuery{States: []order.State{order.Quarantined}}))(f)
	assert.Equal(f, 1, got.RefusedOrders)
	assert.Equal(f, rs[0].FinalAt, got.OldestRefused)
}
