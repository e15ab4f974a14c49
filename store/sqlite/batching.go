package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// PrepareBatch is [store.OrderEngine].PrepareBatch.
func (s *Store) PrepareBatch(ctx context.Context, b batch.Batch, refs []store.OrderRef) (bool, error) {
	const op = "prepare a batch"
	in, err := prepareAdd([]batch.Batch{b})
	if err == nil {
		err = store.CheckRefs(b.Key(), refs)
	}
	if err != nil {
		return false, wrap(op, err)
	}
	err = s.write(ctx, op, func(free context.Context, t *session) error {
		stored, err := t.ordersOf(free, sqlOrderRows, len(refs), func(i int) batch.OrderID { return refs[i].ID })
		if err != nil {
			return err
		}
		for _, o := range stored {
			if o != nil && o.Party != string(b.Service) {
				return store.WrongParty(b.Key(), batch.ServiceID(o.Party))
			}
		}
		added, err := t.add(free, in, ctx.Err)
		if err != nil {
			return err
		}
		if added == 0 {
			for i, o := range stored {
				if o == nil || !o.Row().DequeuedFrom(refs[i].Version, b.ID) {
					return store.PrepareConflict(b.Key())
				}
			}
			return nil
		}
		return t.dequeue(free, b, refs, stored)
	})
	return done(err)
}

// dequeue makes the orders part of a batch that was just added.
func (t *session) dequeue(ctx context.Context, b batch.Batch, refs []store.OrderRef, stored []*sqlstore.OrderCols) error {
	if n, err := t.exec(ctx, sqlInsertUnsettled, idHash(b.ID), string(b.ID)); err != nil || n == 0 {
		return errors.Join(errFencedIf(n == 0), err)
	}
	now, err := t.now(ctx)
	if err != nil {
		return err
	}
	for i, o := range stored {
		if o == nil {
			return errFenced
		}
		next, ok := o.Row().Dequeue(now, sqlstore.FromMicro(o.Deadline), refs[i].Version, b.ID, i)
		if !ok {
			return errFenced
		}
		if err := t.saveOrder(ctx, o, next); err != nil {
			return err
		}
	}
	return nil
}

func errFencedIf(is bool) error {
	if is {
		return errFenced
	}
	return nil
}

// done is the result of a call that must not be done in part: a fence gives false.
func done(err error) (bool, error) {
	if errors.Is(err, errFenced) {
		return false, nil
	}
	return err == nil, err
}

// ordersOf reads the orders of n ids, in the order of the ids; nil for an id without one.
func (t *session) ordersOf(ctx context.Context, query string, n int, id func(i int) batch.OrderID) ([]*sqlstore.OrderCols, error) {
	var ids []batch.ID
	for i := range n {
		if sqlstore.CanStore("", string(id(i))) {
			ids = append(ids, batch.ID(id(i)))
		}
	}
	found, err := t.orders(ctx, query, ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*sqlstore.OrderCols, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	list := make([]*sqlstore.OrderCols, n)
	for i := range n {
		list[i] = byID[string(id(i))]
	}
	return list, nil
}

// saveOrder writes next as the row of an open order, to the table it belongs in.
func (t *session) saveOrder(ctx context.Context, o *sqlstore.OrderCols, next store.OrderRow) error {
	args := append(make([]any, 0, 10), int64(next.State), next.Version, string(next.Batch), int64(next.Place), int64(next.Batches), next.Group, o.Seq)
	var n int64
	var err error
	if next.State.Final() {
		if n, err = t.exec(ctx, sqlDeleteOpenOrder, o.Seq, o.Version); err == nil && n == 1 {
			kind, message := errorArgs(next.Error)
			n, err = t.exec(ctx, sqlInsertOrderOutcome, append(args, sqlstore.ToMicro(next.FinalAt), kind, message)...)
		}
	} else {
		n, err = t.exec(ctx, sqlUpdateOrder, append(args, o.Version)...)
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("order %q: %d rows written, want 1", o.ID, n)
	}
	return err
}

// SettleableBatches is [store.OrderEngine].SettleableBatches.
func (s *Store) SettleableBatches(ctx context.Context, limit int) (found []store.OrderBatch, err error) {
	err = s.read(ctx, "find batches to settle", func(ctx context.Context, t *session) error {
		batches, err := t.records(ctx, sqlSettleable, max(0, limit))
		if err != nil {
			return err
		}
		for _, r := range batches {
			var orders []sqlstore.OrderCols
			if err := t.sel(ctx, &orders, sqlBatchOrders, string(r.ID)); err != nil {
				return err
			}
			b := store.OrderBatch{Record: r}
			for i := range orders {
				b.Orders, b.Group = append(b.Orders, orders[i].Ref()), orders[i].Group
			}
			if len(orders) > 0 { // else it was settled between the two statements
				found = append(found, b)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// SettleOrders is [store.OrderEngine].SettleOrders. Each call is one transaction.
func (s *Store) SettleOrders(ctx context.Context, settled []store.Settlement) ([]bool, error) {
	const op = "settle orders"
	for _, st := range settled {
		if err := store.CheckSettlement(st); err != nil {
			return nil, wrap(op, err)
		}
	}
	did := make([]bool, len(settled))
	if len(settled) == 0 {
		return did, nil
	}
	err := s.write(ctx, op, func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		for i, st := range settled {
			if did[i], err = t.settle(ctx, st, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

// settle writes one settlement, or nothing.
func (t *session) settle(ctx context.Context, st store.Settlement, now time.Time) (bool, error) {
	b, err := t.load(ctx, store.Ref{Key: st.Batch})
	switch {
	case errors.Is(err, batch.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	next, ok := b.now.SettleOrders(st.Version)
	if !ok {
		return false, nil
	}
	if err := st.Agrees(b.now.State); err != nil {
		return false, err
	}
	var orders []sqlstore.OrderCols
	if err := t.sel(ctx, &orders, sqlBatchOrders, string(st.Batch.ID)); err != nil {
		return false, err
	}
	if len(orders) != len(st.Orders) {
		return false, nil
	}
	byID := make(map[batch.OrderID]*sqlstore.OrderCols, len(orders))
	for i := range orders {
		byID[batch.OrderID(orders[i].ID)] = &orders[i]
	}
	rows := make([]store.OrderRow, len(st.Orders))
	for i, v := range st.Orders {
		o := byID[v.ID]
		if o == nil {
			return false, nil
		}
		if rows[i], ok = o.Row().Settle(now, st.Batch.ID, v); !ok {
			return false, nil
		}
	}
	if err := t.save(ctx, b, next); err != nil {
		return false, err
	}
	for i, v := range st.Orders {
		if err := t.saveOrder(ctx, byID[v.ID], rows[i]); err != nil {
			return false, err
		}
	}
	_, err = t.exec(ctx, sqlDeleteUnsettled, b.Seq)
	return true, err
}

// FailOrders is [store.OrderEngine].FailOrders.
func (s *Store) FailOrders(ctx context.Context, vs []store.OrderVerdict) ([]bool, error) {
	return s.judge(ctx, "fail orders", vs, false, store.OrderRow.Fail, batch.OrderFailed, batch.OrderQuarantined)
}

// SplitOrders is [store.OrderEngine].SplitOrders.
func (s *Store) SplitOrders(ctx context.Context, vs []store.OrderVerdict) (bool, error) {
	_, err := s.judge(ctx, "split orders", vs, true, func(r store.OrderRow, _ time.Time, v store.OrderVerdict) (store.OrderRow, bool) {
		return r.Split(v)
	}, batch.OrderQueued)
	return done(err)
}

// judge writes verdicts about open orders, each alone or, where all is set, all or none: then
// a fence gives errFenced.
func (s *Store) judge(ctx context.Context, op string, vs []store.OrderVerdict, all bool,
	rule func(store.OrderRow, time.Time, store.OrderVerdict) (store.OrderRow, bool), allowed ...batch.OrderState,
) ([]bool, error) {
	if err := store.CheckVerdicts(vs, allowed...); err != nil {
		return nil, wrap(op, err)
	}
	did := make([]bool, len(vs))
	if len(vs) == 0 {
		return did, nil
	}
	err := s.write(ctx, op, func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		orders, err := t.ordersOf(ctx, sqlOpenOrders, len(vs), func(i int) batch.OrderID { return vs[i].ID })
		if err != nil {
			return err
		}
		for i, o := range orders {
			var next store.OrderRow
			if o != nil {
				next, did[i] = rule(o.Row(), now, vs[i])
			}
			if !did[i] && all {
				return errFenced
			}
			if !did[i] {
				continue
			}
			if err := t.saveOrder(ctx, o, next); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

// ExpireOrders is [store.OrderEngine].ExpireOrders. While nothing has expired it only reads.
func (s *Store) ExpireOrders(ctx context.Context, limit int) (n int, err error) {
	const op = "expire orders"
	var some bool
	err = s.read(ctx, op, func(ctx context.Context, t *session) error { return t.get(ctx, &some, sqlAnyExpired) })
	if err != nil || !some || limit <= 0 {
		return 0, err
	}
	err = s.write(ctx, op, func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		var expired []sqlstore.OrderCols
		if err := t.sel(ctx, &expired, sqlExpired, sqlstore.ToMicro(now), limit); err != nil {
			return err
		}
		for i := range expired {
			o := &expired[i]
			if next, ok := o.Row().Expire(now, sqlstore.FromMicro(o.Deadline)); ok {
				if err := t.saveOrder(ctx, o, next); err != nil {
					return err
				}
				n++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
