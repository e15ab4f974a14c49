package sqlstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// SettleableBatches is [order.Store].SettleableBatches.
func (s *Store) SettleableBatches(ctx context.Context, limit int) ([]order.Batch, error) {
	return readResult(ctx, s.driver.Snapshot, "find batches to settle", func(ctx context.Context, t Tx) (found []order.Batch, err error) {
		batches, err := readRecords(ctx, t, s.driver.Settleable, int64(max(0, limit)))
		if err != nil || len(batches) == 0 {
			return nil, err
		}
		of, err := lockOrdersOfBatches(ctx, t, sqlBatchOrders, len(batches), func(i int) batch.ID { return batches[i].ID })
		if err != nil {
			return nil, err
		}
		for _, r := range batches {
			b := order.Batch{Record: r}
			for _, o := range of[r.ID] {
				b.Orders, b.Group = append(b.Orders, o.ref()), o.Group
			}
			if len(b.Orders) > 0 { // otherwise the batch was settled between the two statements
				found = append(found, b)
			}
		}
		return found, nil
	})
}

// lockOrdersOfBatches returns the open orders that a statement finds in n batches, by batch.
func lockOrdersOfBatches(ctx context.Context, t Tx, statement string, n int, id func(i int) batch.ID) (map[batch.ID][]*orderCols, error) {
	orders, err := Query[orderCols](ctx, t, statement, t.Array(n, func(i int) any { return string(id(i)) }))
	if err != nil {
		return nil, err
	}
	of := make(map[batch.ID][]*orderCols, n)
	for i := range orders {
		id := batch.ID(orders[i].Batch)
		of[id] = append(of[id], &orders[i])
	}
	return of, nil
}

// SettleOrders is [order.Store].SettleOrders. Each call is one transaction.
func (s *Store) SettleOrders(ctx context.Context, settled []order.Settlement) ([]bool, error) {
	const op = "settle orders"
	for _, st := range settled {
		if err := order.CheckSettlement(st); err != nil {
			return nil, s.driver.Wrap(op, err)
		}
	}
	if len(settled) == 0 {
		return nil, nil
	}
	return readResult(ctx, s.driver.Write, op, func(ctx context.Context, t Tx) ([]bool, error) {
		did := make([]bool, len(settled))
		return did, s.settle(ctx, t, settled, did)
	})
}

// settle writes the settlements that apply, and marks them in did.
func (s *Store) settle(ctx context.Context, t Tx, settled []order.Settlement, did []bool) error {
	var ask []store.Ref
	asked := map[batch.ID]bool{} // an id may come twice, and its orders may be settled only once
	for _, st := range settled {
		if st.Batch.Validate() == nil {
			ask = append(ask, store.Ref{Key: st.Batch})
			asked[st.Batch.ID] = true
		}
	}
	ids := slices.Sorted(maps.Keys(asked))
	seqs, err := Seqs(ctx, t, len(ask), func(i int) store.Ref { return ask[i] })
	if err != nil {
		return err
	}
	// The rows of the batches are locked before the rows of their orders, each kind in a fixed
	// order.
	batches, us, err := t.Load(ctx, Known(seqs))
	if err != nil {
		return err
	}
	byKey := make(map[batch.Key]*Stored, len(ask))
	for _, b := range batches {
		byKey[b.Key()] = b
	}
	of, err := lockOrdersOfBatches(ctx, t, s.driver.LockBatchOrders, len(ids), func(i int) batch.ID { return ids[i] })
	if err != nil {
		return err
	}
	var saved []*Stored
	var changed []orderChange
	var done []int64
	for i, st := range settled {
		b := byKey[st.Batch]
		if b == nil {
			continue
		}
		next, ok := b.Now.SettleOrders(st.Version)
		if !ok {
			continue
		}
		if err := st.Agrees(b.Now.State); err != nil {
			return err
		}
		rows, ok := orderChanges(st, of[st.Batch.ID], FromMicro(us))
		if !ok {
			continue
		}
		did[i], b.Now = true, next
		saved, changed, done = append(saved, b), append(changed, rows...), append(done, b.Seq)
	}
	if len(saved) == 0 {
		return nil
	}
	if err := t.Save(ctx, saved); err != nil {
		return err
	}
	if err := s.saveOrders(ctx, t, changed); err != nil {
		return err
	}
	_, err = t.Exec(ctx, sqlDeleteUnsettled, t.Ints(done))
	return err
}

// orderChanges returns the changes to all orders of a batch. It returns false if the settlement
// does not name exactly these orders.
func orderChanges(st order.Settlement, orders []*orderCols, now time.Time) ([]orderChange, bool) {
	if len(orders) != len(st.Orders) {
		return nil, false
	}
	changed := make([]orderChange, len(st.Orders))
	byID := make(map[string]*orderCols, len(orders))
	for _, o := range orders {
		byID[o.ID] = o
	}
	for i, v := range st.Orders {
		o := byID[string(v.ID)]
		if o == nil {
			return nil, false
		}
		next, ok := o.row().Settle(now, st.Batch.ID, v)
		if !ok {
			return nil, false
		}
		changed[i] = orderChange{o, next}
	}
	return changed, true
}
