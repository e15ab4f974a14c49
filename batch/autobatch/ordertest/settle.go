package ordertest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func settleTests() []test {
	return []test{
		{name: "final batches, oldest first, up to the limit", run: settleFinds},
		{name: "what becomes of the orders of a batch that was committed", run: settleCommitted},
		{name: "what becomes of the orders of a batch that was refused", run: settleRefused},
		{name: "by compare-and-set, each batch alone", run: settleFenced},
		{name: "confirmed where the batch is committed, and nowhere else", run: settleAgrees},
		{name: "once, though a call names the batch twice", run: settleTwice},
		{name: "what no batch can have", run: settleInvalid},
	}
}

func settleFinds(f *fixture) {
	var bs []batch.Batch
	for _, p := range []batch.ServiceID{"c", "a", "b", "open"} {
		f.add(newOrders(p, string(p), 3)...)
		b, _ := f.prepare(p, batch.ID("batch of "+p), 2)
		bs = append(bs, b)
	}
	for _, i := range []int{2, 1, 0} {
		f.finish(bs[i], []store.Finding{store.IsCommitted, store.Refused}[i%2])
	}
	found := must(f.store.SettleableBatches(f.ctx, 9))(f)
	require.Len(f, found, 3)
	for i, b := range found {
		assert.Equal(f, must(f.store.Get(f.ctx, bs[i].Key()))(f), b.Record)
		assert.Equal(f, orderIDs(newOrders(bs[i].Service, string(bs[i].Service), 3))[:2], refIDs(b.Orders))
		for _, o := range b.Orders {
			assert.Equal(f, int64(2), o.Version)
		}
	}
	found = must(f.store.SettleableBatches(f.ctx, 2))(f)
	require.Len(f, found, 2)
	assert.Equal(f, bs[0].Key(), found[0].Record.Key)
}

func settleCommitted(f *fixture) {
	f.add(newOrders("p", "o", 3)...)
	b, rs := f.prepare("p", "b", 2)
	f.finish(b, store.IsCommitted)
	f.passUnits(1)
	s := f.settleable()
	require.True(f, f.settle(settlement(s, order.Verdict{State: order.Confirmed})))
	for i, r := range f.list("p")[:2] {
		assert.Equal(f, rs[i].ID, r.ID)
		assert.Equal(f, order.Confirmed, r.State)
		assert.Equal(f, int64(3), r.Version)
		assert.Equal(f, b.ID, r.Batch)
		assert.Equal(f, 1, r.Batches)
		assert.Nil(f, r.Error)
		assert.InDelta(f, 0, f.now().Sub(r.FinalAt).Seconds(), f.units(0.5).Seconds())
	}
	assert.Equal(f, order.Queued, f.list("p")[2].State)
	assert.Empty(f, must(f.store.SettleableBatches(f.ctx, 9))(f))
	r := must(f.store.Get(f.ctx, b.Key()))(f)
	assert.Greater(f, r.Version, s.Record.Version)
	r.Version = s.Record.Version
	assert.Equal(f, s.Record, r, "else the batch stays as it was")
}

func settleRefused(f *fixture) {
	os := newOrders("p", "o", 5)
	f.add(os...)
	b, rs := f.prepare("p", "b", 4)
	f.finish(b, store.Refused)
	s := settlement(f.settleable(), order.Verdict{})
	why := &batch.SubmissionError{Kind: batch.KindRejected, Message: "no\x00" + strings.Repeat("x", 5000)}
	s.Orders[0].State, s.Orders[0].Error = order.Quarantined, why
	s.Orders[1].State, s.Orders[1].Group = order.Queued, "half"
	s.Orders[2].State = order.Queued
	s.Orders[3].State, s.Orders[3].Error = order.Failed, &batch.SubmissionError{Kind: batch.KindCancelled}
	s.Orders[0], s.Orders[3] = s.Orders[3], s.Orders[0] // the order does not matter
	require.True(f, f.settle(s))
	got := f.list("p")
	assert.Equal(f, order.Quarantined, got[0].State)
	require.NotNil(f, got[0].Error)
	assert.Equal(f, why.Kind, got[0].Error.Kind)
	assert.Equal(f, batch.Excerpt(why.Message, batch.MaxErrorText), got[0].Error.Message)
	assert.Equal(f, order.Queued, got[1].State)
	assert.Equal(f, "half", got[1].Group)
	assert.Empty(f, got[2].Group)
	assert.Equal(f, batch.KindCancelled, got[3].Error.Kind)
	for i, r := range got[:4] {
		assert.Equal(f, r.State.Final(), !r.FinalAt.IsZero())
		assert.Equal(f, rs[i].Version+2, r.Version)
		assert.Equal(f, b.ID, r.Batch)
	}
	assert.Equal(f, []order.ID{os[1].ID}, queuedIDs(f.nextOrders("p", 9)))
	f.prepare("p", "b2", 9)
	f.finish(newBatch("p", "b2"), store.IsCommitted)
	second := f.settleable()
	assert.Equal(f, "half", second.Group)
	require.True(f, f.settle(settlement(second, order.Verdict{State: order.Confirmed})))
	assert.Equal(f, 2, f.record("p", os[1].ID).Batches)
	assert.Equal(f, batch.ID("b2"), f.record("p", os[1].ID).Batch)
	assert.Equal(f, []order.ID{os[2].ID, os[4].ID}, queuedIDs(f.nextOrders("p", 9)), "in its old place")
}

func settleFenced(f *fixture) {
	f.add(newOrders("p", "o", 3)...)
	f.add(newOrders("q", "q", 3)...)
	open, _ := f.prepare("p", "b", 2)
	good, _ := f.prepare("q", "c", 2)
	early := order.Settlement{Batch: open.Key(), Version: 1}
	for _, o := range f.list("p")[:2] {
		early.Orders = append(early.Orders, order.Verdict{Ref: order.Ref{ID: o.ID, Version: o.Version}, State: order.Queued})
	}
	assert.False(f, f.settle(early), "it is not final")
	f.finish(open, store.IsCommitted)
	s := settlement(f.settleable(), order.Verdict{State: order.Confirmed})
	was := f.list("p")
	for name, spoil := range map[string]func(*order.Settlement){
		"the batch's version": func(s *order.Settlement) { s.Version-- },
		"an order's version":  func(s *order.Settlement) { s.Orders[1].Version-- },
		"another order":       func(s *order.Settlement) { s.Orders[1].ID = "q00001" },
		"no order":            func(s *order.Settlement) { s.Orders[1].ID = "none" },
		"an order too few":    func(s *order.Settlement) { s.Orders = s.Orders[:1] },
		"another batch":       func(s *order.Settlement) { s.Batch.ID = "none" },
		"another service":     func(s *order.Settlement) { s.Batch.Service = "q" },
	} {
		bad := s
		bad.Orders = append([]order.Verdict(nil), s.Orders...)
		spoil(&bad)
		assert.False(f, f.settle(bad), name)
		assert.Equal(f, was, f.list("p"), name)
	}
	f.finish(good, store.IsCommitted)
	found := must(f.store.SettleableBatches(f.ctx, 9))(f)
	require.Len(f, found, 2)
	bad := s
	bad.Version--
	done := must(f.store.SettleOrders(f.ctx, []order.Settlement{bad, settlement(found[1], order.Verdict{State: order.Confirmed})}))(f)
	assert.Equal(f, []bool{false, true}, done)
	require.True(f, f.settle(s))
	assert.False(f, f.settle(s), "once")
	done = must(f.store.SettleOrders(f.ctx, nil))(f)
	assert.Empty(f, done)
}

func settleAgrees(f *fixture) {
	f.add(newOrders("p", "o", 2)...)
	f.add(newOrders("q", "q", 2)...)
	b, _ := f.prepare("p", "b", 2)
	c, _ := f.prepare("q", "c", 2)
	f.finish(b, store.IsCommitted)
	f.finish(c, store.Refused)
	found, err := f.store.SettleableBatches(f.ctx, 9)
	require.NoError(f, err)
	require.Len(f, found, 2)
	for _, state := range []order.State{order.Queued, order.Failed, order.Quarantined} {
		_, err := f.store.SettleOrders(f.ctx, []order.Settlement{settlement(found[0], order.Verdict{State: state})})
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%s", state)
	}
	_, err = f.store.SettleOrders(f.ctx, []order.Settlement{
		settlement(found[0], order.Verdict{State: order.Confirmed}), settlement(found[1], order.Verdict{State: order.Confirmed}),
	})
	require.ErrorIs(f, err, batch.ErrInvalidInput)
	again, err := f.store.SettleableBatches(f.ctx, 9)
	require.NoError(f, err)
	assert.Equal(f, found, again, "nothing of the call is changed")
}

func settleInvalid(f *fixture) {
	f.add(newOrders("p", "o", 2)...)
	b, _ := f.prepare("p", "b", 2)
	f.finish(b, store.Refused)
	for name, v := range map[string]order.Verdict{
		"dequeued":    {State: order.Dequeued},
		"none":        {},
		"a long name": {State: order.Queued, Group: strings.Repeat("g", 300)},
		"a bad name":  {State: order.Queued, Group: "\x00"},
	} {
		_, err := f.store.SettleOrders(f.ctx, []order.Settlement{settlement(f.settleable(), v)})
		require.ErrorIs(f, err, batch.ErrInvalidInput, name)
	}
	s := settlement(f.settleable(), order.Verdict{State: order.Queued})
	s.Orders[1] = s.Orders[0]
	_, err := f.store.SettleOrders(f.ctx, []order.Settlement{s})
	require.ErrorIs(f, err, batch.ErrInvalidInput, "twice")
}

func settleTwice(f *fixture) {
	f.add(newOrders("p", "o", 3)...)
	b, _ := f.prepare("p", "b", 2)
	f.finish(b, store.IsCommitted)
	s := settlement(f.settleable(), order.Verdict{State: order.Confirmed})
	other := s
	other.Batch.Service = "q"
	require.Equal(f, []bool{false, true, false}, must(f.store.SettleOrders(f.ctx, []order.Settlement{other, s, s}))(f))
	for _, r := range f.list("p")[:2] {
		assert.Equal(f, order.Confirmed, r.State)
	}
}
