package batch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"time"
)

// OrderID names an order; unique in a store. At most [MaxIDLen] bytes of text.
type OrderID string

// Order is one request, a transfer say, that auto-batching (docs/glossary.md#auto-batch) turns,
// with others of its party, into one batch. It does not change once it is stored.
type Order struct {
	ID    OrderID
	Party ServiceID // whose batches carry it

	// Payload is what the application's [Builder] makes its part of a batch from.
	Payload []byte
	// Priority: higher ones are taken first; those of one priority in the order of Add.
	// It has 32 bits.
	Priority int
	// Urgent orders wait for no company: they leave as soon as their party is idle, and
	// take along what waits. They go ahead of nobody; Priority says who does.
	Urgent bool
	// Deadline, where it is not zero, fails an order that is not part of a batch by then,
	// on the database's clock. It is kept to the microsecond.
	Deadline time.Time
	// Key is the caller's idempotency key, unique within the party. May be "".
	Key string
}

// KindExpired is why an order Failed that was not part of a batch by its deadline.
const KindExpired ErrorKind = "expired"

// Hash is what two orders of one id, or of one key, are compared by: the SHA-256 of
// their payload.
func (o Order) Hash() [sha256.Size]byte { return sha256.Sum256(o.Payload) }

// Validate reports whether the order can be stored. The error is an [*InputError].
func (o Order) Validate() error {
	switch {
	case o.ID == "":
		return &InputError{Field: "Order.ID", Want: "not empty"}
	case len(o.Payload) == 0:
		return &InputError{Field: "Order.Payload", Want: "not empty"}
	case len(o.Payload) > MaxPayload:
		return &InputError{Field: "Order.Payload", Value: itoa(len(o.Payload)) + " bytes", Want: "at most " + itoa(MaxPayload) + " bytes"}
	case !o.Deadline.IsZero() && (o.Deadline.Year() > 9999 || o.Deadline.UnixMicro() <= 0):
		return &InputError{Field: "Order.Deadline", Value: o.Deadline.String(), Want: "zero for none, or after the beginning of 1970, in UTC, and before 10000"}
	case int64(o.Priority) < math.MinInt32 || int64(o.Priority) > math.MaxInt32:
		return &InputError{Field: "Order.Priority", Value: itoa(o.Priority), Want: "at most 32 bits"}
	}
	if err := checkText("Order.ID", string(o.ID), MaxIDLen); err != nil {
		return err
	}
	if err := checkText("Order.Party", string(o.Party), MaxIDLen); err != nil {
		return err
	}
	return checkText("Order.Key", o.Key, MaxIDLen)
}

// OrderState is where an order stands. The values are stored: they never change
// their meaning.
type OrderState uint8

// The states. docs/glossary.md#auto-batch has the first two; the others say what became of it.
const (
	// OrderQueued waits for its party to be idle.
	OrderQueued OrderState = iota + 1
	// OrderDequeued is part of a batch whose outcome is open.
	OrderDequeued
	// OrderConfirmed is final: part of a batch that was committed.
	OrderConfirmed
	// OrderFailed is final: its deadline passed before it was part of a batch
	// ([KindExpired]), or a person ended its batch.
	OrderFailed
	// OrderQuarantined is final: it was refused alone, by the ledger, or by the
	// [Builder], which can make no batch of it. Never by inference.
	OrderQuarantined
)

var orderStateNames = [...]string{
	OrderQueued: "queued", OrderDequeued: "dequeued", OrderConfirmed: "confirmed", OrderFailed: "failed", OrderQuarantined: "quarantined",
}

// String returns the state's name in lower case.
func (s OrderState) String() string {
	if s < OrderQueued || s > OrderQuarantined {
		return fmt.Sprintf("order state(%d)", uint8(s))
	}
	return orderStateNames[s]
}

// Final reports whether nothing changes an order in this state any more.
func (s OrderState) Final() bool { return s >= OrderConfirmed && s <= OrderQuarantined }

// OrderRecord is a stored order as the application sees it, without its payload.
// Times are the database's, in UTC, to the microsecond.
type OrderRecord struct {
	ID        OrderID    `json:"id"`
	Party     ServiceID  `json:"party"`
	Key       string     `json:"key,omitzero"`
	Priority  int        `json:"priority,omitzero"`
	Urgent    bool       `json:"urgent,omitzero"`
	Deadline  time.Time  `json:"deadline,omitzero"`
	State     OrderState `json:"state"`
	Version   int64      `json:"version"` // raised by every change
	CreatedAt time.Time  `json:"created_at"`
	FinalAt   time.Time  `json:"final_at,omitzero"`
	// Batch that it is part of, or was last; "" before the first.
	Batch ID `json:"batch,omitzero"`
	// Group it was split into after a refusal; "" where it never was.
	Group string `json:"group,omitzero"`
	// Batches is how many batches it has been part of.
	Batches int              `json:"batches"`
	Error   *SubmissionError `json:"error,omitzero"` // why it Failed or is Quarantined
}

// Builder makes one batch of orders of one party. It is called again with the same
// orders after a crash; a batch is built once and stored, so that every attempt
// sends the same bytes. The application writes it, or takes a ledger's.
type Builder interface {
	// Build returns a batch whose Service is the party, of an ID that no batch of other
	// orders and no earlier batch of these ever had: they may be built again after a
	// batch that was given up, and that is another one. orders are in the order in which they are
	// to take effect, at least one; it does not keep them. An error that wraps
	// [ErrInvalidInput] says that no batch can be made of these orders: they are split
	// as after a refusal by the ledger, and one alone is Quarantined. Any other is tried
	// again later.
	Build(ctx context.Context, party ServiceID, orders []Order) (Batch, error)
}

// RoundBuilder is a [Builder] that makes the ids of its batches from the orders.
// Such a one must be asked this way: when a batch came to nothing and its orders wait
// again, another batch of the same orders needs another id. The Builders of
// dlt/sawtooth and dlt/canton are RoundBuilders. A Builder whose ids are random, or
// count up, need not be.
type RoundBuilder interface {
	Builder
	// BuildRound is Build for orders that may have been part of batches before; round
	// is 0 where none was, and differs each time that the same orders are to be made
	// another batch of. The same orders and round give the same batch.
	BuildRound(ctx context.Context, party ServiceID, orders []Order, round int64) (Batch, error)
}

// BuilderFunc is a [Builder] that is a func.
type BuilderFunc func(ctx context.Context, party ServiceID, orders []Order) (Batch, error)

// Build calls f.
func (f BuilderFunc) Build(ctx context.Context, party ServiceID, orders []Order) (Batch, error) {
	return f(ctx, party, orders)
}
