package postgres

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// SettleableBatches is [store.OrderEngine].SettleableBatches.
func (s *Store) SettleableBatches(ctx context.Context, limit int) (found []store.OrderBatch, err error) {
	err = s.tx(ctx, "find batches to settle", func(ctx context.Context, t *session) error {
		found = nil
		batches, err := t.recordsAs(ctx, outcomeDest, s.sql(sqlSettleable), int64(max(0, limit)))
		if err != nil || len(batches) == 0 {
			return err
		}
		orders, err := query(ctx, t, (*sqlstore.OrderCols).Dest, sqlBatchOrders,
			textArray(len(batches), func(i int) string { return string(batches[i].ID) }))
		if err != nil {
			return err
		}
		of := make(map[batch.ID][]*sqlstore.OrderCols, len(batches))
		for i := range orders {
			id := batch.ID(orders[i].Batch)
			of[id] = append(of[id], &orders[i])
		}
		for _, r := range batches {
			b := store.OrderBatch{Record: r}
			for _, o := range of[r.ID] {
				b.Orders, b.Group = append(b.Orders, o.Ref()), o.Group
			}
			if len(b.Orders) > 0 { // else it was settled between the two statements
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
func (s *Store) SettleOrders(ctx context.Context, settled []store.Settlement) (did []bool, err error) {
	const op = "settle orders"
	for _, st := range settled {
		if err := store.CheckSettlement(st); err != nil {
			return nil, wrap(op, err)
		}
	}
	if len(settled) == 0 {
		return nil, nil
	}
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		did = make([]bool, len(settled))
		return t.settle(ctx, settled, did)
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

// settle writes the settlements that apply, and marks them in did.
func (t *session) settle(ctx context.Context, settled []store.Settlement, did []bool) error {
	seqs := make([]int64, len(settled))
	var ask []store.Ref
	for _, st := range settled {
		if st.Batch.Validate() == nil {
			ask = append(ask, store.Ref{Key: st.Batch})
		}
	}
	found, err := t.seqs(ctx, len(ask), func(i int) store.Ref { return ask[i] })
	if err != nil {
		return err
	}
	byKey := make(map[batch.Key]int64, len(ask))
	for i, r := range ask {
		byKey[r.Key] = found[i]
	}
	for i, st := range settled {
		seqs[i] = byKey[st.Batch]
	}
	// The rows of the batches are locked before the rows of their orders, each in one order.
	batches, us, err := t.load(ctx, known(seqs))
	if err != nil {
		return err
	}
	orders, err := query(ctx, t, (*sqlstore.OrderCols).Dest, sqlLockBatchOrders,
		textArray(len(ask), func(i int) string { return string(ask[i].Key.ID) }))
	if err != nil {
		return err
	}
	of := make(map[batch.ID]map[batch.OrderID]*sqlstore.OrderCols, len(ask))
	for i := range orders {
		o := &orders[i]
		if of[batch.ID(o.Batch)] == nil {
			of[batch.ID(o.Batch)] = map[batch.OrderID]*sqlstore.OrderCols{}
		}
		of[batch.ID(o.Batch)][batch.OrderID(o.ID)] = o
	}
	var saved []*stored
	var changed []orderChange
	var done []int64
	for i, st := range settled {
		b := batches[seqs[i]]
		if b == nil || b.key() != st.Batch {
			continue
		}
		next, ok := b.now.SettleOrders(st.Version)
		if !ok {
			continue
		}
		if err := st.Agrees(b.now.State); err != nil {
			return err
		}
		rows, ok := verdicts(st, of[st.Batch.ID], sqlstore.FromMicro(us))
		if !ok {
			continue
		}
		did[i], b.now = true, next
		saved, changed, done = append(saved, b), append(changed, rows...), append(done, b.seq)
	}
	if len(saved) == 0 {
		return nil
	}
	if err := t.save(ctx, saved); err != nil {
		return err
	}
	if err := t.saveOrders(ctx, changed); err != nil {
		return err
	}
	_, err = t.exec(ctx, sqlDeleteUnsettled, ints(done))
	return err
}

// verdicts returns the changes to all orders of a batch, or false.
func verdicts(st store.Settlement, orders map[batch.OrderID]*sqlstore.OrderCols, now time.Time) ([]orderChange, bool) {
	if len(orders) != len(st.Orders) {
		return nil, false
	}
	changed := make([]orderChange, len(st.Orders))
	for i, v := range st.Orders {
		o := orders[v.ID]
		if o == nil {
			return nil, false
		}
		next, ok := o.Row().Settle(now, st.Batch.ID, v)
		if !ok {
			return nil, false
		}
		changed[i] = orderChange{o, next}
	}
	return changed, true
}
