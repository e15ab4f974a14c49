package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Cancel is [store.Store].Cancel.
func (s *Store) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionCancel, By: by},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Cancel(now, by.Reason) })
}

// Requeue is [store.Store].Requeue.
func (s *Store) Requeue(ctx context.Context, seen batch.Record, q store.Requeue, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionRequeue, By: by},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Requeue(now, q) })
}

// Decide is [store.Store].Decide.
func (s *Store) Decide(ctx context.Context, seen batch.Record, ruling batch.Ruling, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionDecide, By: by},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Decide(now, ruling, by.Reason) })
}

// Withdraw is [store.Store].Withdraw.
func (s *Store) Withdraw(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionWithdraw, By: by},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Withdraw(now) })
}

// Acquit is [store.Store].Acquit.
func (s *Store) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionAcquit, By: by},
		func(r store.Row, _ time.Time) (store.Row, error) { return r.Acquit() })
}

// operate applies f to a batch whose record is still the one that the person saw. act has the
// action and its author.
func (s *Store) operate(ctx context.Context, seen batch.Record, act batch.Act, f func(store.Row, time.Time) (store.Row, error)) (batch.Record, error) {
	if err := ctx.Err(); err != nil {
		return batch.Record{}, err
	}
	if err := act.Validate(); err != nil {
		return batch.Record{}, err
	}
	if err := store.CheckSeen(seen); err != nil {
		return batch.Record{}, err
	}
	key := seen.Key
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(key)
	if e == nil {
		return batch.Record{}, fmt.Errorf("%w: %s", batch.ErrNotFound, key)
	}
	if err := store.Unmoved(seen, e.record()); err != nil {
		return batch.Record{}, err
	}
	now := s.now()
	next, err := f(e.row, now)
	if err != nil {
		return batch.Record{}, fmt.Errorf("batch %s: %w", key, err)
	}
	e.acts = store.KeepAct(e.acts, store.BatchAct(act, key, e.row, next, now))
	s.replaceRow(e, next)
	return e.record(), nil
}
