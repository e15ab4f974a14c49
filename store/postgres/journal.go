package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// streamCols is a store.Stream.
type streamCols struct {
	holder                             string
	epoch, leaseExpires, since, until_ int64
	cursor                             string
}

func (c *streamCols) dest() []any {
	return []any{&c.holder, &c.epoch, &c.leaseExpires, &c.since, &c.until_, &c.cursor}
}

func (c *streamCols) stream() store.Stream {
	return store.Stream{
		Holder: c.holder, Epoch: c.epoch, LeaseExpires: sqlstore.FromMicro(c.leaseExpires),
		Since: sqlstore.FromMicro(c.since), Until: sqlstore.FromMicro(c.until_), Cursor: c.cursor,
	}
}

// changeStream locks a stream, applies the rule, and writes the stream back where the rule
// returns true. It reads the clock under the lock: a lease may have ended during the wait for
// it.
func (t *session) changeStream(ctx context.Context, name string, create bool, rule func(store.Stream, time.Time) (store.Stream, bool)) (
	next store.Stream, now int64, held bool, err error,
) {
	was, err := sqlstore.Query(ctx, t, (*streamCols).dest, sqlStream, name)
	if err == nil && len(was) == 0 && create {
		if _, err = t.Exec(ctx, sqlNewStream, name); err == nil {
			was, err = sqlstore.Query(ctx, t, (*streamCols).dest, sqlStream, name)
		}
	}
	if err != nil || len(was) == 0 {
		return next, 0, false, err
	}
	if now, err = sqlstore.Now(ctx, t); err != nil {
		return next, 0, false, err
	}
	if next, held = rule(was[0].stream(), sqlstore.FromMicro(now)); !held {
		return next, now, false, nil
	}
	_, err = t.Exec(ctx, sqlSetStream, name, next.Holder, next.Epoch, sqlstore.ToMicro(next.LeaseExpires),
		sqlstore.ToMicro(next.Since), sqlstore.ToMicro(next.Until), next.Cursor)
	return next, now, true, err
}

// LeaseStream is [store.Journal].LeaseStream.
func (s *Store) LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error) {
	const op = "lease a stream"
	if err := store.CheckLease(stream, holder, ttl); err != nil {
		return 0, false, wrap(op, err)
	}
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		next, _, ok, err := t.changeStream(ctx, stream, true, func(was store.Stream, now time.Time) (store.Stream, bool) {
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

// AppendStream is [store.Journal].AppendStream.
func (s *Store) AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error) {
	const op = "append to a stream"
	if err := store.CheckEntry(e); err != nil {
		return false, wrap(op, err)
	}
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		_, now, ok, err := t.changeStream(ctx, e.Stream, false, func(was store.Stream, now time.Time) (store.Stream, bool) {
			return was.Append(now, e)
		})
		if held = ok; err != nil || !ok || len(e.IDs) == 0 {
			return err
		}
		_, err = t.Exec(ctx, sqlInsertStreamIDs, e.Stream, texts(e.IDs), now)
		return err
	})
	return held && err == nil, err
}

// streamRow is a row of sqlFindStream: the span, or an id.
type streamRow struct {
	id                bool
	text              string
	since, until, now int64
}

// FindStream is [store.Journal].FindStream. One statement reads the span and the ids, since an
// entry or a Prune may come between two statements.
func (s *Store) FindStream(ctx context.Context, stream string, ids []string) (found batch.StreamFound, err error) {
	const op = "look into a stream"
	if err := store.CheckStream(stream); err != nil {
		return found, wrap(op, err)
	}
	var in []string
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		in = nil
		var span store.Stream
		var now int64
		for i, some := range chunks(store.StreamIDs(ids)) {
			rows, err := sqlstore.Query(ctx, t, func(r *streamRow) []any {
				return []any{&r.id, &r.text, &r.since, &r.until, &r.now}
			}, sqlFindStream, stream, texts(some))
			if err != nil {
				return err
			}
			for _, r := range rows {
				if r.id {
					in = append(in, r.text)
					continue
				}
				seen := store.Stream{Since: sqlstore.FromMicro(r.since), Until: sqlstore.FromMicro(r.until), Cursor: r.text}
				if now = r.now; i > 0 {
					seen = span.And(seen)
				}
				span = seen
			}
		}
		found = span.Found(sqlstore.FromMicro(now))
		return nil
	})
	if err != nil {
		return batch.StreamFound{}, err
	}
	found.IDs = in
	return found, nil
}

// chunks splits ids into statements of MaxKeys; no ids give one empty chunk.
func chunks(ids []string) [][]string {
	if len(ids) == 0 {
		return [][]string{{}}
	}
	return slices.Collect(slices.Chunk(ids, store.MaxKeys))
}

// pruneStreams removes old ids, and shortens the streams' spans. It locks the streams first,
// as AppendStream does, and in one order.
func (s *Store) pruneStreams(ctx context.Context, q store.PruneQuery) (removed int, err error) {
	type old struct {
		stream, id string
		at         int64
	}
	for removed < q.Limit {
		want, n := min(pruneChunk, q.Limit-removed), 0
		err := s.tx(ctx, "prune streams", func(ctx context.Context, t *session) error {
			n = 0
			now, err := sqlstore.Now(ctx, t)
			if err != nil {
				return err
			}
			until := now - int64(q.OlderThan/time.Microsecond)
			from := s.oldIDs.from(until, time.Now())
			rows, err := sqlstore.Query(ctx, t, func(o *old) []any { return []any{&o.stream, &o.id, &o.at} }, sqlOldStreamIDs, until, int64(want), from)
			if err != nil {
				return err
			}
			streams, ages := make([]string, len(rows)), make([]aged, len(rows))
			for i, r := range rows {
				streams[i], ages[i].at = r.stream, r.at
			}
			if s.oldIDs.found(ages); len(rows) == 0 {
				return nil
			}
			slices.Sort(streams)
			names := texts(slices.Compact(streams))
			if _, err := sqlstore.Query(ctx, t, sqlstore.Value[string], sqlLockStreams, names); err != nil {
				return err
			}
			if _, err := t.Exec(ctx, sqlRaiseSince, names, until); err != nil {
				return err
			}
			n = len(rows)
			_, err = t.Exec(ctx, sqlDeleteStreamIDs, textArray(n, func(i int) string { return rows[i].stream }),
				textArray(n, func(i int) string { return rows[i].id }), until)
			return err
		})
		if err != nil {
			return removed, err
		}
		if removed += n; n < want {
			break
		}
	}
	return removed, nil
}
