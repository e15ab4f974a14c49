package order

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// ID names an order, uniquely in a store. At most [batch.MaxIDLen] bytes of text.
type ID string

// Order is one request, for example a transfer. Auto-batching (docs/glossary.md#auto-batch)
// turns the orders of a party into batches. An Order does not change once it is stored.
type Order struct {
	ID    ID
	Party batch.ServiceID // its batches carry the order

	// Payload is the input from which the application's [Builder] makes this order's part of a
	// batch.
	Payload []byte
	// Priority: orders with a higher one are taken first; orders of equal priority in the
	// order of Add. It has 32 bits.
	Priority int
	// Urgent makes the order leave as soon as its party is idle, together with all waiting
	// orders. It does not put the order ahead of others; Priority does.
	Urgent bool
	// Deadline, if not zero, fails the order if it is not part of a batch by then, on the
	// database's clock. It is kept to the microsecond.
	Deadline time.Time
	// Key is the caller's idempotency key, unique within the party. May be "".
	Key string
	// TraceParent is the trace context of whoever adds the order ([batch.ValidTraceParent]), or "". It is
	// stored with the order, and changes nothing about it: docs/operations.md#traces.
	TraceParent string
}

// KindExpired is the error of an order that Failed because no batch took it before its
// deadline.
const KindExpired batch.ErrorKind = "expired"

// Hash returns the SHA-256 of the payload. Two orders of one id, or of one key, are the same
// if their hashes are.
func (o Order) Hash() [sha256.Size]byte { return sha256.Sum256(o.Payload) }

// Validate reports whether the order can be stored. The error is an [*batch.InputError].
func (o Order) Validate() error {
	switch {
	case o.ID == "":
		return &batch.InputError{Field: "Order.ID", Want: "not empty"}
	case len(o.Payload) == 0:
		return &batch.InputError{Field: "Order.Payload", Want: "not empty"}
	case len(o.Payload) > batch.MaxPayload:
		return &batch.InputError{Field: "Order.Payload", Value: strconv.Itoa(len(o.Payload)) + " bytes", Want: "at most " + strconv.Itoa(batch.MaxPayload) + " bytes"}
	case !o.Deadline.IsZero() && (o.Deadline.Year() > 9999 || o.Deadline.UnixMicro() <= 0):
		return &batch.InputError{Field: "Order.Deadline", Value: o.Deadline.String(), Want: "zero for none, or after the beginning of 1970, in UTC, and before 10000"}
	case int64(o.Priority) < math.MinInt32 || int64(o.Priority) > math.MaxInt32:
		return &batch.InputError{Field: "Order.Priority", Value: strconv.Itoa(o.Priority), Want: "at most 32 bits"}
	}
	if o.TraceParent != "" && !batch.ValidTraceParent(o.TraceParent) {
		return &batch.InputError{Field: "Order.TraceParent", Value: batch.Excerpt(o.TraceParent, 64), Want: "a traceparent of version 00"}
	}
	if err := batch.CheckText("Order.ID", string(o.ID), batch.MaxIDLen); err != nil {
		return err
	}
	if err := batch.CheckText("Order.Party", string(o.Party), batch.MaxIDLen); err != nil {
		return err
	}
	return batch.CheckText("Order.Key", o.Key, batch.MaxIDLen)
}

// State is the state of an order. The values are stored: they never change their meaning.
type State uint8

// The states. docs/glossary.md#auto-batch has the first two; the others are outcomes.
const (
	// Queued waits until its party is idle.
	Queued State = iota + 1
	// Dequeued is part of a batch whose outcome is open.
	Dequeued
	// Confirmed is final: its batch was committed.
	Confirmed
	// Failed is final: its deadline passed before it was part of a batch ([KindExpired]),
	// or a person ended its batch.
	Failed
	// Quarantined is final: the ledger refused it alone, or the [Builder] can make no
	// batch of it. The Engine never infers that an order is at fault.
	Quarantined
)

var stateNames = [...]string{
	Queued: "queued", Dequeued: "dequeued", Confirmed: "confirmed", Failed: "failed", Quarantined: "quarantined",
}

// String returns the state's name in lower case.
func (s State) String() string {
	if s < Queued || s > Quarantined {
		return fmt.Sprintf("order state(%d)", uint8(s))
	}
	return stateNames[s]
}

// Final reports whether nothing changes an order in this state any more.
func (s State) Final() bool { return s >= Confirmed && s <= Quarantined }

// MarshalText returns the state's name in lower case; nothing for the zero value, which is
// no state. The error is a [*batch.InputError].
func (s State) MarshalText() ([]byte, error) {
	if int(s) >= len(stateNames) {
		return nil, noState(s.String())
	}
	return []byte(stateNames[s]), nil
}

// UnmarshalText reads the output of MarshalText. The error is a [*batch.InputError].
func (s *State) UnmarshalText(word []byte) error {
	i := slices.Index(stateNames[:], string(word))
	if i < 0 {
		return noState(string(word))
	}
	*s = State(i)
	return nil
}

func noState(word string) error {
	return &batch.InputError{Field: "OrderState", Value: batch.Excerpt(word, 64), Want: "one of " + strings.Join(stateNames[Queued:], ", ")}
}

// Record is a stored order as the application sees it, without its payload. Times are the
// database's, in UTC, to the microsecond.
type Record struct {
	ID        ID              `json:"id"`
	Party     batch.ServiceID `json:"party"`
	Key       string          `json:"key,omitzero"`
	Priority  int             `json:"priority,omitzero"`
	Urgent    bool            `json:"urgent,omitzero"`
	Deadline  time.Time       `json:"deadline,omitzero"`
	State     State           `json:"state"`
	Version   int64           `json:"version"` // grows with every change
	CreatedAt time.Time       `json:"created_at"`
	FinalAt   time.Time       `json:"final_at,omitzero"`
	// Batch is the batch that the order is, or was last, part of; "" before the first.
	Batch batch.ID `json:"batch,omitzero"`
	// Group is the group that a refusal split the order into; "" if there was none.
	Group string `json:"group,omitzero"`
	// Batches counts the batches that the order has been part of.
	Batches     int                    `json:"batches"`
	TraceParent string                 `json:"trace_parent,omitzero"` // as the order's
	Error       *batch.SubmissionError `json:"error,omitzero"`        // why it Failed or is Quarantined
}

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
