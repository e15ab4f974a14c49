package sqlstore

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// FinalOrders is [order.Store].FinalOrders.
func (s *Store) FinalOrders(ctx context.Context, ids []order.ID) (final []order.Record, missing []order.ID, err error) {
	err = s.driver.Read(ctx, "find final orders", func(ctx context.Context, t Tx) error {
		ask, want := Want(ids, func(id order.ID) bool { return areStorable("", string(id)) }) // in each run of the transaction, since each found record is taken out of want
		final = nil
		for some := range slices.Chunk(ask, store.MaxKeys) {
			found, err := Query[orderCols](ctx, t, sqlOrderRows, textArray(t, some))
			if err != nil {
				return err
			}
			for i := range found {
				if r := found[i].record(); want.Take(r.ID) && r.State.Final() {
					final = append(final, r)
				}
			}
		}
		missing = want.Missing()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return final, missing, nil
}

// ListOrders is [order.Store].ListOrders. Without a party or a batch it also reads the records
// that the states exclude. That is acceptable, because it is for people and tools.
func (s *Store) ListOrders(ctx context.Context, q order.ListQuery) (found []order.Record, next store.Cursor, err error) {
	const op = "list orders"
	q = q.Bounded()
	if err := checkCursor(q.After); err != nil {
		return nil, "", s.driver.Wrap(op, err)
	}
	if !areStorable("", "x"+string(q.Batch)) || (q.Party != nil && !areStorable(*q.Party)) {
		return nil, "", nil
	}
	rows, err := readResult(ctx, s.driver.Read, op, func(ctx context.Context, t Tx) ([]orderCols, error) {
		statement, args, err := listOrdersStatement(t, q)
		if err != nil {
			return nil, err
		}
		return Query[orderCols](ctx, t, statement, args...)
	})
	if err != nil {
		return nil, "", err
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = store.CursorAfter(FromMicro(rows[q.Limit-1].CreatedAt), rows[q.Limit-1].ID)
	}
	for i := range rows {
		found = append(found, rows[i].record())
	}
	return found, next, nil
}

// listOrdersStatement builds the statement of ListOrders.
func listOrdersStatement(t Tx, q order.ListQuery) (string, []any, error) {
	var c conditions
	from := listAllOrders
	if q.Batch != "" {
		from = listBatchOrders
		c.args = append(c.args, string(q.Batch), string(q.Batch))
	}
	if q.Party != nil {
		c.add("o.party = ?::text", string(*q.Party))
	}
	c.addStates(t, "coalesce(q.state, f.state)", len(q.States), func(i int) any { return int64(q.States[i]) })
	return c.pageStatement(from, q.After, "o.created_at", "o.order_id", false, q.Limit)
}
