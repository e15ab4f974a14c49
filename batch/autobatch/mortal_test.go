package autobatch_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// mortalStore is the store of one process. At its last call the process dies, before or after the
// call takes effect: the caller gets no answer, and later calls do not reach the store.
type mortalStore struct {
	*unsettledStore
	lastCall      uint64 // 0 means that the process does not die
	diesAfterCall bool
	calls         atomic.Uint64
	isDead        atomic.Bool
	kill          context.CancelFunc
	onDeath       func()
}

var errDead = errors.New("this process is dead")

func callOf[T any](m *mortalStore, f func() (T, error)) (T, error) {
	var none T
	if m.isDead.Load() {
		return none, errDead
	}
	if n := m.calls.Add(1); m.lastCall != 0 && n >= m.lastCall {
		if m.diesAfterCall && n == m.lastCall {
			_, _ = f()
		}
		m.isDead.Store(true)
		m.onDeath()
		m.kill()
		return none, errDead
	}
	return f()
}

func (m *mortalStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	return callOf(m, func() (store.Claimed, error) { return m.unsettledStore.Claim(ctx, q, choose) })
}

func (m *mortalStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	return callOf(m, func() ([]store.Applied, error) { return m.unsettledStore.Record(ctx, o) })
}

func (m *mortalStore) AddOrders(ctx context.Context, orders ...order.Order) error {
	_, err := callOf(m, func() (bool, error) { return true, m.unsettledStore.AddOrders(ctx, orders...) })
	return err
}

func (m *mortalStore) Parties(ctx context.Context, q order.PartiesQuery) ([]order.PartyLoad, error) {
	return callOf(m, func() ([]order.PartyLoad, error) { return m.unsettledStore.Parties(ctx, q) })
}

func (m *mortalStore) NextOrders(ctx context.Context, p batch.ServiceID, q order.NextQuery) ([]order.Waiting, error) {
	return callOf(m, func() ([]order.Waiting, error) { return m.unsettledStore.NextOrders(ctx, p, q) })
}

func (m *mortalStore) PrepareBatch(ctx context.Context, b batch.Batch, o []order.Ref) (bool, error) {
	return callOf(m, func() (bool, error) { return m.unsettledStore.PrepareBatch(ctx, b, o) })
}

func (m *mortalStore) SettleableBatches(ctx context.Context, n int) ([]order.Batch, error) {
	return callOf(m, func() ([]order.Batch, error) { return m.unsettledStore.SettleableBatches(ctx, n) })
}

func (m *mortalStore) SettleOrders(ctx context.Context, s []order.Settlement) ([]bool, error) {
	return callOf(m, func() ([]bool, error) { return m.unsettledStore.SettleOrders(ctx, s) })
}

func (m *mortalStore) FailOrders(ctx context.Context, v []order.Verdict) ([]bool, error) {
	return callOf(m, func() ([]bool, error) { return m.unsettledStore.FailOrders(ctx, v) })
}

func (m *mortalStore) SplitOrders(ctx context.Context, v []order.Verdict) (bool, error) {
	return callOf(m, func() (bool, error) { return m.unsettledStore.SplitOrders(ctx, v) })
}

func (m *mortalStore) ExpireOrders(ctx context.Context, n int) ([]order.Verdict, error) {
	return callOf(m, func() ([]order.Verdict, error) { return m.unsettledStore.ExpireOrders(ctx, n) })
}
