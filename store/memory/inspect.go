package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// History is [store.Store].History.
func (s *Store) History(ctx context.Context, key batch.Key) (all []batch.Act, err error) {
	err = s.inspect(ctx, key, func(e *entry) { all = slices.Clone(e.acts) })
	return all, err
}

// Attempts is [store.Store].Attempts.
func (s *Store) Attempts(ctx context.Context, key batch.Key) (reports []batch.Report, err error) {
	err = s.inspect(ctx, key, func(e *entry) { reports = slices.Clone(e.reports) })
	return reports, err
}

// Look is [store.Store].Look.
func (s *Store) Look(ctx context.Context, key batch.Key, window int) (l store.Look, err error) {
	err = s.inspect(ctx, key, func(e *entry) {
		l = store.Look{
			At: s.now(), Ref: e.ref(), Row: cloneRow(e.row), Record: e.record(), Budget: e.budget, Footprint: e.footprint,
			Everything: s.control(batch.Everything()), Service: s.control(batch.Only(key.Service)),
		}
		if !e.row.Final() {
			window = max(1, window)
			l.Lane = slices.Clone(s.window(key.Service, func([]store.LaneRow) int { return window }))
			for i := range l.Lane {
				l.Lane[i].Row = cloneRow(l.Lane[i].Row)
			}
		}
	})
	return l, err
}

// inspect calls f with the entry of a batch.
func (s *Store) inspect(ctx context.Context, key batch.Key, f func(*entry)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(key)
	if e == nil {
		return fmt.Errorf("%w: %s", batch.ErrNotFound, key)
	}
	f(e)
	return nil
}

// LaneHistory is [store.Store].LaneHistory.
func (s *Store) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := scope.Validate(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.laneActs[scope]), nil
}

// Acts is [store.Store].Acts.
func (s *Store) Acts(ctx context.Context, q store.ActsQuery) ([]batch.Act, store.Cursor, error) {
	q = q.Bounded()
	from, err := store.ParseActPlace(q.After)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return nil, "", err
	}
	type placedAct struct {
		place store.ActPlace
		act   batch.Act
	}
	var all []placedAct
	take := func(lane bool, list []batch.Act) {
		for i, a := range list {
			p := store.ActPlace{At: a.At.UnixMicro(), Lane: lane, All: a.Scope.All, Service: string(a.Scope.Service), Position: int64(i + 1)}
			if !lane {
				p.Batch = string(a.Batch)
			}
			if p.Compare(from) > 0 {
				all = append(all, placedAct{p, a})
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.laneActs {
		take(true, list)
	}
	for _, e := range s.byID {
		take(false, e.acts)
	}
	slices.SortFunc(all, func(a, b placedAct) int { return a.place.Compare(b.place) })
	var next store.Cursor
	if len(all) > q.Limit {
		all = all[:q.Limit]
		next = all[q.Limit-1].place.Cursor()
	}
	found := make([]batch.Act, len(all))
	for i, p := range all {
		found[i] = p.act
	}
	return found, next, nil
}
