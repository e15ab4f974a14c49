package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

// Find is [store.Store].Find. It reads all batches.
func (s *Store) Find(ctx context.Context, q store.FindQuery) ([]batch.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if err := q.Validate(); err != nil {
		return nil, false, err
	}
	q = q.Bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []batch.Record
	matches := func(k batch.Key, change string) bool {
		if q.ID != "" {
			return nameMatches(string(k.ID), string(q.ID), q.Begins)
		}
		return nameMatches(change, q.DataChangeID, q.Begins) && (q.Service == nil || *q.Service == k.Service)
	}
	for _, e := range s.byID {
		if matches(e.key, e.dataChangeID) {
			found = append(found, e.record())
		}
	}
	for id, t := range s.tombstones {
		if r, _ := s.tombstoneRecord(t.Key); s.byID[id] == nil && matches(t.Key, r.DataChangeID) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b batch.Record) int {
		if q.ID != "" {
			return cmp.Compare(a.ID, b.ID)
		}
		return cmp.Or(cmp.Compare(a.DataChangeID, b.DataChangeID), cmp.Compare(a.Service, b.Service))
	})
	return firstOf(found, q.Limit)
}

// nameMatches reports whether name is text, or, if begins is true, begins with text.
func nameMatches(name, text string, begins bool) bool {
	return name == text || begins && strings.HasPrefix(name, text)
}

// firstOf returns up to limit elements of found, and whether there are more.
func firstOf[T any](found []T, limit int) ([]T, bool, error) {
	return found[:min(len(found), limit)], len(found) > limit, nil
}

// FindLanes is [store.Store].FindLanes. It reads all lanes.
func (s *Store) FindLanes(ctx context.Context, q store.FindLanesQuery) ([]batch.ServiceID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q = q.Bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[batch.ServiceID]bool{}
	add := func(service batch.ServiceID) {
		if nameMatches(string(service), string(q.Name), q.Begins) {
			known[service] = true
		}
	}
	for _, e := range s.byID {
		add(e.key.Service)
	}
	for scope, control := range s.controls {
		if !scope.All && control.Version > 0 {
			add(scope.Service)
		}
	}
	for name := range s.texts[store.TextServed] {
		add(batch.ServiceID(name))
	}
	for _, o := range s.orders.byID {
		add(o.Party)
	}
	var found []batch.ServiceID
	for service := range known {
		found = append(found, service)
	}
	slices.Sort(found)
	return found[:min(len(found), q.Limit)], nil
}

// FindOrders is [order.Store].FindOrders. It reads all orders.
func (s *Store) FindOrders(ctx context.Context, q order.FindQuery) ([]order.Record, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if err := q.Validate(); err != nil {
		return nil, false, err
	}
	q = q.Bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []order.Record
	for _, o := range s.orders.byID {
		if q.ID != "" && nameMatches(string(o.ID), string(q.ID), q.Begins) || q.Key != "" && nameMatches(o.Key, q.Key, q.Begins) {
			found = append(found, o.record())
		}
	}
	slices.SortFunc(found, func(a, b order.Record) int {
		if q.ID != "" {
			return cmp.Compare(a.ID, b.ID)
		}
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Party, b.Party))
	})
	return firstOf(found, q.Limit)
}
