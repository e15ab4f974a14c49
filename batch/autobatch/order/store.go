package order

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Store is the contract of auto-batching that a driver implements, in addition to [store.Store].
// All methods may be called concurrently, from any number of processes on one database; none
// retries, and none keeps a slice. AddOrders, FinalOrders, ListOrders and FindOrders are for the
// application and for operators; a SQL driver also has AddOrdersTx, in the application's own
// transaction. The loops of auto-batching call the other methods.
type Store interface {
	// AddOrders stores all orders of the call, or none, in the order of the slice. nil
	// promises that they are durable. AddOrders of a party that do not overlap keep their
	// order. Where a stored order, or an earlier order that this call stores, has the same id, or
	// the same party and key, and the same party and payload, the order counts as stored and the
	// earlier one stays; with another party or payload the error is [batch.ErrConflict]. The
	// store remembers ids and keys until [store.Store].Prune removes the order, once it has
	// been final for long enough. An invalid order gives a [*batch.InputError]. Any other
	// error leaves open whether the call was stored: add again, it is harmless.
	AddOrders(ctx context.Context, orders ...Order) error
	// FinalOrders returns the records of all ids whose orders are final, and separately the
	// ids that are not stored; the other orders are open. The order is any; each id comes
	// once. Its cost grows with len(ids). It works as [store.Store].Finals.
	FinalOrders(ctx context.Context, ids []ID) (final []Record, missing []ID, err error)
	// ListOrders returns records in the order of (CreatedAt, ID) and the cursor for the next
	// call, "" at the end.
	ListOrders(ctx context.Context, q ListQuery) ([]Record, store.Cursor, error)
	// FindOrders returns the records of the orders that q names, in byte order of what was asked
	// for; more says that others match, too. Nothing found is no error. It works as
	// [store.Store].Find.
	FindOrders(ctx context.Context, q FindQuery) (found []Record, more bool, err error)
	// Parties lists parties that have queued orders and no batch whose orders are unsettled,
	// in byte order after q.After, each with the load that waits there. An order whose
	// deadline has passed counts until ExpireOrders handles it. Fewer parties than q.Limit
	// mean that there are no more. It locks nothing, and its cost grows with the parties
	// returned and the parties that have a batch, not with the orders that wait.
	Parties(ctx context.Context, q PartiesQuery) ([]PartyLoad, error)
	// NextOrders returns the orders for the party's next batch, with payloads. Where the party
	// has split groups, they are the first group, all of it; else up to q.Max orders and
	// q.MaxBytes of payload (at least one order). Higher priority comes first, then age, in a
	// group as well; the first group is the group of the first order that is in a group.
	// NextOrders leaves out orders whose deadline has passed.
	NextOrders(ctx context.Context, party batch.ServiceID, q NextQuery) ([]Waiting, error)
	// PrepareBatch stores b, as Add does, and makes the orders part of it (Dequeued), in one
	// transaction. It returns false, and changes nothing, where an order has moved on or is
	// past its deadline, or the party has a batch with unsettled orders. Where an earlier call
	// with the same arguments has done it already, it returns true. Where b's ID or
	// DataChangeID is known otherwise, even from an earlier batch of the same orders, the
	// error is [batch.ErrConflict]. An empty list, an order named twice and an order of
	// another party than b.Service give a [*batch.InputError].
	PrepareBatch(ctx context.Context, b batch.Batch, orders []Ref) (bool, error)
	// SettleableBatches returns final batches whose orders are Dequeued, oldest first (by
	// CreatedAt, then ID), up to limit, each with its orders in the order in which it was
	// built. Its cost grows with the batches in flight.
	SettleableBatches(ctx context.Context, limit int) ([]Batch, error)
	// SettleOrders applies verdicts to the orders of batches, each batch by compare-and-set on
	// the versions of its orders and on the version of the batch, in one transaction each or
	// together. A settlement names all orders of the batch. A fenced settlement gives false
	// and changes nothing. SettleOrders raises the version of the batch, and from then on
	// [store.Store].Requeue refuses the batch: its orders may join other batches. Orders of a
	// Committed batch are Confirmed, and no others are: otherwise the error is a
	// [*batch.InputError], and the call changes nothing.
	SettleOrders(ctx context.Context, settled []Settlement) ([]bool, error)
	// FailOrders makes Queued orders Failed or Quarantined for a reason of their own: a
	// Builder refused each alone. It fences by version: false where an order has moved on.
	// Another State gives a [*batch.InputError].
	FailOrders(ctx context.Context, verdicts []Verdict) ([]bool, error)
	// SplitOrders puts Queued orders into groups ("" for none), by version, all of the call or
	// none: a Builder refused them together. The State of each verdict is Queued.
	SplitOrders(ctx context.Context, verdicts []Verdict) (bool, error)
	// ExpireOrders makes Queued orders whose deadline has passed Failed, with
	// [KindExpired], the earliest deadline first, up to limit, and returns them as they are
	// then. Its cost grows with their number. After an error they may have expired all the same.
	ExpireOrders(ctx context.Context, limit int) ([]Verdict, error)
	// Tell and Hear work as [store.Store].Tell and Hear. Where no hints are possible the error is
	// [store.ErrUnsupported].
	Tell(ctx context.Context, h store.Hint) error
	Hear(ctx context.Context, l store.Listener) error
}

// ListQuery selects orders; zero fields select all.
type ListQuery struct {
	Party  *batch.ServiceID
	States []State
	Batch  batch.ID
	Limit  int // defaults to 100, at most 1,000
	After  store.Cursor
}

// Bounded returns the query with a limit: the default if it has none, and at most the maximum.
func (q ListQuery) Bounded() ListQuery {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	q.Limit = min(q.Limit, 1000)
	return q
}

// FindQuery asks for orders by an id, a caller's key, or the beginning of one of them.
type FindQuery struct {
	// ID or Key is the text to find; the other is empty.
	ID  ID
	Key string
	// Begins is true if ID or Key is only the beginning of the text to find.
	Begins bool
	Limit  int // defaults to 10, at most 100
}

// Bounded returns the query with a limit: the default if it has none, and at most the maximum.
func (q FindQuery) Bounded() FindQuery {
	if q.Limit <= 0 {
		q.Limit = 10
	}
	q.Limit = min(q.Limit, 100)
	return q
}

// Validate reports whether the query makes sense. The error is a [*batch.InputError].
func (q FindQuery) Validate() error {
	if (q.ID == "") == (q.Key == "") {
		return &batch.InputError{Field: "FindQuery", Want: "an ID or a Key"}
	}
	return nil
}

// PartiesQuery asks for parties with something to do.
type PartiesQuery struct {
	After batch.ServiceID
	Start bool // whether to begin at the first party, without After
	Limit int  // most parties returned; must be positive
	// Cap bounds the count of a party's orders. At least 1.
	Cap int
}

// PartyLoad is the load that waits at an idle party.
type PartyLoad struct {
	Party  batch.ServiceID
	Orders int // counted up to Cap
	Bytes  int // size of the payloads of the counted orders
	// Oldest is how long the party's oldest order has waited. It is negative if the clock has
	// stepped back since.
	Oldest time.Duration
	Urgent bool // whether a counted order is urgent; a driver may look at further orders
	Split  bool // whether a split group waits
}

// NextQuery bounds a batch.
type NextQuery struct {
	Max      int // most orders; at least 1
	MaxBytes int // most bytes of payloads; 0 means unlimited
}

// Cut returns how many orders at the front of a queue, of these sizes, make one batch.
func (q NextQuery) Cut(sizes []int) int {
	n, total := 0, 0
	for n < len(sizes) && n < max(1, q.Max) {
		total += sizes[n]
		if n > 0 && q.MaxBytes > 0 && total > q.MaxBytes {
			break
		}
		n++
	}
	return n
}

// Ref is an order at a version. Stores fill in TraceParent and Created, which never change, and do
// without them in the orders that they are given.
type Ref struct {
	ID          ID
	Version     int64
	TraceParent string    // the same as in [Order]
	Created     time.Time // when the order was added
}

// Waiting is an order that may become part of a batch.
type Waiting struct {
	Order
	Version int64
	Group   string
	Created time.Time // when the order was added
}

// Batch is a batch and its orders.
type Batch struct {
	Record batch.Record // record of the batch, which is final
	Orders []Ref        // orders in the order in which the batch was built
	Group  string       // the orders' group; "" for none
}

// Settlement holds the verdicts about the orders of a final batch.
type Settlement struct {
	Batch   batch.Key
	Version int64 // version of the batch's record
	Orders  []Verdict
	// TraceParent is that of the batch's record. No store reads it.
	TraceParent string
}

// Verdict is the verdict about one order.
type Verdict struct {
	Ref
	// State is Confirmed, Failed, Quarantined, or Queued again.
	State State
	// Group counts if State is Queued; "" means no group. It is printable text of at most
	// [batch.MaxIDLen] bytes.
	Group string
	Error *batch.SubmissionError
}
