package order

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// Builder makes one batch of orders of one party. After a crash it is called again with the
// same orders. A batch is built once and stored, so that every attempt sends the same bytes.
// The application writes its Builder, or takes a ledger's.
type Builder interface {
	// Build returns a batch whose Service is the party. Its ID must be new: no batch of other
	// orders, and no earlier batch of these orders, may have had it. The same orders can be
	// built again after their batch was given up; that is another batch. orders has at least
	// one element, in the order in which they are to take effect; Build must not keep the
	// slice. An error that wraps [batch.ErrInvalidInput] means that no batch can be made of these
	// orders: they are split as after a refusal by the ledger, and a single order is
	// Quarantined. After any other error Build is tried again later.
	Build(ctx context.Context, party batch.ServiceID, orders []Order) (batch.Batch, error)
}

// RoundBuilder is a [Builder] that derives the ids of its batches from the orders. Such a
// Builder must implement it: when a batch came to nothing and its orders wait again, the next
// batch of the same orders needs another id. The Builders of dlt/sawtooth and dlt/canton are
// RoundBuilders. A Builder whose ids are random, or count up, need not be one.
type RoundBuilder interface {
	Builder
	// BuildRound is Build for orders that may have been part of batches before. round is 0 for
	// orders without an earlier batch, and differs for every new batch of the same orders; any
	// other number from 1 on may come. The same orders and round give the same batch.
	BuildRound(ctx context.Context, party batch.ServiceID, orders []Order, round int64) (batch.Batch, error)
}

// BuilderFunc makes a [Builder] of a func.
type BuilderFunc func(ctx context.Context, party batch.ServiceID, orders []Order) (batch.Batch, error)

// Build calls f.
func (f BuilderFunc) Build(ctx context.Context, party batch.ServiceID, orders []Order) (batch.Batch, error) {
	return f(ctx, party, orders)
}
