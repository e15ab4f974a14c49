package autobatch_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// mortal is the store of one process. At its last call the process dies, before or after the call
// takes effect: the caller gets no answer, and later calls do not reach the store.
type mortal struct {
	*watched
	last  uint64 // 0 means that the process does not die
	after bool
	calls atomic.Uint64
	dead  atomic.Bool
	kill  context.CancelFunc
	died  func()
}

var errDead = errors.New("this process is dead")

func step[T any](m *mortal, f func() (T, error)) (T, error) {
	var none T
	if m.dead.Load() {
		return none, errDead
	}
	if n := m.calls.Add(1); m.last != 0 && n >= m.last {
		if m.after && n == m.last {
			_, _ = f()
		}
		m.dead.Store(true)
		m.died()
		m.kill()
		return none, errDead
	}
	return f()
}

func (m *mortal) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	return step(m, func() (store.Claimed, error) { return m.watched.Claim(ctx, q, choose) })
}

func (m *mortal) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	return step(m, func() ([]store.Applied, error) { return m.watched.Record(ctx, o) })
}

func (m *mortal) AddOrders(ctx context.Context, orders ...order.Order) error {
	_, err := step(m, func() (bool, error) { return true, m.watched.AddOrders(ctx, orders...) })
	return err
}

func (m *mortal) Parties(ctx context.Context, q order.PartiesQuery) ([]order.PartyLoad, error) {
	return step(m, func() ([]order.PartyLoad, error) { return m.watched.Parties(ctx, q) })
}

func (m *mortal) NextOrders(ctx context.Context, p batch.ServiceID, q order.NextQuery) ([]order.Waiting, error) {
	return step(m, func() ([]order.Waiting, error) { return m.watched.NextOrders(ctx, p, q) })
}

func (m *mortal) PrepareBatch(ctx context.Context, b batch.Batch, o []order.Ref) (bool, error) {
	return step(m, func() (bool, error) { return m.watched.PrepareBatch(ctx, b, o) })
}

func (m *mortal) SettleableBatches(ctx context.Context, n int) ([]order.Batch, error) {
	return step(m, func() ([]order.Batch, error) { return m.watched.SettleableBatches(ctx, n) })
}

func (m *mortal) SettleOrders(ctx context.Context, s []order.Settlement) ([]bool, error) {
	return step(m, func() ([]bool, error) { return m.watched.SettleOrders(ctx, s) })
}

func (m *mortal) FailOrders(ctx context.Context, v []order.Verdict) ([]bool, error) {
	return step(m, func() ([]bool, error) { return m.watched.FailOrders(ctx, v) })
}

func (m *mortal) SplitOrders(ctx context.Context, v []order.Verdict) (bool, error) {
	return step(m, func() (bool, error) { return m.watched.SplitOrders(ctx, v) })
}

func (m *mortal) ExpireOrders(ctx context.Context, n int) ([]order.Verdict, error) {
	return step(m, func() ([]order.Verdict, error) { return m.watched.ExpireOrders(ctx, n) })
}
