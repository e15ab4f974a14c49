package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	var latest int64
	if err := t.get(ctx, &latest, sqlAnyOrderLast); err != nil {
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
	var seq int64
	deadline := sqlstore.ToMicro(o.Deadline)
	err := t.get(ctx, &seq, sqlInsertOrder, string(o.ID), string(o.Party), at, o.Key, int64(o.Priority), o.Urgent, deadline, hash[:])
	switch {
	case noRows(err):
		return false, nil
	case err != nil:
		return false, err
	}
	if _, err := t.exec(ctx, sqlInsertOrderPayload, seq, o.Payload); err != nil {
		return false, err
	}
	row := store.NewOrderRow()
	_, err = t.exec(ctx, sqlInsertOpenOrder, seq, string(o.Party), int64(o.Priority), at, deadline, o.Urgent, int64(len(o.Payload)),
		int64(row.State), row.Version)
	return true, err
}

// compareOrder compares an order with the stored orders of its id and of its key, if any.
func (t *session) compareOrder(ctx context.Context, o batch.Order, hash [sha256.Size]byte) error {
	var same bool
	switch err := t.get(ctx, &same, sqlSameOrder, string(o.Party), hash[:], string(o.ID)); {
	case err != nil && !noRows(err):
		return err
	case err == nil && !same:
		return store.OrderConflict(o.ID)
	case err == nil || o.Key == "":
		return nil
	}
	switch err := t.get(ctx, &same, sqlSameOrderKey, hash[:], string(o.Party), o.Key); {
	case err != nil && !noRows(err):
		return err
	case err == nil && !same:
		return store.OrderKeyConflict(o)
	}
	return nil
}

// FinalOrders is [store.OrderStore].FinalOrders.
func (s *Store) FinalOrders(ctx context.Context, ids []batch.OrderID) (final []batch.OrderRecord, missing []batch.OrderID, err error) {
	ask, want := sqlstore.WantOrders(ids)
	err = s.read(ctx, "find final orders", func(ctx context.Context, t *session) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for some := range slices.Chunk(ask, store.MaxKeys) {
			found, err := t.orders(ctx, sqlOrderRows, some)
			if err != nil {
				return err
			}
			for i := range found {
				if r := found[i].Record(); want.Take(batch.Key{ID: batch.ID(r.ID)}) && r.State.Final() {
					final = append(final, r)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return final, sqlstore.MissingOrders(want), nil
}

// orders reads the orders of these ids.
func (t *session) orders(ctx context.Context, query string, ids []batch.ID) (found []sqlstore.OrderCols, err error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return found, t.sel(ctx, &found, query, string(list))
}

// ListOrders is [store.OrderStore].ListOrders. Without a party or a batch it also reads the
// records that the states exclude: it is for people and tools.
func (s *Store) ListOrders(ctx context.Context, q store.ListOrdersQuery) (found []batch.OrderRecord, next store.Cursor, err error) {
	q = q.Bounded()
	query, args, err := listOrdersSQL(q)
	if err != nil {
		return nil, "", err
	}
	var rows []sqlstore.OrderCols
	err = s.read(ctx, "list orders", func(ctx context.Context, t *session) error { return t.sel(ctx, &rows, query, args...) })
	if err != nil {
		return nil, "", err
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = store.CursorAfter(sqlstore.FromMicro(rows[q.Limit-1].CreatedAt), rows[q.Limit-1].ID)
	}
	for i := range rows {
		found = append(found, rows[i].Record())
	}
	return found, next, nil
}

// listOrdersSQL builds the statement, which asks for one record more than the limit.
func listOrdersSQL(q store.ListOrdersQuery) (string, []any, error) {
	from, where, args := listOrders, []string{"TRUE"}, []any{}
	if q.Batch != "" {
		from, args = listBatchOrders, []any{string(q.Batch), string(q.Batch)}
	}
	if q.Party != nil {
		where, args = append(where, "o.party = ?"), append(args, string(*q.Party))
	}
	if len(q.States) > 0 {
		where = append(where, "coalesce(q.state, f.state) IN (?"+strings.Repeat(", ?", len(q.States)-1)+")")
		for _, st := range q.States {
			args = append(args, int64(st))
		}
	}
	if q.After != "" {
		at, id, err := store.ParseCursor(q.After)
		if err != nil {
			return "", nil, err
		}
		where, args = append(where, "(o.created_at, o.order_id) > (?, ?)"), append(args, at, id)
	}
	return from + strings.Join(where, " AND ") + " ORDER BY o.created_at, o.order_id LIMIT ?", append(args, q.Limit+1), nil
}
