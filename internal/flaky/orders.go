package flaky

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Orders is a store of orders whose calls fail. ListOrders never fails.
type Orders struct {
	store.Orders
	F *Faults
}

// AddOrders is [store.OrderStore].AddOrders.
func (s *Orders) AddOrders(ctx context.Context, orders ...batch.Order) error {
	return done(s.F, "AddOrders", func() error { return s.Orders.AddOrders(ctx, orders...) })
}

type finalOrders struct {
	final   []batch.OrderRecord
	missing []batch.OrderID
}

// FinalOrders is [store.OrderStore].FinalOrders.
func (s *Orders) FinalOrders(ctx context.Context, ids []batch.OrderID) ([]batch.OrderRecord, []batch.OrderID, error) {
	v, err := call(s.F, "FinalOrders", func() (v finalOrders, err error) {
		v.final, v.missing, err = s.Orders.FinalOrders(ctx, ids)
		return v, err
	})
	return v.final, v.missing, err
}

// Parties is [store.OrderEngine].Parties.
func (s *Orders) Parties(ctx context.Context, q store.PartiesQuery) ([]store.PartyLoad, error) {
	return call(s.F, "Parties", func() ([]store.PartyLoad, error) { return s.Orders.Parties(ctx, q) })
}

// NextOrders is [store.OrderEngine].NextOrders.
func (s *Orders) NextOrders(ctx context.Context, party batch.ServiceID, q store.NextQuery) ([]store.QueuedOrder, error) {
	return call(s.F, "NextOrders", func() ([]store.QueuedOrder, error) { return s.Orders.NextOrders(ctx, party, q) })
}

// PrepareBatch is [store.OrderEngine].PrepareBatch.
func (s *Orders) PrepareBatch(ctx context.Context, b batch.Batch, orders []store.OrderRef) (bool, error) {
	return call(s.F, "PrepareBatch", func() (bool, error) { return s.Orders.PrepareBatch(ctx, b, orders) })
}

// SettleableBatches is [store.OrderEngine].SettleableBatches.
func (s *Orders) SettleableBatches(ctx context.Context, limit int) ([]store.OrderBatch, error) {
	return call(s.F, "SettleableBatches", func() ([]store.OrderBatch, error) { return s.Orders.SettleableBatches(ctx, limit) })
}

// SettleOrders is [store.OrderEngine].SettleOrders.
func (s *Orders) SettleOrders(ctx context.Context, settled []store.Settlement) ([]bool, error) {
	return call(s.F, "SettleOrders", func() ([]bool, error) { return s.Orders.SettleOrders(ctx, settled) })
}

// FailOrders is [store.OrderEngine].FailOrders.
func (s *Orders) FailOrders(ctx context.Context, verdicts []store.OrderVerdict) ([]bool, error) {
	return call(s.F, "FailOrders", func() ([]bool, error) { return s.Orders.FailOrders(ctx, verdicts) })
}

// SplitOrders is [store.OrderEngine].SplitOrders.
func (s *Orders) SplitOrders(ctx context.Context, verdicts []store.OrderVerdict) (bool, error) {
	return call(s.F, "SplitOrders", func() (bool, error) { return s.Orders.SplitOrders(ctx, verdicts) })
}

// ExpireOrders is [store.OrderEngine].ExpireOrders.
func (s *Orders) ExpireOrders(ctx context.Context, limit int) ([]store.OrderVerdict, error) {
	return call(s.F, "ExpireOrders", func() ([]store.OrderVerdict, error) { return s.Orders.ExpireOrders(ctx, limit) })
}
