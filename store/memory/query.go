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
	if r, ok := s.remains(key); ok {
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
		if l = s.tagged[q.Tag.Value]; l == nil {
			return nil, "", nil
		}
	}
	from := sort.Search(l.len(), func(i int) bool { return byOrder(after, l.at(i)) })
	now := s.now()
	if q.NewerThan > 0 {
		since := now.Add(-q.NewerThan)
		from = max(from, sort.Search(l.len(), func(i int) bool { return l.at(i).created.After(since) }))
	}
	var rows []*entry
	var receipts []int64
	for i := from; i < l.len() && len(rows) <= q.Limit; i++ {
		e := l.at(i)
		if q.OlderThan > 0 && e.created.After(now.Add(-q.OlderThan)) {
			break
		}
		if selects(q, e) {
			rows, receipts = append(rows, e), append(receipts, int64(len(e.row.Receipts)))
		}
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

func selects(q store.ListQuery, e *entry) bool {
	return (q.Service == nil || *q.Service == e.key.Service) &&
		(len(q.States) == 0 || slices.Contains(q.States, e.row.State)) &&
		(!q.Open || !e.row.Final()) &&
		(!q.Quarantined || e.row.Quarantined) &&
		(q.Tag.Name == "" || e.tags[q.Tag.Name] == q.Tag.Value)
}

// parseCursor returns an entry at the cursor's place.
func parseCursor(c store.Cursor) (*entry, error) {
	at, id, err := store.ParseCursor(c)
	if err != nil {
		return nil, err
	}
	return &entry{created: time.UnixMicro(at), key: batch.Key{ID: batch.ID(id)}}, nil
}
