package ordercrash

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the store of a worker.
type Store interface {
	store.Store
	order.Store
}

// killerStore is a store that kills the process in the windows of its calls.
type killerStore struct {
	Store
	killer *killer
}

func (s killerStore) AddOrders(ctx context.Context, orders ...order.Order) error {
	_, err := inStoreCall(ctx, s.killer, callAddOrders, func(ctx context.Context) (bool, error) { return true, s.Store.AddOrders(ctx, orders...) })
	return err
}

func (s killerStore) PrepareBatch(ctx context.Context, b batch.Batch, orders []order.Ref) (bool, error) {
	return inStoreCall(ctx, s.killer, callPrepareBatch, func(ctx context.Context) (bool, error) { return s.Store.PrepareBatch(ctx, b, orders) })
}

// Claim is called all the time, and mostly finds nothing. So the windows after it count only
// claims that took batches.
func (s killerStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	c, err := s.Store.Claim(context.WithValue(ctx, storeCallKey{}, callClaim), q, choose)
	if err == nil && len(c.Runs) > 0 {
		s.killer.dieIfReached(callClaim.after())
	}
	return c, err
}

func (s killerStore) KeepPrepared(ctx context.Context, p []store.Prepared) ([]bool, error) {
	return inStoreCall(ctx, s.killer, callKeepPrepared, func(ctx context.Context) ([]bool, error) { return s.Store.KeepPrepared(ctx, p) })
}

func (s killerStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	return inStoreCall(ctx, s.killer, callRecord, func(ctx context.Context) ([]store.Applied, error) { return s.Store.Record(ctx, o) })
}

func (s killerStore) SettleOrders(ctx context.Context, settled []order.Settlement) ([]bool, error) {
	o := callSettleOrders
	for _, x := range settled {
		if x.Orders[0].Group != x.Orders[len(x.Orders)-1].Group {
			o = callSplitOrders
		}
	}
	return inStoreCall(ctx, s.killer, o, func(ctx context.Context) ([]bool, error) { return s.Store.SettleOrders(ctx, settled) })
}

func (s killerStore) SplitOrders(ctx context.Context, v []order.Verdict) (bool, error) {
	return inStoreCall(ctx, s.killer, callSplitOrders, func(ctx context.Context) (bool, error) { return s.Store.SplitOrders(ctx, v) })
}

func (s killerStore) FailOrders(ctx context.Context, v []order.Verdict) ([]bool, error) {
	return inStoreCall(ctx, s.killer, callSettleOrders, func(ctx context.Context) ([]bool, error) { return s.Store.FailOrders(ctx, v) })
}
