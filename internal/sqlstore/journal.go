package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// streamCols are the columns of a store.Stream.
type streamCols struct {
	Holder       string `db:"holder"`
	Epoch        int64  `db:"epoch"`
	LeaseExpires int64  `db:"lease_expires"`
	Since        int64  `db:"since"`
	Until        int64  `db:"until_"`
	Cursor       string `db:"cursor"`
}

func (c *streamCols) stream() store.Stream {
	return store.Stream{
		Holder: c.Holder, Epoch: c.Epoch, LeaseExpires: FromMicro(c.LeaseExpires),
		Since: FromMicro(c.Since), Until: FromMicro(c.Until), Cursor: c.Cursor,
	}
}

// changeStream locks a stream, applies rule, and writes the stream back if rule returns true. It
// reads the clock after it has the lock, since a lease may have ended while it waited for the
// lock.
func changeStream(ctx context.Context, t Tx, name string, create bool, rule func(store.Stream, time.Time) (store.Stream, bool)) (
	next store.Stream, now int64, held bool, err error,
) {
	was, err := Query[streamCols](ctx, t, sqlStream, name)
	if err == nil && len(was) == 0 && create {
		if _, err = t.Exec(ctx, sqlNewStream, name); err == nil {
			was, err = Query[streamCols](ctx, t, sqlStream, name)
		}
	}
	if err != nil || len(was) == 0 {
		return next, 0, false, err
	}
	if now, err = Now(ctx, t); err != nil {
		return next, 0, false, err
	}
	if next, held = rule(was[0].stream(), FromMicro(now)); !held {
		return next, now, false, nil
	}
	_, err = t.Exec(ctx, sqlSetStream, name, next.Holder, next.Epoch, ToMicro(next.LeaseExpires),
		ToMicro(next.Since), ToMicro(next.Until), next.Cursor)
	return next, now, true, err
}

// LeaseStream is [store.Store].LeaseStream.
func (s *Store) LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error) {
	const op = "lease a stream"
	if err := store.CheckLease(stream, holder, ttl); err != nil {
		return 0, false, s.driver.Wrap(op, err)
	}
	err = s.driver.Write(ctx, op, func(ctx context.Context, t Tx) error {
		next, _, ok, err := changeStream(ctx, t, stream, true, func(was store.Stream, now time.Time) (store.Stream, bool) {
			return was.Lease(now, holder, ttl)
		})
		epoch, held = next.Epoch, ok
		return err
	})
	if err != nil || !held {
		return 0, false, err
	}
	return epoch, true, nil
}

// AppendStream is [store.Store].AppendStream.
func (s *Store) AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error) {
	const op = "append to a stream"
	if err := store.CheckEntry(e); err != nil {
		return false, s.driver.Wrap(op, err)
	}
	err = s.driver.Write(ctx, op, func(ctx context.Context, t Tx) error {
		_, now, ok, err := changeStream(ctx, t, e.Stream, false, func(was store.Stream, now time.Time) (store.Stream, bool) {
			return was.Append(now, e)
		})
		if held = ok; err != nil || !ok || len(e.IDs) == 0 {
			return err
		}
		_, err = t.Exec(ctx, sqlInsertStreamIDs, e.Stream, textArray(t, e.IDs), now)
		return err
	})
	return held && err == nil, err
}

// streamRow is a row of sqlFindStream: the span of the stream, or an id.
type streamRow struct {
	IsID  bool   `db:"is_id"`
	Text  string `db:"cursor"`
	Since int64  `db:"since"`
	Until int64  `db:"until_"`
	Now   int64  `db:"now"`
}

// FindStream is [store.Store].FindStream. One statement reads the span and the ids, since an
// entry or a Prune may come between two statements.
func (s *Store) FindStream(ctx context.Context, stream string, ids []string) (found batch.StreamFound, err error) {
	const op = "look into a stream"
	if err := store.CheckStream(stream); err != nil {
		return found, s.driver.Wrap(op, err)
	}
	var foundIDs []string
	err = s.driver.Read(ctx, op, func(ctx context.Context, t Tx) error {
		foundIDs = nil
		var span store.Stream
		var now int64
		for i, some := range streamIDChunks(store.StreamIDs(ids)) {
			rows, err := Query[streamRow](ctx, t, sqlFindStream, stream, textArray(t, some))
			if err != nil {
				return err
			}
			for _, r := range rows {
				if r.IsID {
					foundIDs = append(foundIDs, r.Text)
					continue
				}
				seen := store.Stream{Since: FromMicro(r.Since), Until: FromMicro(r.Until), Cursor: r.Text}
				if now = r.Now; i > 0 {
					seen = span.And(seen)
				}
				span = seen
			}
		}
		found = span.Found(FromMicro(now))
		return nil
	})
	if err != nil {
		return batch.StreamFound{}, err
	}
	found.IDs = foundIDs
	return found, nil
}

// streamIDChunks splits ids into slices of MaxKeys, one for each statement. Without ids it returns
// one empty slice.
func streamIDChunks(ids []string) [][]string {
	if len(ids) == 0 {
		return [][]string{{}}
	}
	return slices.Collect(slices.Chunk(ids, store.MaxKeys))
}
