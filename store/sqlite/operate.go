package sqlite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Cancel is [store.Operator].Cancel.
func (s *Store) Cancel(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionCancel, By: by},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Cancel(now, by.Reason) })
}

// Requeue is [store.Operator].Requeue.
func (s *Store) Requeue(ctx context.Context, seen batch.Record, q store.Requeue, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionRequeue, By: by, AtEnd: q.AtEnd},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Requeue(now, q) })
}

// Decide is [store.Operator].Decide.
func (s *Store) Decide(ctx context.Context, seen batch.Record, to batch.State, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionDecide, By: by},
		func(r store.Row, now time.Time) (store.Row, error) { return r.Decide(now, to, by.Reason) })
}

// Acquit is [store.Operator].Acquit.
func (s *Store) Acquit(ctx context.Context, seen batch.Record, by batch.By) (batch.Record, error) {
	return s.operate(ctx, seen, batch.Act{Action: batch.ActionAcquit, By: by},
		func(r store.Row, _ time.Time) (store.Row, error) { return r.Acquit() })
}

// operate applies rule to a batch that is still as it was seen; asked holds the act and its
// author.
func (s *Store) operate(ctx context.Context, seen batch.Record, asked batch.Act, rule func(store.Row, time.Time) (store.Row, error)) (rec batch.Record, err error) {
	op := string(asked.Action)
	if err := asked.Validate(); err != nil {
		return batch.Record{}, wrap(op, err)
	}
	if err := store.CheckSeen(seen); err != nil {
		return batch.Record{}, wrap(op, err)
	}
	key := seen.Key
	err = s.write(ctx, op, func(ctx context.Context, t *session) error {
		now, err := t.now(ctx)
		if err != nil {
			return err
		}
		b, err := t.load(ctx, store.Ref{Key: key})
		if err != nil {
			return err
		}
		if err := store.Unmoved(seen, b.Record(b.now)); err != nil {
			return err
		}
		next, err := rule(b.now, now)
		if err != nil {
			return err
		}
		if err := t.keepBatchAct(ctx, b.Seq, store.BatchAct(asked, key, b.now, next, now)); err != nil {
			return err
		}
		if asked.AtEnd {
			if err := t.moveToEnd(ctx, b, now); err != nil {
				return err
			}
		}
		if err := t.save(ctx, b, next); err != nil {
			return err
		}
		rec = b.Record(b.now)
		return nil
	})
	if err != nil {
		return batch.Record{}, err
	}
	return rec, nil
}

// moveToEnd gives a batch a new place behind its whole lane.
func (t *session) moveToEnd(ctx context.Context, b *stored, now time.Time) error {
	service := b.Key().Service
	last := map[batch.ServiceID]int64{}
	names, err := json.Marshal([]batch.ServiceID{service})
	if err != nil {
		return err
	}
	if err := t.lasts(ctx, last, sqlLaneLasts, string(names)); err != nil {
		return err
	}
	b.CreatedAt = max(sqlstore.ToMicro(now), last[service]+1)
	_, err = t.exec(ctx, sqlMoveToEnd, b.CreatedAt, b.Seq)
	return err
}
