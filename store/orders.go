package store

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Orders is what a driver implements for auto-batching, beside [Store]. All methods
// may be called concurrently, from any number of processes on one database; none
// retries, and none keeps a slice.
type Orders interface {
	OrderStore
	OrderEngine
}

// OrderStore is the application's half. SQL drivers also have AddOrdersTx, in the
// application's own transaction.
type OrderStore interface {
	// AddOrders stores all orders of the call, or none, in the order of the slice. nil
	// promises that they are durable. AddOrders of a party that do not overlap keep
	// their order. An order whose id, or whose party and key, is stored with the same
	// party and payload, or is an earlier one's of the call, is left as it is; with
	// another the error is [batch.ErrConflict]. Ids and keys are remembered until
	// [BatchStore].Prune removes the order, which it does once it has been final for as
	// long. An invalid one gives a [*batch.InputError]. Any other error leaves open
	// whether the call was stored: add again, it is harmless.
	AddOrders(ctx context.Context, orders ...batch.Order) error
	// FinalOrders returns the records of those of ids that are final, and those of ids
	// that are not stored; the others are open. In any order, each id once; its cost grows
	// with len(ids). As [BatchStore].Finals.
	FinalOrders(ctx context.Context, ids []batch.OrderID) (final []batch.OrderRecord, missing []batch.OrderID, err error)
	// ListOrders returns records in the order of (CreatedAt, ID) and the cursor to go on
	// with, "" at the end.
	ListOrders(ctx context.Context, q ListOrdersQuery) ([]batch.OrderRecord, Cursor, error)
}

// ListOrdersQuery selects orders; zero fields select all.
type ListOrdersQuery struct {
	Party  *batch.ServiceID
	States []batch.OrderState
	Batch  batch.ID
	Limit  int // defaults to 100, at most 1,000
	After  Cursor
}

// OrderEngine is the half that the loops of auto-batching use.
type OrderEngine interface {
	// Parties lists parties that have queued orders and no batch whose orders are
	// unsettled, in byte order after q.After, with what waits there; an order whose
	// deadline has passed counts until ExpireOrders has seen it. Fewer than q.Limit are
	// all there are. It locks nothing, and its cost grows with the parties returned and
	// those that have a batch, not with the orders that wait.
	Parties(ctx context.Context, q PartiesQuery) ([]PartyLoad, error)
	// NextOrders returns what the party's next batch is to be made of, with payloads: the
	// first split group, all of it, where there is one; else up to q.Max orders and
	// q.MaxBytes of payload (at least one order). Those of higher priority are first, then
	// by age, in a group as well, and the first group is that of the first order which is
	// in one. Orders whose deadline has passed are left out.
	NextOrders(ctx context.Context, party batch.ServiceID, q NextQuery) ([]QueuedOrder, error)
	// PrepareBatch stores b, as Add does, and makes the orders part of it (Dequeued), in
	// one transaction. It reports false, and changes nothing, where one of them has moved
	// on or is past its deadline, or the party has a batch with unsettled orders. Where it
	// was done already, by an earlier call with the same arguments, it reports true.
	// Where b's ID or DataChangeID is known otherwise, be it as an earlier batch of the
	// same orders, the error is [batch.ErrConflict]; where an order is not of the party
	// b.Service, is named twice, or none is, it is a [*batch.InputError].
	PrepareBatch(ctx context.Context, b batch.Batch, orders []OrderRef) (bool, error)
	// SettleableBatches returns batches that are final and whose orders are Dequeued, oldest
	// first (by CreatedAt, then ID), up to limit, each with its orders in the order in
	// which it was built. Its cost grows with what is in flight.
	SettleableBatches(ctx context.Context, limit int) ([]OrderBatch, error)
	// SettleOrders writes what becomes of the orders of batches, each batch by
	// compare-and-set on the versions of its orders and on the version of the batch,
	// in one transaction each or together. It names all orders of the batch. One that is
	// fenced reports false and changes nothing. It raises the version of the batch, and
	// from then on [Operator].Requeue of it is not allowed: its orders go their own ways.
	// Orders are Confirmed where their batch is Committed, and nowhere else: otherwise
	// the error is a [*batch.InputError], and nothing of the call is changed.
	SettleOrders(ctx context.Context, settled []Settlement) ([]bool, error)
	// FailOrders makes Queued orders Failed or Quarantined for a reason of their own: a
	// Builder refused one alone. By version; false where one has moved on. Another State
	// gives a [*batch.InputError].
	FailOrders(ctx context.Context, verdicts []OrderVerdict) ([]bool, error)
	// SplitOrders puts Queued orders into groups ("" for none), by version, all of the
	// call or none: a Builder refused them together. The State of a verdict is Queued.
	SplitOrders(ctx context.Context, verdicts []OrderVerdict) (bool, error)
	// ExpireOrders makes Queued orders whose deadline has passed Failed, with
	// [batch.KindExpired], those of the earliest deadline first, up to limit, and returns
	// how many. Its cost grows with those.
	ExpireOrders(ctx context.Context, limit int) (int, error)
}

// PartiesQuery asks for parties with something to do.
type PartiesQuery struct {
	After batch.ServiceID
	Start bool // there is no After
	Limit int  // at most; must be positive
	// Cap is up to how many orders of a party are counted. At least 1.
	Cap int
}

// PartyLoad is what waits at an idle party.
type PartyLoad struct {
	Party  batch.ServiceID
	Orders int // counted up to Cap
	Bytes  int // of the payloads of those
	// Oldest is how long the oldest of all has waited.
	Oldest time.Duration
	Urgent bool // one of those counted is; drivers may know of others
	Split  bool // a split group waits
}

// NextQuery bounds a batch.
type NextQuery struct {
	Max      int // orders, at least 1
	MaxBytes int // of payloads; 0 is unlimited
}

// OrderRef is an order at a version.
type OrderRef struct {
	ID      batch.OrderID
	Version int64
}

// QueuedOrder is an order that may become part of a batch.
type QueuedOrder struct {
	batch.Order
	Version int64
	Group   string
}

// OrderBatch is a batch and its orders.
type OrderBatch struct {
	Record batch.Record // final
	Orders []OrderRef   // in the order in which it was built
	Group  string       // that they were, "" where they were none
}

// Settlement is what becomes of the orders of a final batch.
type Settlement struct {
	Batch   batch.Key
	Version int64 // of the batch's record
	Orders  []OrderVerdict
}

// OrderVerdict is what becomes of one order.
type OrderVerdict struct {
	OrderRef
	// State is Confirmed, Failed, Quarantined, or Queued again.
	State batch.OrderState
	// Group, where it is Queued again: "" for none. Printable text, at most
	// [batch.MaxIDLen] bytes.
	Group string
	Error *batch.SubmissionError
}
