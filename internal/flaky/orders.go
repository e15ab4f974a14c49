package flaky

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// Orders is a store of orders whose calls fail, except ListOrders.
type Orders struct {
	order.Store
	Faults *Faults
}

// AddOrders is [order.Store].AddOrders.
func (s *Orders) AddOrders(ctx context.Context, orders ...order.Order) error {
	return callForError(s.Faults, "AddOrders", func() error { return s.Store.AddOrders(ctx, orders...) })
}

type finalOrdersAnswer struct {
	final     []order.Record
	notStored []order.ID
}

// FinalOrders is [order.Store].FinalOrders.
func (s *Orders) FinalOrders(ctx context.Context, ids []order.ID) ([]order.Record, []order.ID, error) {
	v, err := callWithFaults(s.Faults, "FinalOrders", func() (v finalOrdersAnswer, err error) {
		v.final, v.notStored, err = s.Store.FinalOrders(ctx, ids)
		return v, err
	})
	return v.final, v.notStored, err
}

// Parties is [order.Store].Parties.
func (s *Orders) Parties(ctx context.Context, q order.PartiesQuery) ([]order.PartyLoad, error) {
	return callWithFaults(s.Faults, "Parties", func() ([]order.PartyLoad, error) { return s.Store.Parties(ctx, q) })
}

// NextOrders is [order.Store].NextOrders.
func (s *Orders) NextOrders(ctx context.Context, party batch.ServiceID, q order.NextQuery) ([]order.Waiting, error) {
	return callWithFaults(s.Faults, "NextOrders", func() ([]order.Waiting, error) { return s.Store.NextOrders(ctx, party, q) })
}

// PrepareBatch is [order.Store].PrepareBatch.
func (s *Orders) PrepareBatch(ctx context.Context, b batch.Batch, orders []order.Ref) (bool, error) {
	return callWithFaults(s.Faults, "PrepareBatch", func() (bool, error) { return s.Store.PrepareBatch(ctx, b, orders) })
}

// SettleableBatches is [order.Store].SettleableBatches.
func (s *Orders) SettleableBatches(ctx context.Context, limit int) ([]order.Batch, error) {
	return callWithFaults(s.Faults, "SettleableBatches", func() ([]order.Batch, error) { return s.Store.SettleableBatches(ctx, limit) })
}

// SettleOrders is [order.Store].SettleOrders.
func (s *Orders) SettleOrders(ctx context.Context, settled []order.Settlement) ([]bool, error) {
	return callWithFaults(s.Faults, "SettleOrders", func() ([]bool, error) { return s.Store.SettleOrders(ctx, settled) })
}

// FailOrders is [order.Store].FailOrders.
func (s *Orders) FailOrders(ctx context.Context, verdicts []order.Verdict) ([]bool, error) {
	return callWithFaults(s.Faults, "FailOrders", func() ([]bool, error) { return s.Store.FailOrders(ctx, verdicts) })
}

// SplitOrders is [order.Store].SplitOrders.
func (s *Orders) SplitOrders(ctx context.Context, verdicts []order.Verdict) (bool, error) {
	return callWithFaults(s.Faults, "SplitOrders", func() (bool, error) { return s.Store.SplitOrders(ctx, verdicts) })
}

// ExpireOrders is [order.Store].ExpireOrders.
func (s *Orders) ExpireOrders(ctx context.Context, limit int) ([]order.Verdict, error) {
	return callWithFaults(s.Faults, "ExpireOrders", func() ([]order.Verdict, error) { return s.Store.ExpireOrders(ctx, limit) })
}
