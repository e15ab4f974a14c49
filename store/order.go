package store

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// OrderRow is the part of a stored order that changes. Its methods are the rules of
// [OrderEngine] as pure functions, so that all drivers behave the same: they return the next
// row and true, or the same row and false where it has moved on. now is always the database's
// clock.
type OrderRow struct {
	State   batch.OrderState
	Version int64
	// Batch holds the order now, or held it last; Place is its place there.
	Batch   batch.ID
	Place   int
	Batches int
	Group   string
	FinalAt time.Time // zero while the order is open
	Error   *batch.SubmissionError
}

// NewOrderRow is the row of an order that was just added.
func NewOrderRow() OrderRow { return OrderRow{State: batch.OrderQueued, Version: 1} }

// Expired reports whether the deadline of a queued order has passed; a zero deadline
// never does.
func (r OrderRow) Expired(now, deadline time.Time) bool {
	return r.State == batch.OrderQueued && !deadline.IsZero() && !deadline.After(now)
}

// Dequeue makes the order part of a batch.
func (r OrderRow) Dequeue(now, deadline time.Time, version int64, b batch.ID, place int) (OrderRow, bool) {
	if r.State != batch.OrderQueued || r.Version != version || r.Expired(now, deadline) {
		return r, false
	}
	r.State = batch.OrderDequeued
	r.Batch, r.Place = b, place
	r.Batches++
	r.Version++
	return r, true
}

// DequeuedFrom reports whether the order, at version, was made part of the batch, even if it
// left that batch since: a repeated call finds its own work done.
func (r OrderRow) DequeuedFrom(version int64, b batch.ID) bool {
	return r.Batch == b && r.Version > version
}

// Settle applies a verdict to an order of a batch that is final.
func (r OrderRow) Settle(now time.Time, b batch.ID, v OrderVerdict) (OrderRow, bool) {
	if r.State != batch.OrderDequeued || r.Batch != b || r.Version != v.Version {
		return r, false
	}
	return r.become(now, v), true
}

// Fail makes a queued order final.
func (r OrderRow) Fail(now time.Time, v OrderVerdict) (OrderRow, bool) {
	if r.State != batch.OrderQueued || r.Version != v.Version {
		return r, false
	}
	return r.become(now, v), true
}

// Split puts a queued order into a group.
func (r OrderRow) Split(v OrderVerdict) (OrderRow, bool) {
	if r.State != batch.OrderQueued || r.Version != v.Version {
		return r, false
	}
	r.Group = v.Group
	r.Version++
	return r, true
}

// Expire makes a queued order whose deadline has passed Failed.
func (r OrderRow) Expire(now, deadline time.Time) (OrderRow, bool) {
	if !r.Expired(now, deadline) {
		return r, false
	}
	return r.become(now, OrderVerdict{
		State: batch.OrderFailed,
		Error: &batch.SubmissionError{Kind: batch.KindExpired, Message: "not part of a batch by its deadline"},
	}), true
}

func (r OrderRow) become(now time.Time, v OrderVerdict) OrderRow {
	r.State = v.State
	r.Version++
	r.Error = sanitised(v.Error)
	switch {
	case v.State.Final():
		r.FinalAt = now
	default:
		r.Group = v.Group
	}
	return r
}

// Record is the application's view of the order.
func (r OrderRow) Record(o batch.Order, created time.Time) batch.OrderRecord {
	return batch.OrderRecord{
		ID: o.ID, Party: o.Party, Key: o.Key, Priority: o.Priority, Urgent: o.Urgent, Deadline: o.Deadline,
		State: r.State, Version: r.Version, CreatedAt: created, FinalAt: r.FinalAt,
		Batch: r.Batch, Group: r.Group, Batches: r.Batches, Error: r.Error, TraceParent: o.TraceParent,
	}
}

// SettleOrders marks the row of a batch whose orders are settled. It returns false where the
// batch is not final, has moved on or is marked already.
func (r Row) SettleOrders(version int64) (Row, bool) {
	if !r.Final() || r.Version != version || r.OrdersSettled {
		return r, false
	}
	r.OrdersSettled = true
	r.Version++
	return r, true
}

// CheckOrders validates the orders of one AddOrders and reports for each whether an earlier
// order of the call has the same id, or the same party and Key, and the same payload. With
// another payload the error is [batch.ErrConflict]. A driver leaves out such a twin only where
// the twin's id or Key is stored, at the latest by this call: see [Twins].
func CheckOrders(orders []batch.Order) (twins []bool, err error) {
	type named struct {
		party batch.ServiceID
		key   string
	}
	twins = make([]bool, len(orders))
	ids, keys := make(map[batch.OrderID]int, len(orders)), map[named]int{}
	for i, o := range orders {
		if err := o.Validate(); err != nil {
			return nil, err
		}
		if at, twice := ids[o.ID]; twice {
			if orders[at].Party != o.Party || !bytes.Equal(orders[at].Payload, o.Payload) {
				return nil, OrderConflict(o.ID)
			}
			twins[i] = true
			continue
		}
		ids[o.ID] = i
		if o.Key == "" {
			continue
		}
		at, twice := keys[named{o.Party, o.Key}]
		switch {
		case !twice:
			keys[named{o.Party, o.Key}] = i
		case !bytes.Equal(orders[at].Payload, o.Payload):
			return nil, OrderKeyConflict(o)
		default:
			twins[i] = true
		}
	}
	return twins, nil
}

// OrderConflict is the [batch.ErrConflict] of an order whose id another order has.
func OrderConflict(id batch.OrderID) error {
	return fmt.Errorf("%w: order %q", batch.ErrConflict, batch.Excerpt(string(id), 64))
}

// OrderKeyConflict is the [batch.ErrConflict] of an order whose Key belongs to another
// payload.
func OrderKeyConflict(o batch.Order) error {
	return fmt.Errorf("%w: order %q: Key %q was given to another payload", batch.ErrConflict, batch.Excerpt(string(o.ID), 64), batch.Excerpt(o.Key, 64))
}

// PrepareEnded is the [batch.ErrConflict] of a batch of orders whose id has a tombstone, with the
// [batch.ErrEnded] that says how the removed batch ended.
func PrepareEnded(key batch.Key, ended error) error {
	return fmt.Errorf("%w: batch %s: %w", batch.ErrConflict, key, ended)
}

// PrepareConflict is the [batch.ErrConflict] of a batch that is stored already, but not as the
// batch of these orders.
func PrepareConflict(key batch.Key) error {
	return fmt.Errorf("%w: batch %s is stored, and not with these orders", batch.ErrConflict, key)
}

// WrongParty is the [*batch.InputError] of an order that cannot be part of a batch, because it
// belongs to another party.
func WrongParty(key batch.Key, party batch.ServiceID) error {
	return &batch.InputError{Key: key, Field: "Orders", Value: batch.Excerpt(string(party), 64), Want: "orders whose Party is the batch's Service"}
}

// CheckRefs returns a [*batch.InputError] for orders that PrepareBatch does not take.
func CheckRefs(key batch.Key, orders []OrderRef) error {
	if len(orders) == 0 {
		return &batch.InputError{Key: key, Field: "Orders", Want: "at least one"}
	}
	seen := make(map[batch.OrderID]bool, len(orders))
	for _, o := range orders {
		if seen[o.ID] {
			return &batch.InputError{Key: key, Field: "Orders", Value: batch.Excerpt(string(o.ID), 64), Want: "no order twice"}
		}
		seen[o.ID] = true
	}
	return nil
}

// CheckVerdicts returns a [*batch.InputError] where an order comes twice, a group is not
// printable text or longer than [batch.MaxIDLen], or a state is not among allowed.
func CheckVerdicts(verdicts []OrderVerdict, allowed ...batch.OrderState) error {
	seen := make(map[batch.OrderID]bool, len(verdicts))
	for _, v := range verdicts {
		switch {
		case seen[v.ID]:
			return &batch.InputError{Field: "OrderVerdict.ID", Value: batch.Excerpt(string(v.ID), 64), Want: "no order twice"}
		case !slices.Contains(allowed, v.State):
			return &batch.InputError{Field: "OrderVerdict.State", Value: v.State.String(), Want: fmt.Sprintf("one of %v", allowed)}
		}
		if v.Group != "" {
			if err := checkName("OrderVerdict.Group", v.Group); err != nil {
				return err
			}
		}
		seen[v.ID] = true
	}
	return nil
}

// CheckSettlement returns a [*batch.InputError] for a settlement that no batch can have.
func CheckSettlement(s Settlement) error {
	return CheckVerdicts(s.Orders, batch.OrderConfirmed, batch.OrderFailed, batch.OrderQuarantined, batch.OrderQueued)
}

// Agrees returns a [*batch.InputError] where the settlement contradicts the state of the
// batch, which is final: the orders of a Committed batch are Confirmed, and no others.
func (s Settlement) Agrees(state batch.State) error {
	for _, v := range s.Orders {
		if (v.State == batch.OrderConfirmed) != (state == batch.Committed) {
			return &batch.InputError{Key: s.Batch, Field: "OrderVerdict.State", Value: v.State.String(), Want: "confirmed where the batch is committed, and nowhere else; it is " + state.String()}
		}
	}
	return nil
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

// Bounded returns the query with its limit's default and within its bound.
func (q ListOrdersQuery) Bounded() ListOrdersQuery {
	q.Limit = bounded(q.Limit, 100, 1000)
	return q
}
