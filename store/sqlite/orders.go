package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// AddOrders is [store.OrderStore].AddOrders.
func (s *Store) AddOrders(ctx context.Context, orders ...batch.Order) error {
	const op = "add orders"
	twins, err := store.CheckOrders(orders)
	if err != nil || len(orders) == 0 {
		return wrap(op, err)
	}
	return s.write(ctx, op, func(free context.Context, t *session) error { return t.addOrders(free, orders, twins, ctx.Err) })
}

// AddOrdersTx is AddOrders in the application's own transaction, as [Store.AddTx].
func (s *Store) AddOrdersTx(ctx context.Context, tx *sql.Tx, orders ...batch.Order) error {
	const op = "add orders in a transaction"
	twins, err := store.CheckOrders(orders)
	if err != nil || len(orders) == 0 {
		return wrap(op, err)
	}
	return s.inTx(ctx, op, tx, func(free context.Context, t *session) error { return t.addOrders(free, orders, twins, ctx.Err) })
}

func (t *session) addOrders(ctx context.Context, orders []batch.Order, twins []bool, stopped func() error) error {
	now, err := t.now(ctx)
	if err != nil {
		return err
	}
	latest, _, err := sqlstore.Get[int64](ctx, t, sqlAnyOrderLast)
	if err != nil {
		return err
	}
	last := map[batch.ServiceID]int64{}
	for _, o := range orders {
		last[o.Party] = 0
	}
	names, err := json.Marshal(slices.Collect(maps.Keys(last)))
	if err != nil {
		return err
	}
	if err := t.lasts(ctx, last, sqlPartyLasts, string(names)); err != nil {
		return err
	}
	for i, o := range orders {
		if err := stopped(); err != nil {
			return err
		}
		hash := o.Hash()
		if !twins[i] {
			at := orderKey(now.UnixMicro(), last[o.Party], latest)
			added, err := t.addOrder(ctx, o, hash, at)
			if err != nil {
				return fmt.Errorf("order %q: %w", o.ID, err)
			}
			if added {
				last[o.Party], latest = at, at
				continue
			}
		}
		if err := t.compareOrder(ctx, o, hash); err != nil {
			return err
		}
	}
	return nil
}

// addOrder stores an order that is not known, and reports whether it did.
func (t *session) addOrder(ctx context.Context, o batch.Order, hash [sha256.Size]byte, at int64) (bool, error) {
	deadline := sqlstore.ToMicro(o.Deadline)
	seq, added, err := sqlstore.Get[int64](ctx, t, sqlInsertOrder, string(o.ID), string(o.Party), at, o.Key, int64(o.Priority), o.Urgent, deadline, hash[:])
	if err != nil || !added {
		return false, err
	}
	if _, err := t.Exec(ctx, sqlInsertOrderPayload, seq, o.Payload); err != nil {
		return false, err
	}
	if o.TraceParent != "" && t.texts.TracedOrders() {
		if _, err := t.Exec(ctx, sqlSetOrderTrace, o.TraceParent, seq); err != nil {
			return false, err
		}
	}
	row := store.NewOrderRow()
	_, err = t.Exec(ctx, sqlInsertOpenOrder, seq, string(o.Party), int64(o.Priority), at, deadline, o.Urgent, int64(len(o.Payload)),
		int64(row.State), row.Version)
	return true, err
}

// compareOrder compares an order with the stored orders of its id and of its key, if any.
func (t *session) compareOrder(ctx context.Context, o batch.Order, hash [sha256.Size]byte) error {
	same, known, err := sqlstore.Get[bool](ctx, t, sqlSameOrder, string(o.Party), hash[:], string(o.ID))
	switch {
	case err != nil || same:
		return err
	case known:
		return store.OrderConflict(o.ID)
	}
	same, known, err = sqlstore.Get[bool](ctx, t, sqlSameOrderKey, hash[:], string(o.Party), o.Key)
	if err == nil && known && !same {
		err = store.OrderKeyConflict(o)
	}
	return err
}
