package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// History is [store.Inspector].History.
func (s *Store) History(ctx context.Context, key batch.Key) (acts []batch.Act, err error) {
	err = s.inspect(ctx, key, func(e *entry) { acts = slices.Clone(e.acts) })
	return acts, err
}

// Attempts is [store.Inspector].Attempts.
func (s *Store) Attempts(ctx context.Context, key batch.Key) (reports []batch.Report, err error) {
	err = s.inspect(ctx, key, func(e *entry) { reports = slices.Clone(e.reports) })
	return reports, err
}

// Look is [store.Inspector].Look.
func (s *Store) Look(ctx context.Context, key batch.Key, window int) (l store.Look, err error) {
	err = s.inspect(ctx, key, func(e *entry) {
		l = store.Look{
			At: s.now(), Ref: e.ref(), Row: cloneRow(e.row), Record: e.record(), Budget: e.budget, Footprint: e.footprint,
			Everything: s.control(batch.Everything()), Service: s.control(batch.Only(key.Service)),
		}
		if !e.row.Final() {
			window = max(1, window)
			l.Lane = store.InOrder(s.window(key.Service, func([]store.LaneRow) int { return window }), window)
			for i := range l.Lane {
				l.Lane[i].Row = cloneRow(l.Lane[i].Row)
			}
		}
	})
	return l, err
}

// inspect shows f a batch.
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

// LaneHistory is [store.Inspector].LaneHistory.
func (s *Store) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := scope.Validate(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steered[scope]), nil
}
