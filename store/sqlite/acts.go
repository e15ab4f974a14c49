package sqlite

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// keepBatchAct adds to a batch's history.
func (t *session) keepBatchAct(ctx context.Context, seq int64, a batch.Act) error {
	return t.keep(ctx, sqlInsertBatchAct, append([]any{seq, seq}, sqlstore.BatchActArgs(a)...), sqlTrimBatchActs, []any{seq}, sqlstore.OldActs)
}

// keepLaneAct adds to the history of a lane, or of everything.
func (t *session) keepLaneAct(ctx context.Context, a batch.Act) error {
	scope := []any{a.Scope.All, string(a.Scope.Service)}
	args := append(append(append([]any{}, scope...), scope...), sqlstore.LaneActArgs(a)...)
	return t.keep(ctx, sqlInsertLaneAct, args, sqlTrimLaneActs, scope, sqlstore.OldActs)
}

// keep adds to a bounded list: insert returns the new position, and trim removes old positions
// up to a given one.
func (t *session) keep(ctx context.Context, insert string, args []any, trim string, of []any, old func(newest int64) int64) error {
	var newest int64
	if err := t.get(ctx, &newest, insert, args...); err != nil {
		return err
	}
	if old(newest) <= 0 {
		return nil
	}
	_, err := t.exec(ctx, trim, append(of, old(newest))...)
	return err
}

// History is [store.Inspector].History.
func (s *Store) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	var found []sqlstore.ActCols
	err := s.inspect(ctx, "read a history", key, func(ctx context.Context, t *session, seq int64) error {
		return t.sel(ctx, &found, sqlBatchActs, seq)
	})
	if err != nil {
		return nil, err
	}
	return sqlstore.BatchActs(found, key), nil
}

// inspect runs do with the number of a batch. The error wraps batch.ErrNotFound where there is
// no such batch.
func (s *Store) inspect(ctx context.Context, op string, key batch.Key, do func(ctx context.Context, t *session, seq int64) error) error {
	return s.read(ctx, op, func(ctx context.Context, t *session) error {
		var seq int64
		switch err := t.get(ctx, &seq, sqlSeqByKey, idHash(key.ID), string(key.ID), string(key.Service)); {
		case noRows(err):
			return fmt.Errorf("%w: %s", batch.ErrNotFound, key)
		case err != nil:
			return err
		}
		return do(ctx, t, seq)
	})
}

// LaneHistory is [store.Inspector].LaneHistory.
func (s *Store) LaneHistory(ctx context.Context, scope batch.Scope) ([]batch.Act, error) {
	const op = "read a lane's history"
	if err := scope.Validate(); err != nil {
		return nil, wrap(op, err)
	}
	var found []sqlstore.ActCols
	err := s.read(ctx, op, func(ctx context.Context, t *session) error {
		return t.sel(ctx, &found, sqlLaneActs, scope.All, string(scope.Service))
	})
	if err != nil {
		return nil, err
	}
	return sqlstore.LaneActs(found, scope), nil
}

// pruneLaneActs removes old acts of operators on lanes.
func (s *Store) pruneLaneActs(ctx context.Context, q store.PruneQuery) (removed int, err error) {
	for removed < q.Limit {
		want, n := min(pruneChunk, q.Limit-removed), 0
		err := s.write(ctx, "prune acts", func(ctx context.Context, t *session) error {
			now, err := t.now(ctx)
			if err != nil {
				return err
			}
			var rows []struct {
				Everything bool   `db:"everything"`
				Service    string `db:"service_id"`
				Position   int64  `db:"position"`
			}
			if err := t.sel(ctx, &rows, sqlOldLaneActs, sqlstore.ToMicro(now.Add(-q.OlderThan)), want); err != nil {
				return err
			}
			for _, r := range rows {
				if _, err := t.exec(ctx, sqlDeleteLaneAct, r.Everything, r.Service, r.Position); err != nil {
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
