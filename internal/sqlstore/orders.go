package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
)

// PrepareBatch is [order.Store].PrepareBatch.
func (s *Store) PrepareBatch(ctx context.Context, b batch.Batch, refs []order.Ref) (bool, error) {
	const op = "prepare a batch"
	err := b.Validate()
	if err == nil {
		err = order.CheckRefs(b.Key(), refs)
	}
	if err != nil {
		return false, s.driver.Wrap(op, err)
	}
	id := func(i int) order.ID { return refs[i].ID }
	return doneUnlessFenced(s.driver.Adding(ctx, op, func(ctx context.Context, t Tx) error {
		n, err := t.Add(ctx, b)
		if errors.Is(err, batch.ErrEnded) {
			err = order.PrepareEnded(b.Key(), err)
		}
		if err != nil {
			return err
		}
		if n == 0 { // the batch is stored already
			return checkPrepared(ctx, t, b, refs)
		}
		free, err := t.Exec(ctx, sqlInsertUnsettled, n, string(b.Service))
		if err != nil {
			return err
		}
		orders, err := lockOrdersByID(ctx, t, s.driver.LockOrders, len(refs), id)
		if err != nil {
			return err
		}
		if err := checkParty(b, orders); err != nil {
			return err
		}
		if free == 0 {
			return ErrFenced
		}
		now, err := Now(ctx, t)
		if err != nil {
			return err
		}
		changed := make([]orderChange, len(refs))
		for i, o := range orders {
			if o == nil { // the order is final, or not stored
				if _, err := ordersInAnyState(ctx, t, b, refs); err != nil {
					return err
				}
				return ErrFenced
			}
			next, ok := o.row().Dequeue(FromMicro(now), FromMicro(o.Deadline), refs[i].Version, b.ID, i)
			if !ok {
				return ErrFenced
			}
			changed[i] = orderChange{o, next}
		}
		return s.saveOrders(ctx, t, changed)
	}))
}

// ordersInAnyState reads orders in any state. In each state an order of another party is an error
// of the caller.
func ordersInAnyState(ctx context.Context, t Tx, b batch.Batch, refs []order.Ref) ([]*orderCols, error) {
	orders, err := lockOrdersByID(ctx, t, sqlOrderRows, len(refs), func(i int) order.ID { return refs[i].ID })
	if err == nil {
		err = checkParty(b, orders)
	}
	return orders, err
}

// checkPrepared returns nil if the stored batch was made of these orders.
func checkPrepared(ctx context.Context, t Tx, b batch.Batch, refs []order.Ref) error {
	orders, err := ordersInAnyState(ctx, t, b, refs)
	if err != nil {
		return err
	}
	for i, o := range orders {
		if o == nil || !o.row().DequeuedFrom(refs[i].Version, b.ID) {
			return order.PrepareConflict(b.Key())
		}
	}
	return nil
}

func checkParty(b batch.Batch, orders []*orderCols) error {
	for _, o := range orders {
		if o != nil && o.Party != string(b.Service) {
			return order.WrongParty(b.Key(), batch.ServiceID(o.Party))
		}
	}
	return nil
}

// ErrFenced rolls back a call that must not be done. Drivers do not return it to their callers.
var ErrFenced = errors.New("fenced")

// ErrMoved means that a row has changed since it was read. A driver begins the transaction again.
var ErrMoved = errors.New("another transaction was faster")

// doneUnlessFenced returns the result of a call that is done as a whole or not at all. It returns
// false and no error for ErrFenced.
func doneUnlessFenced(err error) (bool, error) {
	if errors.Is(err, ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// lockOrdersByID reads the orders of n ids, in the order of the ids. The element of an id without
// an order is nil.
func lockOrdersByID(ctx context.Context, t Tx, statement string, n int, id func(i int) order.ID) ([]*orderCols, error) {
	var ids []order.ID
	for i := range n {
		if areStorable("", string(id(i))) {
			ids = append(ids, id(i))
		}
	}
	found, err := Query[orderCols](ctx, t, statement, textArray(t, ids))
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*orderCols, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	list := make([]*orderCols, n)
	for i := range n {
		list[i] = byID[string(id(i))]
	}
	return list, nil
}

// orderChange is an open order and its next row.
type orderChange struct {
	*orderCols
	nextRow order.Row
}

// saveOrders writes rows to their tables, in the order of their numbers, by compare-and-set on the
// versions that were read. If another transaction has changed a row since, the error is ErrMoved.
func (s *Store) saveOrders(ctx context.Context, t Tx, changed []orderChange) error {
	slices.SortFunc(changed, func(a, b orderChange) int { return cmp.Compare(a.Seq, b.Seq) })
	var openRows, removedRows, finalRows [][]any
	for _, c := range changed {
		r := c.nextRow
		row := []any{c.Seq, c.Version, int64(r.State), r.Version, string(r.Batch), int64(r.Place), int64(r.Batches), r.Group}
		if !r.State.Final() {
			openRows = append(openRows, row)
			continue
		}
		kind, message := ErrorCols(r.Error)
		removedRows = append(removedRows, row[:2])
		finalRows = append(finalRows, append(append([]any{c.Seq}, row[2:]...), ToMicro(r.FinalAt), kind, message))
	}
	for _, step := range [...]struct {
		statement string
		rows      [][]any
	}{{s.driver.UpdateOrders, openRows}, {s.driver.DeleteOpenOrders, removedRows}, {s.driver.InsertFinalOrders, finalRows}} {
		if len(step.rows) == 0 {
			continue
		}
		n, err := t.ExecAll(ctx, step.statement, step.rows)
		if err != nil {
			return err
		}
		if n != int64(len(step.rows)) {
			return fmt.Errorf("%w: %d orders written, want %d", ErrMoved, n, len(step.rows))
		}
	}
	return nil
}

// FailOrders is [order.Store].FailOrders.
func (s *Store) FailOrders(ctx context.Context, vs []order.Verdict) ([]bool, error) {
	return s.saveVerdicts(ctx, "fail orders", vs, false, order.Row.Fail, order.Failed, order.Quarantined)
}

// SplitOrders is [order.Store].SplitOrders.
func (s *Store) SplitOrders(ctx context.Context, vs []order.Verdict) (bool, error) {
	_, err := s.saveVerdicts(ctx, "split orders", vs, true, func(r order.Row, _ time.Time, v order.Verdict) (order.Row, bool) {
		return r.Split(v)
	}, order.Queued)
	return doneUnlessFenced(err)
}

// saveVerdicts writes verdicts about open orders. If all is false, each is written for itself. If
// all is true, all or none are written, and a verdict that does not apply gives ErrFenced.
func (s *Store) saveVerdicts(ctx context.Context, op string, vs []order.Verdict, all bool,
	rule func(order.Row, time.Time, order.Verdict) (order.Row, bool), allowed ...order.State,
) ([]bool, error) {
	if err := order.CheckVerdicts(vs, allowed...); err != nil || len(vs) == 0 {
		return nil, s.driver.Wrap(op, err)
	}
	return readResult(ctx, s.driver.Write, op, func(ctx context.Context, t Tx) ([]bool, error) {
		did := make([]bool, len(vs))
		orders, err := lockOrdersByID(ctx, t, s.driver.LockOrders, len(vs), func(i int) order.ID { return vs[i].ID })
		if err != nil {
			return nil, err
		}
		now, err := Now(ctx, t)
		if err != nil {
			return nil, err
		}
		var changed []orderChange
		for i, o := range orders {
			var next order.Row
			if o != nil {
				next, did[i] = rule(o.row(), FromMicro(now), vs[i])
			}
			switch {
			case did[i]:
				changed = append(changed, orderChange{o, next})
			case all:
				return nil, ErrFenced
			}
		}
		return did, s.saveOrders(ctx, t, changed)
	})
}

// ExpireOrders is [order.Store].ExpireOrders. It leaves the orders that another call has locked to
// the next call.
func (s *Store) ExpireOrders(ctx context.Context, limit int) ([]order.Verdict, error) {
	const op = "expire orders"
	if s.driver.AnyExpired != "" {
		some, err := readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) (some bool, err error) {
			some, _, err = Get[bool](ctx, t, s.driver.AnyExpired)
			return some, err
		})
		if err != nil || !some {
			return nil, err
		}
	}
	return readResult(ctx, s.driver.Write, op, func(ctx context.Context, t Tx) ([]order.Verdict, error) {
		now, err := Now(ctx, t)
		if err != nil {
			return nil, err
		}
		expired, err := Query[orderCols](ctx, t, s.driver.Expired, now, int64(max(0, limit)))
		if err != nil {
			return nil, err
		}
		var changed []orderChange
		var all []order.Verdict
		for i := range expired {
			if next, ok := expired[i].row().Expire(FromMicro(now), FromMicro(expired[i].Deadline)); ok {
				changed = append(changed, orderChange{&expired[i], next})
				ref := expired[i].ref()
				ref.Version = next.Version
				all = append(all, order.Verdict{Ref: ref, State: next.State, Error: next.Error})
			}
		}
		return all, s.saveOrders(ctx, t, changed)
	})
}
