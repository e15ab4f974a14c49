package ordertest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func partiesTests() []test {
	return []test{
		{name: "what waits there", run: partiesLoad},
		{name: "in byte order, a page at a time", run: partiesPages},
		{name: "those without a batch", run: partiesIdle},
	}
}

func partiesLoad(f *fixture) {
	os := newOrders("p", "o", 5)
	os[4].Priority, os[0].Urgent = 1, true
	f.add(os[:2]...)
	f.passUnits(2)
	f.add(os[2:]...)
	f.add(newOrder("q", "x"))
	f.passUnits(1)
	ps := f.parties()
	require.Len(f, ps, 2)
	size := len(os[0].Payload)
	assert.InDelta(f, f.units(3).Seconds(), ps[0].Oldest.Seconds(), f.units(0.5).Seconds())
	ps[0].Oldest = 0
	assert.Equal(f, order.PartyLoad{Party: "p", Orders: 5, Bytes: 5 * size, Urgent: true}, ps[0])
	ps = must(f.store.Parties(f.ctx, order.PartiesQuery{Start: true, Limit: 1, Cap: 1}))(f)
	require.Len(f, ps, 1)
	assert.Equal(f, 1, ps[0].Orders)
	assert.Equal(f, size, ps[0].Bytes)
	assert.InDelta(f, f.units(3).Seconds(), ps[0].Oldest.Seconds(), f.units(0.5).Seconds(), "of all, not of those counted")
	q := f.nextOrders("q", 9)
	require.True(f, must(f.store.SplitOrders(f.ctx, verdictsOn(refsOf(q), order.Verdict{State: order.Queued, Group: "g"})))(f))
	ps = f.parties()
	assert.False(f, ps[0].Split)
	assert.True(f, ps[1].Split)
	assert.False(f, ps[1].Urgent)
}

func partiesPages(f *fixture) {
	var want []batch.ServiceID
	for i := range 30 {
		p := batch.ServiceID(fmt.Sprintf("p%02d", i))
		want = append(want, p)
		f.add(newOrders(p, string(p), 1+i%4)...)
	}
	want = append([]batch.ServiceID{"", "Z"}, append(want, "ä")...)
	f.add(newOrder("ä", "umlaut"), newOrder("Z", "capital"), newOrder("", "empty"))
	assert.Equal(f, want, partyNames(f.parties()), "by bytes")
	var got []batch.ServiceID
	for q := (order.PartiesQuery{Start: true, Limit: 7, Cap: 1}); ; q.Start = false {
		ps := must(f.store.Parties(f.ctx, q))(f)
		got = append(got, partyNames(ps)...)
		if len(ps) < q.Limit {
			break
		}
		q.After = ps[len(ps)-1].Party
	}
	assert.Equal(f, want, got)
}

func partiesIdle(f *fixture) {
	for _, p := range []batch.ServiceID{"a", "b", "c"} {
		f.add(newOrders(p, string(p), 3)...)
	}
	b, _ := f.prepare("b", "batch", 2)
	assert.Equal(f, []batch.ServiceID{"a", "c"}, partyNames(f.parties()))
	ps := must(f.store.Parties(f.ctx, order.PartiesQuery{Start: true, Limit: 2, Cap: 9}))(f)
	assert.Equal(f, []batch.ServiceID{"a", "c"}, partyNames(ps), "one that is passed over takes no place")
	f.finish(b, store.IsCommitted)
	assert.Equal(f, []batch.ServiceID{"a", "c"}, partyNames(f.parties()), "final is not settled")
	require.True(f, f.settle(settlement(f.settleable(), order.Verdict{State: order.Confirmed})))
	assert.Equal(f, []batch.ServiceID{"a", "b", "c"}, partyNames(f.parties()))
	f.prepare("c", "all", 9)
	f.prepare("b", "rest", 9)
	assert.Equal(f, []batch.ServiceID{"a"}, partyNames(f.parties()), "without orders that wait")
}
