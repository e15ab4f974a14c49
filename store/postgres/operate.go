package postgres

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlrow"
	"github.com/dltbatch/dltbatch/store"
)

// Cancel is [store.Operator].Cancel.
func (s *Store) Cancel(ctx context.Context, key batch.Key, by batch.By) (batch.Record, error) {
	return s.operate(ctx, "cancel", key, func(r store.Row, now time.Time) (store.Row, error) { return r.Cancel(now, by.Reason) })
}

// Requeue is [store.Operator].Requeue.
func (s *Store) Requeue(ctx context.Context, key batch.Key, q store.Requeue, _ batch.By) (batch.Record, error) {
	if q.AtEnd {
		return batch.Record{}, errNotYet
	}
	return s.operate(ctx, "requeue", key, func(r store.Row, now time.Time) (store.Row, error) { return r.Requeue(now, q) })
}

// Decide is [store.Operator].Decide.
func (s *Store) Decide(ctx context.Context, key batch.Key, to batch.State, by batch.By) (batch.Record, error) {
	return s.operate(ctx, "decide", key, func(r store.Row, now time.Time) (store.Row, error) { return r.Decide(now, to, by.Reason) })
}

func (s *Store) operate(ctx context.Context, op string, key batch.Key, rule func(store.Row, time.Time) (store.Row, error)) (rec batch.Record, err error) {
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		b, now, err := t.loadOne(ctx, key)
		if err != nil {
			return err
		}
		if b.now, err = rule(b.now, sqlrow.FromMicro(now)); err != nil {
			return err
		}
		if err := t.save(ctx, []*stored{b}); err != nil {
			return err
		}
		rec = b.record()
		return nil
	})
	if err != nil {
		return batch.Record{}, err
	}
	return rec, nil
}
