package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Get is [store.Store].Get.
func (s *Store) Get(ctx context.Context, key batch.Key) (batch.Record, error) {
	if err := ctx.Err(); err != nil {
		return batch.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(key); e != nil {
		return e.record(), nil
	}
	if r, ok := s.tombstoneRecord(key); ok {
		return r, nil
	}
	return batch.Record{}, fmt.Errorf("%w: %s", batch.ErrNotFound, key)
}

// List is [store.Store].List.
func (s *Store) List(ctx context.Context, q store.ListQuery) ([]batch.Record, store.Cursor, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	q = q.Bounded()
	after, err := parseCursor(q.After)
	if err = cmp.Or(q.Validate(), err); err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.all
	if q.Tag.Value != "" {
		if l = s.byTag[q.Tag.Value]; l == nil {
			return nil, "", nil
		}
	}
	rows := s.page(q, l, after)
	receipts := make([]int64, len(rows))
	for i, e := range rows {
		receipts[i] = int64(len(e.row.Receipts))
	}
	var found []batch.Record
	for _, e := range rows[:q.Cut(receipts)] {
		found = append(found, e.record())
	}
	if len(found) == len(rows) {
		return found, "", nil
	}
	last := found[len(found)-1]
	return found, store.CursorAfter(last.CreatedAt, string(last.ID)), nil
}

// page returns the rows of a page, and one more row. s.mu is held.
func (s *Store) page(q store.ListQuery, l *list[*entry], after *entry) (rows []*entry) {
	now, from, to := s.now(), 0, l.len()
	switch {
	case q.After == "":
	case q.NewestFirst:
		to = sort.Search(l.len(), func(i int) bool { return !isEarlierInOrder(l.at(i), after) })
	default:
		from = sort.Search(l.len(), func(i int) bool { return isEarlierInOrder(after, l.at(i)) })
	}
	younger := func(than time.Duration) int {
		return sort.Search(l.len(), func(i int) bool { return l.at(i).created.After(now.Add(-than)) })
	}
	if q.NewerThan > 0 {
		from = max(from, younger(q.NewerThan))
	}
	if q.OlderThan > 0 {
		to = min(to, younger(q.OlderThan))
	}
	for n := range max(0, to-from) {
		e := l.at(from + n)
		if q.NewestFirst {
			e = l.at(to - 1 - n)
		}
		if isSelected(q, e) {
			if rows = append(rows, e); len(rows) > q.Limit {
				break
			}
		}
	}
	return rows
}

func isSelected(q store.ListQuery, e *entry) bool {
	return (q.Service == nil || *q.Service == e.key.Service) &&
		(len(q.States) == 0 || slices.Contains(q.States, e.row.State)) &&
		(!q.Open || !e.row.Final()) &&
		(!q.Quarantined || e.row.Quarantined) &&
		(q.Tag.Name == "" || e.tags[q.Tag.Name] == q.Tag.Value)
}

// parseCursor returns an entry that has the order key of the cursor.
func parseCursor(c store.Cursor) (*entry, error) {
	at, id, err := store.ParseCursor(c)
	if err != nil {
		return nil, err
	}
	return &entry{created: time.UnixMicro(at), key: batch.Key{ID: batch.ID(id)}}, nil
}
