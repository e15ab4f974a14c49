package sqlstore

import (
	"context"
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

// operate applies rule to a batch whose record is still the one that the person saw. asked has the
// action and its author.
func (s *Store) operate(ctx context.Context, seen batch.Record, asked batch.Act, rule func(store.Row, time.Time) (store.Row, error)) (batch.Record, error) {
	op := string(asked.Action)
	if err := asked.Validate(); err != nil {
		return batch.Record{}, s.driver.Wrap(op, err)
	}
	if err := store.CheckSeen(seen); err != nil {
		return batch.Record{}, s.driver.Wrap(op, err)
	}
	key := seen.Key
	return readResult(ctx, s.driver.Write, op, func(ctx context.Context, t Tx) (none batch.Record, err error) {
		if s.driver.CountRequeue != "" && asked.Action == batch.ActionRequeue && areStorable(key.Service) {
			// Counted before the batch becomes visible in its old place, so that no claim begins
			// to read behind that place.
			if _, err := t.Exec(ctx, s.driver.CountRequeue, string(key.Service)); err != nil {
				return none, err
			}
		}
		b, us, err := loadBatch(ctx, t, key)
		if err != nil {
			return none, err
		}
		tags, err := tagsOf(ctx, t, b.Seq)
		if err != nil {
			return none, err
		}
		record := func() batch.Record {
			r := b.Record()
			r.Tags = tags
			return r
		}
		if err := store.Unmoved(seen, record()); err != nil {
			return none, err
		}
		now := FromMicro(us)
		if b.Now, err = rule(b.Was, now); err != nil {
			return none, err
		}
		if err := keepBatchAct(ctx, t, b.Seq, store.BatchAct(asked, key, b.Was, b.Now, now)); err != nil {
			return none, err
		}
		if err := t.Save(ctx, []*Stored{b}); err != nil {
			return none, err
		}
		return record(), nil
	})
}

// loadBatch is Tx.Load for the batch of a key. The error wraps batch.ErrNotFound if the batch is
// not stored.
func loadBatch(ctx context.Context, t Tx, key batch.Key) (*Stored, int64, error) {
	n, err := seqOf(ctx, t, key)
	if err != nil {
		return nil, 0, err
	}
	found, now, err := t.Load(ctx, []int64{n})
	if err != nil {
		return nil, 0, err
	}
	if s := found[n]; s != nil {
		return s, now, nil
	}
	return nil, 0, notFoundError(key)
}
