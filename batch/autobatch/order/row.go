package order

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Row is the part of a stored order that changes. Its methods are the rules of
// [Store] as pure functions, so that all drivers behave the same: they return the next
// row and true, or the same row and false where it has moved on. now is always the database's
// clock.
type Row struct {
	State   State
	Version int64
	// Batch holds the order now, or held it last; Place is its place there.
	Batch   batch.ID
	Place   int
	Batches int
	Group   string
	FinalAt time.Time // zero while the order is open
	Error   *batch.SubmissionError
}

// NewRow returns the row of an order that was just added.
func NewRow() Row { return Row{State: Queued, Version: 1} }

// Expired reports whether the deadline of a queued order has passed; a zero deadline
// never does.
func (r Row) Expired(now, deadline time.Time) bool {
	return r.State == Queued && !deadline.IsZero() && !deadline.After(now)
}

// Dequeue makes the order part of a batch.
func (r Row) Dequeue(now, deadline time.Time, version int64, b batch.ID, place int) (Row, bool) {
	if r.State != Queued || r.Version != version || r.Expired(now, deadline) {
		return r, false
	}
	r.State = Dequeued
	r.Batch, r.Place = b, place
	r.Batches++
	r.Version++
	return r, true
}

// DequeuedFrom reports whether the order, at version, was made part of the batch, even if it
// left that batch since: a repeated call finds its own work done.
func (r Row) DequeuedFrom(version int64, b batch.ID) bool {
	return r.Batch == b && r.Version > version
}

// Settle applies a verdict to an order of a batch that is final.
func (r Row) Settle(now time.Time, b batch.ID, v Verdict) (Row, bool) {
	if r.State != Dequeued || r.Batch != b || r.Version != v.Version {
		return r, false
	}
	return r.become(now, v), true
}

// Fail makes a queued order final.
func (r Row) Fail(now time.Time, v Verdict) (Row, bool) {
	if r.State != Queued || r.Version != v.Version {
		return r, false
	}
	return r.become(now, v), true
}

// Split puts a queued order into a group.
func (r Row) Split(v Verdict) (Row, bool) {
	if r.State != Queued || r.Version != v.Version {
		return r, false
	}
	r.Group = v.Group
	r.Version++
	return r, true
}

// Expire makes a queued order whose deadline has passed Failed.
func (r Row) Expire(now, deadline time.Time) (Row, bool) {
	if !r.Expired(now, deadline) {
		return r, false
	}
	return r.become(now, Verdict{
		State: Failed,
		Error: &batch.SubmissionError{Kind: KindExpired, Message: "not part of a batch by its deadline"},
	}), true
}

func (r Row) become(now time.Time, v Verdict) Row {
	r.State = v.State
	r.Version++
	r.Error = v.Error.Sanitised()
	switch {
	case v.State.Final():
		r.FinalAt = now
	default:
		r.Group = v.Group
	}
	return r
}

// Record returns the application's view of the order.
func (r Row) Record(o Order, created time.Time) Record {
	return Record{
		ID: o.ID, Party: o.Party, Key: o.Key, Priority: o.Priority, Urgent: o.Urgent, Deadline: o.Deadline,
		State: r.State, Version: r.Version, CreatedAt: created, FinalAt: r.FinalAt,
		Batch: r.Batch, Group: r.Group, Batches: r.Batches, Error: r.Error, TraceParent: o.TraceParent,
	}
}

// Check validates the orders of one AddOrders and reports for each whether an earlier
// order of the call has the same id, or the same party and Key, and the same payload. With
// another payload the error is [batch.ErrConflict]. A driver leaves out such a twin only where
// the twin's id or Key is stored, at the latest by this call: see [store.Twins].
func Check(orders []Order) (twins []bool, err error) {
	type named struct {
		party batch.ServiceID
		key   string
	}
	twins = make([]bool, len(orders))
	ids, keys := make(map[ID]int, len(orders)), map[named]int{}
	for i, o := range orders {
		if err := o.Validate(); err != nil {
			return nil, err
		}
		if at, twice := ids[o.ID]; twice {
			if orders[at].Party != o.Party || !bytes.Equal(orders[at].Payload, o.Payload) {
				return nil, Conflict(o.ID)
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
			return nil, KeyConflict(o)
		default:
			twins[i] = true
		}
	}
	return twins, nil
}

// Conflict returns the [batch.ErrConflict] of an order whose id another order has.
func Conflict(id ID) error {
	return fmt.Errorf("%w: order %q", batch.ErrConflict, batch.Excerpt(string(id), 64))
}

// KeyConflict returns the [batch.ErrConflict] of an order whose Key belongs to another
// payload.
func KeyConflict(o Order) error {
	return fmt.Errorf("%w: order %q: Key %q was given to another payload", batch.ErrConflict, batch.Excerpt(string(o.ID), 64), batch.Excerpt(o.Key, 64))
}

// PrepareEnded returns the [batch.ErrConflict] of a batch of orders whose id has a tombstone, with
// the [batch.ErrEnded] that says how the removed batch ended.
func PrepareEnded(key batch.Key, ended error) error {
	return fmt.Errorf("%w: batch %s: %w", batch.ErrConflict, key, ended)
}

// PrepareConflict returns the [batch.ErrConflict] of a batch that is stored already, but not as
// the batch of these orders.
func PrepareConflict(key batch.Key) error {
	return fmt.Errorf("%w: batch %s is stored, and not with these orders", batch.ErrConflict, key)
}

// WrongParty returns the [*batch.InputError] of an order that cannot be part of a batch, because
// it belongs to another party.
func WrongParty(key batch.Key, party batch.ServiceID) error {
	return &batch.InputError{Key: key, Field: "Orders", Value: batch.Excerpt(string(party), 64), Want: "orders whose Party is the batch's Service"}
}

// CheckRefs returns a [*batch.InputError] for orders that PrepareBatch does not take.
func CheckRefs(key batch.Key, orders []Ref) error {
	if len(orders) == 0 {
		return &batch.InputError{Key: key, Field: "Orders", Want: "at least one"}
	}
	seen := make(map[ID]bool, len(orders))
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
func CheckVerdicts(verdicts []Verdict, allowed ...State) error {
	seen := make(map[ID]bool, len(verdicts))
	for _, v := range verdicts {
		switch {
		case seen[v.ID]:
			return &batch.InputError{Field: "Verdict.ID", Value: batch.Excerpt(string(v.ID), 64), Want: "no order twice"}
		case !slices.Contains(allowed, v.State):
			return &batch.InputError{Field: "Verdict.State", Value: v.State.String(), Want: fmt.Sprintf("one of %v", allowed)}
		}
		if v.Group != "" {
			if err := batch.CheckText("Verdict.Group", v.Group, batch.MaxIDLen); err != nil {
				return err
			}
		}
		seen[v.ID] = true
	}
	return nil
}

// CheckSettlement returns a [*batch.InputError] for a settlement that no batch can have.
func CheckSettlement(s Settlement) error {
	return CheckVerdicts(s.Orders, Confirmed, Failed, Quarantined, Queued)
}

// Agrees returns a [*batch.InputError] where the settlement contradicts the state of the
// batch, which is final: the orders of a Committed batch are Confirmed, and no others.
func (s Settlement) Agrees(state batch.State) error {
	for _, v := range s.Orders {
		if (v.State == Confirmed) != (state == batch.Committed) {
			return &batch.InputError{Key: s.Batch, Field: "Verdict.State", Value: v.State.String(), Want: "confirmed where the batch is committed, and nowhere else; it is " + state.String()}
		}
	}
	return nil
}
