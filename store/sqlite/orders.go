package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// AddOrders is [order.Store].AddOrders.
func (s *Store) AddOrders(ctx context.Context, orders ...order.Order) error {
	const op = "add orders"
	in, err := sqlstore.PrepareOrders(orders)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.write(ctx, op, func(free context.Context, t *session) error { return t.addOrders(free, in, ctx.Err) })
}

// AddOrdersTx is AddOrders in the application's own transaction, by the rules of [Store.Tx].
func (s *Store) AddOrdersTx(ctx context.Context, tx *sql.Tx, orders ...order.Order) error {
	const op = "add orders in a transaction"
	in, err := sqlstore.PrepareOrders(orders)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	return s.inTx(ctx, op, tx, func(free context.Context, t *session) error { return t.addOrders(free, in, ctx.Err) })
}

func (t *session) addOrders(ctx context.Context, in []sqlstore.NewOrder, stopped func() error) error {
	now, err := t.now(ctx)
	if err != nil {
		return err
	}
	latest, _, err := sqlstore.Get[int64](ctx, t, sqlAnyOrderLast)
	if err != nil {
		return err
	}
	last := map[batch.ServiceID]int64{}
	for _, o := range in {
		last[o.Party] = 0
	}
	if err := t.readLasts(ctx, last, sqlPartyLasts, jsonText(slices.Collect(maps.Keys(last)))); err != nil {
		return err
	}
	var known []*sqlstore.NewOrder
	for i := range in {
		if err := stopped(); err != nil {
			return err
		}
		o := &in[i]
		o.At = orderKey(now.UnixMicro(), last[o.Party], latest)
		added, err := t.addOrder(ctx, o)
		if err != nil {
			return fmt.Errorf("order %q: %w", o.ID, err)
		}
		if added {
			last[o.Party], latest = o.At, o.At
		} else {
			known = append(known, o)
		}
	}
	_, err = sqlstore.CompareOrders(ctx, t, known, nil)
	return err
}

// addOrder stores an order unless it is known. It reports whether it has stored the order.
func (t *session) addOrder(ctx context.Context, o *sqlstore.NewOrder) (bool, error) {
	deadline := sqlstore.ToMicro(o.Deadline)
	seq, added, err := sqlstore.Get[int64](ctx, t, sqlInsertOrder, string(o.ID), string(o.Party), o.At, o.Key, int64(o.Priority), o.Urgent, deadline, o.Hash[:])
	if err != nil || !added {
		return false, err
	}
	if _, err := t.Exec(ctx, sqlInsertOrderPayload, seq, o.Payload); err != nil {
		return false, err
	}
	if o.TraceParent != "" {
		if _, err := t.Exec(ctx, sqlSetOrderTrace, o.TraceParent, seq); err != nil {
			return false, err
		}
	}
	row := order.NewRow()
	_, err = t.Exec(ctx, sqlInsertOpenOrder, seq, string(o.Party), int64(o.Priority), o.At, deadline, o.Urgent, int64(len(o.Payload)),
		int64(row.State), row.Version)
	return true, err
}
