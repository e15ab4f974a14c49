package autobatch

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// OrderEventKind is the kind of an [OrderEvent].
type OrderEventKind string

// The kinds of events.
const (
	// EventPrepared: Orders became part of Batch.
	EventPrepared OrderEventKind = "prepared"
	// EventSettled: Batch is final, and Orders have the states of their verdicts.
	EventSettled OrderEventKind = "settled"
	// EventRefused: the Builder made no batch of Orders, and they have the states of their
	// verdicts: two groups, or one Quarantined order.
	EventRefused OrderEventKind = "refused"
	// EventExpired: the deadlines of Orders have passed. They may be of several parties.
	EventExpired OrderEventKind = "expired"
	// EventHeld: the store calls Batch final, but its orders cannot be settled.
	EventHeld OrderEventKind = "held"
	// EventTrouble: something failed and is tried again after a pause, for one party, or for all
	// parties if Party is "".
	EventTrouble OrderEventKind = "trouble"
)

// OrderEvent reports something that this Engine did, after it was written. After a crash the store
// is the truth.
type OrderEvent struct {
	Kind   OrderEventKind
	Party  batch.ServiceID
	Batch  batch.ID
	Count  int             // the number of orders
	Orders []order.Verdict // in EventPrepared with State Dequeued; must not be changed
	// TraceParent is the trace context of Batch ([batch.Batch].TraceParent). Each of Orders has
	// its own.
	TraceParent string
	Err         error
}
