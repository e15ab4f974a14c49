package ordertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func verdictTests() []test {
	return []test{
		{name: "queued orders fail, each alone", run: verdictsFail},
		{name: "queued orders are split, all or none", run: verdictsSplit},
		{name: "what is no such verdict", run: verdictsInvalid},
	}
}

func verdictsFail(f *fixture) {
	f.add(many("p", "o", 5)...)
	f.add(ord("q", "x"))
	rs := refs(f.next("p", 5))
	f.prepare("q", "b", 1)
	f.pass(1)
	why := &batch.SubmissionError{Kind: batch.KindRejected, Message: "cannot be built"}
	vs := []store.OrderVerdict{
		{OrderRef: rs[0], State: batch.OrderQuarantined, Error: why},
		{OrderRef: store.OrderRef{ID: rs[1].ID, Version: 9}, State: batch.OrderFailed},
		{OrderRef: store.OrderRef{ID: "none", Version: 1}, State: batch.OrderFailed},
		{OrderRef: store.OrderRef{ID: "nul\x00", Version: 1}, State: batch.OrderFailed},
		{OrderRef: rs[2], State: batch.OrderFailed},
		{OrderRef: store.OrderRef{ID: "x", Version: 2}, State: batch.OrderFailed}, // Dequeued
	}
	done := must(f.st.FailOrders(f.ctx, vs))(f)
	assert.Equal(f, []bool{true, false, false, false, true, false}, done)
	done = must(f.st.FailOrders(f.ctx, vs[:1]))(f)
	assert.Equal(f, []bool{false}, done)
	got := f.list("p")
	assert.Equal(f, batch.OrderQuarantined, got[0].State)
	assert.Equal(f, why, got[0].Error)
	assert.Equal(f, int64(2), got[0].Version)
	assert.InDelta(f, 0, f.now().Sub(got[0].FinalAt).Seconds(), f.u(0.5).Seconds())
	assert.Equal(f, batch.OrderQueued, got[1].State)
	assert.Equal(f, batch.OrderFailed, got[2].State)
	assert.Nil(f, got[2].Error)
	assert.Equal(f, []batch.OrderID{rs[1].ID, rs[3].ID, rs[4].ID}, queuedIDs(f.next("p", 9)))
	done = must(f.st.FailOrders(f.ctx, nil))(f)
	assert.Empty(f, done)
}

func verdictsSplit(f *fixture) {
	f.add(many("p", "o", 4)...)
	rs := refs(f.next("p", 4))
	was := f.list("p")
	half := append(verdicts(rs[:2], store.OrderVerdict{State: batch.OrderQueued, Group: "1"}), verdicts(rs[2:], store.OrderVerdict{State: batch.OrderQueued, Group: "2"})...)
	for _, bad := range []store.OrderRef{{ID: rs[3].ID, Version: 2}, {ID: "none", Version: 1}} {
		vs := append([]store.OrderVerdict(nil), half...)
		vs[3].OrderRef = bad
		assert.False(f, must(f.st.SplitOrders(f.ctx, vs))(f))
		assert.Equal(f, was, f.list("p"))
	}
	done := must(f.st.SplitOrders(f.ctx, half))(f)
	require.True(f, done)
	done = must(f.st.SplitOrders(f.ctx, half))(f)
	assert.False(f, done, "they are at another version by now")
	for i, r := range f.list("p") {
		was[i].Version, was[i].Group = 2, half[i].Group
		assert.Equal(f, was[i], r)
	}
}

func verdictsInvalid(f *fixture) {
	f.add(many("p", "o", 2)...)
	rs := refs(f.next("p", 2))
	was := f.list("p")
	for _, state := range []batch.OrderState{0, batch.OrderQueued, batch.OrderDequeued, batch.OrderConfirmed} {
		_, err := f.st.FailOrders(f.ctx, verdicts(rs, store.OrderVerdict{State: state}))
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%s", state)
	}
	for _, v := range []store.OrderVerdict{{}, {State: batch.OrderFailed}, {State: batch.OrderQueued, Group: "\xff"}} {
		_, err := f.st.SplitOrders(f.ctx, verdicts(rs, v))
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", v)
	}
	_, err := f.st.FailOrders(f.ctx, verdicts([]store.OrderRef{rs[0], rs[0]}, store.OrderVerdict{State: batch.OrderFailed}))
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	assert.Equal(f, was, f.list("p"))
}
