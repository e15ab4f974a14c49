package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Cancel is [store.Operator].Cancel.
func (s *Store) Cancel(ctx context.Context, key batch.Key, reason string) (batch.Record, error) {
	return s.operate(ctx, key, func(r store.Row, now time.Time) (store.Row, error) { return r.Cancel(now, reason) })
}

// Requeue is [store.Operator].Requeue.
func (s *Store) Requeue(ctx context.Context, key batch.Key, quiet time.Duration) (batch.Record, error) {
	return s.operate(ctx, key, func(r store.Row, now time.Time) (store.Row, error) { return r.Requeue(now, quiet) })
}

// Decide is [store.Operator].Decide.
func (s *Store) Decide(ctx context.Context, key batch.Key, to batch.State, reason string) (batch.Record, error) {
	return s.operate(ctx, key, func(r store.Row, now time.Time) (store.Row, error) { return r.Decide(now, to, reason) })
}

func (s *Store) operate(ctx context.Context, key batch.Key, f func(store.Row, time.Time) (store.Row, error)) (batch.Record, error) {
	if err := ctx.Err(); err != nil {
		return batch.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(key)
	if e == nil {
		return batch.Record{}, fmt.Errorf("%w: %s", batch.ErrNotFound, key)
	}
	next, err := f(e.row, s.now())
	if err != nil {
		return batch.Record{}, fmt.Errorf("batch %s: %w", key, err)
	}
	s.put(e, next)
	return e.record(), nil
}
