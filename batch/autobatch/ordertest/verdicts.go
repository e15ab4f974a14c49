package ordertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

func verdictTests() []test {
	return []test{
		{name: "queued orders fail, each alone", run: verdictsFail},
		{name: "queued orders are split, all or none", run: verdictsSplit},
		{name: "what is no such verdict", run: verdictsInvalid},
	}
}

func verdictsFail(f *fixture) {
	f.add(newOrders("p", "o", 5)...)
	f.add(newOrder("q", "x"))
	rs := refsOf(f.nextOrders("p", 5))
	f.prepare("q", "b", 1)
	f.passUnits(1)
	why := &batch.SubmissionError{Kind: batch.KindRejected, Message: "cannot be built"}
	vs := []order.Verdict{
		{Ref: rs[0], State: order.Quarantined, Error: why},
		{Ref: order.Ref{ID: rs[1].ID, Version: 9}, State: order.Failed},
		{Ref: order.Ref{ID: "none", Version: 1}, State: order.Failed},
		{Ref: order.Ref{ID: "nul\x00", Version: 1}, State: order.Failed},
		{Ref: rs[2], State: order.Failed},
		{Ref: order.Ref{ID: "x", Version: 2}, State: order.Failed}, // a Dequeued order
	}
	done := must(f.store.FailOrders(f.ctx, vs))(f)
	assert.Equal(f, []bool{true, false, false, false, true, false}, done)
	done = must(f.store.FailOrders(f.ctx, vs[:1]))(f)
	assert.Equal(f, []bool{false}, done)
	got := f.list("p")
	assert.Equal(f, order.Quarantined, got[0].State)
	assert.Equal(f, why, got[0].Error)
	assert.Equal(f, int64(2), got[0].Version)
	assert.InDelta(f, 0, f.now().Sub(got[0].FinalAt).Seconds(), f.units(0.5).Seconds())
	assert.Equal(f, order.Queued, got[1].State)
	assert.Equal(f, order.Failed, got[2].State)
	assert.Nil(f, got[2].Error)
	assert.Equal(f, []order.ID{rs[1].ID, rs[3].ID, rs[4].ID}, queuedIDs(f.nextOrders("p", 9)))
	done = must(f.store.FailOrders(f.ctx, nil))(f)
	assert.Empty(f, done)
}

func verdictsSplit(f *fixture) {
	f.add(newOrders("p", "o", 4)...)
	rs := refsOf(f.nextOrders("p", 4))
	was := f.list("p")
	half := append(verdictsOn(rs[:2], order.Verdict{State: order.Queued, Group: "1"}), verdictsOn(rs[2:], order.Verdict{State: order.Queued, Group: "2"})...)
	for _, bad := range []order.Ref{{ID: rs[3].ID, Version: 2}, {ID: "none", Version: 1}} {
		vs := append([]order.Verdict(nil), half...)
		vs[3].Ref = bad
		assert.False(f, must(f.store.SplitOrders(f.ctx, vs))(f))
		assert.Equal(f, was, f.list("p"))
	}
	done := must(f.store.SplitOrders(f.ctx, half))(f)
	require.True(f, done)
	done = must(f.store.SplitOrders(f.ctx, half))(f)
	assert.False(f, done, "they are at another version by now")
	for i, r := range f.list("p") {
		was[i].Version, was[i].Group = 2, half[i].Group
		assert.Equal(f, was[i], r)
	}
}

func verdictsInvalid(f *fixture) {
	f.add(newOrders("p", "o", 2)...)
	rs := refsOf(f.nextOrders("p", 2))
	was := f.list("p")
	for _, state := range []order.State{0, order.Queued, order.Dequeued, order.Confirmed} {
		_, err := f.store.FailOrders(f.ctx, verdictsOn(rs, order.Verdict{State: state}))
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%s", state)
	}
	for _, v := range []order.Verdict{{}, {State: order.Failed}, {State: order.Queued, Group: "\xff"}} {
		_, err := f.store.SplitOrders(f.ctx, verdictsOn(rs, v))
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", v)
	}
	_, err := f.store.FailOrders(f.ctx, verdictsOn([]order.Ref{rs[0], rs[0]}, order.Verdict{State: order.Failed}))
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	assert.Equal(f, was, f.list("p"))
}
