package memory

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// AddOrders is [store.OrderStore].AddOrders.
func (s *Store) AddOrders(ctx context.Context, added ...batch.Order) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := store.CheckOrders(added); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []*order
	ids, keys := make(map[batch.OrderID]bool, len(added)), map[orderKey]bool{} // of fresh
	for _, o := range added {
		known := ids[o.ID] || keys[orderKey{o.Party, o.Key}]
		if old := s.orders.byID[o.ID]; old != nil {
			if old.Party != o.Party || old.hash != o.Hash() {
				return store.OrderConflict(o.ID)
			}
			known = true
		} else if old := s.orders.byKey[orderKey{o.Party, o.Key}]; old != nil {
			if old.hash != o.Hash() {
				return store.OrderKeyConflict(o)
			}
			known = true
		}
		if known {
			continue
		}
		ids[o.ID] = true
		if o.Key != "" {
			keys[orderKey{o.Party, o.Key}] = true
		}
		n := &order{Order: o, hash: o.Hash(), row: store.NewOrderRow()}
		n.Payload, n.TraceParent = slices.Clone(o.Payload), strings.Clone(o.TraceParent)
		if !o.Deadline.IsZero() {
			n.Deadline = o.Deadline.UTC().Truncate(time.Microsecond)
		}
		fresh = append(fresh, n)
	}
	now := s.now()
	for i, o := range fresh {
		s.orders.insert(o, now.Add(time.Duration(i)*time.Microsecond))
	}
	return nil
}

// FinalOrders is [store.OrderStore].FinalOrders.
func (s *Store) FinalOrders(ctx context.Context, ids []batch.OrderID) (final []batch.OrderRecord, missing []batch.OrderID, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[batch.OrderID]bool, len(ids))
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		switch o := s.orders.byID[id]; {
		case o == nil:
			missing = append(missing, id)
		case o.row.State.Final():
			final = append(final, o.record())
		}
	}
	return final, missing, nil
}

// ListOrders is [store.OrderStore].ListOrders.
func (s *Store) ListOrders(ctx context.Context, q store.ListOrdersQuery) ([]batch.OrderRecord, store.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	q = q.Bounded()
	after, err := parseCursor(q.After)
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, from := &s.orders.all, 0
	if after != nil {
		last := &order{created: after.created, Order: batch.Order{ID: batch.OrderID(after.key.ID)}}
		from = sort.Search(all.len(), func(i int) bool { return byAge(last, all.at(i)) })
	}
	var found []batch.OrderRecord
	for i := from; i < all.len(); i++ {
		o := all.at(i)
		if !selectsOrder(q, o) {
			continue
		}
		if len(found) == q.Limit {
			last := found[q.Limit-1]
			return found, store.CursorAfter(last.CreatedAt, string(last.ID)), nil
		}
		found = append(found, o.record())
	}
	return found, "", nil
}

func selectsOrder(q store.ListOrdersQuery, o *order) bool {
	return (q.Party == nil || *q.Party == o.Party) &&
		(len(q.States) == 0 || slices.Contains(q.States, o.row.State)) &&
		(q.Batch == "" || q.Batch == o.row.Batch)
}

// pruneOrders forgets up to limit orders that became final at until or before. s.mu is held.
func (s *Store) pruneOrders(until time.Time, limit int) (removed int) {
	for removed < limit && s.orders.final.len() > 0 {
		o := s.orders.final.at(0)
		if o.row.FinalAt.After(until) {
			break
		}
		s.orders.remove(o)
		removed++
	}
	return removed
}
