package postgres

import (
	"context"
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
	tx := s.tx
	if asked.AtEnd {
		tx = s.adding
	}
	err = tx(ctx, op, func(ctx context.Context, t *session) error {
		if asked.Action == batch.ActionRequeue && !asked.AtEnd && sqlstore.CanStore(key.Service) {
			// Before the batch shows in its old place, so that no claim starts behind it.
			if _, err := t.Exec(ctx, sqlTurn, string(key.Service)); err != nil {
				return err
			}
		}
		b, us, err := sqlstore.LoadOne(ctx, t, key)
		if err != nil {
			return err
		}
		if err := store.Unmoved(seen, b.Record()); err != nil {
			return err
		}
		now := sqlstore.FromMicro(us)
		if b.Now, err = rule(b.Was, now); err != nil {
			return err
		}
		if err := t.keepBatchAct(ctx, b.Seq, store.BatchAct(asked, key, b.Was, b.Now, now)); err != nil {
			return err
		}
		if asked.AtEnd {
			if err := t.moveToEnd(ctx, b); err != nil {
				return err
			}
		}
		if err := t.Save(ctx, []*sqlstore.Stored{b}); err != nil {
			return err
		}
		rec = b.Record()
		return nil
	})
	if err != nil {
		return batch.Record{}, err
	}
	return rec, nil
}

// moveToEnd gives a batch, whose row is final and locked, a new place behind its whole lane.
func (t *session) moveToEnd(ctx context.Context, b *sqlstore.Stored) error {
	service := b.Key().Service
	last := map[batch.ServiceID]int64{}
	now, _, err := t.before(ctx, sqlBeforeAdd, []batch.ServiceID{service}, 0, last, customPlans)
	if err != nil {
		return err
	}
	b.CreatedAt = max(now, last[service]+1)
	_, err = t.Exec(ctx, sqlMoveToEnd, b.Seq, b.CreatedAt)
	return err
}
