package sqlite

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// streamCols is a store.Stream.
type streamCols struct {
	Holder       string `db:"holder"`
	Epoch        int64  `db:"epoch"`
	LeaseExpires int64  `db:"lease_expires"`
	Since        int64  `db:"since"`
	Until        int64  `db:"until_"`
	Cursor       string `db:"cursor"`
}

func (c streamCols) stream() store.Stream {
	return store.Stream{
		Holder: c.Holder, Epoch: c.Epoch, LeaseExpires: sqlstore.FromMicro(c.LeaseExpires),
		Since: sqlstore.FromMicro(c.Since), Until: sqlstore.FromMicro(c.Until), Cursor: c.Cursor,
	}
}

// changeStream reads a stream, applies the rule, and writes the stream back where the rule
// returns true.
func (t *session) changeStream(ctx context.Context, name string, rule func(store.Stream, time.Time) (store.Stream, bool)) (
	next store.Stream, now time.Time, held bool, err error,
) {
	if now, err = t.now(ctx); err != nil {
		return next, now, false, err
	}
	var was streamCols
	if err := t.get(ctx, &was, sqlStream, name); err != nil && !noRows(err) {
		return next, now, false, err
	}
	if next, held = rule(was.stream(), now); !held {
		return next, now, false, nil
	}
	_, err = t.exec(ctx, sqlSetStream, name, next.Holder, next.Epoch, sqlstore.ToMicro(next.LeaseExpires),
		sqlstore.ToMicro(next.Since), sqlstore.ToMicro(next.Until), next.Cursor)
	return next, now, true, err
}

// LeaseStream is [store.Journal].LeaseStream.
func (s *Store) LeaseStream(ctx context.Context, stream, holder string, ttl time.Duration) (epoch int64, held bool, err error) {
	const op = "lease a stream"
	if err := store.CheckLease(stream, holder, ttl); err != nil {
		return 0, false, wrap(op, err)
	}
	err = s.write(ctx, op, func(ctx context.Context, t *session) error {
		var next store.Stream
		var err error
		next, _, held, err = t.changeStream(ctx, stream, func(was store.Stream, now time.Time) (store.Stream, bool) {
			return was.Lease(now, holder, ttl)
		})
		epoch = next.Epoch
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
	err = s.write(ctx, op, func(ctx context.Context, t *session) error {
		var now time.Time
		var err error
		_, now, held, err = t.changeStream(ctx, e.Stream, func(was store.Stream, now time.Time) (store.Stream, bool) {
			return was.Append(now, e)
		})
		if err != nil || !held {
			return err
		}
		for _, id := range e.IDs {
			if _, err := t.exec(ctx, sqlInsertStreamID, e.Stream, id, sqlstore.ToMicro(now)); err != nil {
				return err
			}
		}
		return nil
	})
	return held && err == nil, err
}

// FindStream is [store.Journal].FindStream. One statement reads the span and the ids, since a
// Prune may come between two statements.
func (s *Store) FindStream(ctx context.Context, stream string, ids []string) (found batch.StreamFound, err error) {
	const op = "look into a stream"
	if err := store.CheckStream(stream); err != nil {
		return found, wrap(op, err)
	}
	var in []string
	err = s.read(ctx, op, func(ctx context.Context, t *session) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		var span store.Stream
		var now int64
		for i, some := range chunks(store.StreamIDs(ids)) {
			list, err := json.Marshal(some)
			if err != nil {
				return err
			}
			var rows []struct {
				ID    bool   `db:"is_id"`
				Text  string `db:"text"`
				Since int64  `db:"since"`
				Until int64  `db:"until_"`
				Now   int64  `db:"now"`
			}
			if err := t.sel(ctx, &rows, sqlFindStream, stream, string(list), stream); err != nil {
				return err
			}
			for _, r := range rows {
				if r.ID {
					in = append(in, r.Text)
					continue
				}
				seen := store.Stream{Since: sqlstore.FromMicro(r.Since), Until: sqlstore.FromMicro(r.Until), Cursor: r.Text}
				if now = r.Now; i > 0 {
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

// pruneStreams removes old ids, and shortens the streams' spans.
func (s *Store) pruneStreams(ctx context.Context, q store.PruneQuery) (removed int, err error) {
	for removed < q.Limit {
		want, n := min(pruneChunk, q.Limit-removed), 0
		err := s.write(ctx, "prune streams", func(ctx context.Context, t *session) error {
			now, err := t.now(ctx)
			if err != nil {
				return err
			}
			until := sqlstore.ToMicro(now.Add(-q.OlderThan))
			var rows []struct {
				Stream string `db:"stream"`
				ID     string `db:"id"`
			}
			if err := t.sel(ctx, &rows, sqlOldStreamIDs, until, want); err != nil {
				return err
			}
			for _, r := range rows {
				if _, err := t.exec(ctx, sqlDeleteStreamID, r.Stream, r.ID); err != nil {
					return err
				}
				if _, err := t.exec(ctx, sqlRaiseSince, until, r.Stream, until); err != nil {
					return err
				}
			}
			n = len(rows)
			return nil
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
