package memory

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// AddOrders is [order.Store].AddOrders.
func (s *Store) AddOrders(ctx context.Context, added ...order.Order) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.addOrders(ctx, nil, added)
}

// addOrders stores orders, or adds them in t if t is not nil.
func (s *Store) addOrders(ctx context.Context, t *Tx, added []order.Order) error {
	if _, err := order.Check(added); err != nil {
		return err
	}
	if err := s.lockFor(ctx, t, nil, added); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if t != nil {
		if err := t.checkLive(); err != nil {
			return err
		}
	}
	fresh, err := s.freshOrders(added, t)
	if err != nil {
		return err
	}
	now := s.now()
	last := map[batch.ServiceID]time.Time{}
	if t != nil {
		for _, o := range t.orders {
			last[o.Party] = o.created
		}
	}
	for i, o := range fresh {
		at := now.Add(time.Duration(i) * time.Microsecond)
		if t == nil {
			s.orders.insert(o, at)
			continue
		}
		o.created = orderKeyAfter(last[o.Party], at)
		if p := s.orders.parties[o.Party]; p != nil {
			o.created = orderKeyAfter(p.lastKey, o.created)
		}
		last[o.Party] = o.created
		t.orders = append(t.orders, o)
		t.ordersByID[o.ID] = o
		if o.Key != "" {
			t.ordersByKey[o.keyOfParty()] = o
		}
	}
	return nil
}

// freshOrders returns the orders that are not stored yet and not added in t. s.mu is held.
func (s *Store) freshOrders(added []order.Order, t *Tx) ([]*orderEntry, error) {
	var fresh []*orderEntry
	ids, keys := make(map[order.ID]bool, len(added)), map[orderKey]bool{} // the ids and keys of the orders in fresh
	for _, o := range added {
		key := orderKey{o.Party, o.Key}
		byID, byKey := s.orders.byID[o.ID], s.orders.byKey[key]
		if t != nil {
			byID, byKey = cmp.Or(byID, t.ordersByID[o.ID]), cmp.Or(byKey, t.ordersByKey[key])
		}
		known := ids[o.ID] || keys[key]
		if byID != nil {
			if byID.Party != o.Party || byID.hash != o.Hash() {
				return nil, order.Conflict(o.ID)
			}
			known = true
		} else if byKey != nil {
			if byKey.hash != o.Hash() {
				return nil, order.KeyConflict(o)
			}
			known = true
		}
		if known {
			continue
		}
		ids[o.ID] = true
		if o.Key != "" {
			keys[key] = true
		}
		n := &orderEntry{Order: o, hash: o.Hash(), row: order.NewRow()}
		n.Payload, n.TraceParent = slices.Clone(o.Payload), strings.Clone(o.TraceParent)
		if !o.Deadline.IsZero() {
			n.Deadline = o.Deadline.UTC().Truncate(time.Microsecond)
		}
		fresh = append(fresh, n)
	}
	return fresh, nil
}

// FinalOrders is [order.Store].FinalOrders.
func (s *Store) FinalOrders(ctx context.Context, ids []order.ID) (final []order.Record, missing []order.ID, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[order.ID]bool, len(ids))
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

// ListOrders is [order.Store].ListOrders.
func (s *Store) ListOrders(ctx context.Context, q order.ListQuery) ([]order.Record, store.Cursor, error) {
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
	all, last := &s.orders.all, &orderEntry{created: after.created, Order: order.Order{ID: order.ID(after.key.ID)}}
	from := sort.Search(all.len(), func(i int) bool { return isOlderOrder(last, all.at(i)) })
	var found []order.Record
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

func selectsOrder(q order.ListQuery, o *orderEntry) bool {
	return (q.Party == nil || *q.Party == o.Party) &&
		(len(q.States) == 0 || slices.Contains(q.States, o.row.State)) &&
		(q.Batch == "" || q.Batch == o.row.Batch)
}

// pruneOrders removes up to limit orders that became final at until or before. s.mu is held.
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
