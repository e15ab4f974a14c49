package order

import (
	"crypto/sha256"
	"math"
	"strconv"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// ID names an order, uniquely in a store. At most [batch.MaxIDLen] bytes of text.
type ID string

// Order is one request, for example a transfer. Auto-batching (docs/glossary.md#auto-batch)
// turns the orders of a party into batches. An Order does not change once it is stored.
type Order struct {
	ID    ID
	Party batch.ServiceID // the party whose batches carry the order

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
	// TraceParent is the trace context of the caller who adds the order
	// ([batch.ValidTraceParent]), or "". It is stored with the order, and changes nothing about
	// it: docs/operations.md#traces.
	TraceParent string
}

// Hash returns the SHA-256 of the payload. Two orders of one id, or of one key, are the same
// if their hashes are.
func (o Order) Hash() [sha256.Size]byte { return sha256.Sum256(o.Payload) }

// Validate reports whether the order can be stored. The error is a [*batch.InputError].
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
