package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// keepBatchAct adds to the history of a batch whose row is locked.
func (t *session) keepBatchAct(ctx context.Context, seq int64, a batch.Act) error {
	return t.keepAct(ctx, sqlInsertBatchAct, sqlTrimBatchActs, []any{seq}, sqlstore.BatchActArgs(a))
}

// keepLaneAct adds to the history of a scope whose control is locked.
func (t *session) keepLaneAct(ctx context.Context, a batch.Act) error {
	return t.keepAct(ctx, sqlInsertLaneAct, sqlTrimLaneActs, []any{a.Scope.All, string(a.Scope.Service)}, sqlstore.LaneActArgs(a))
}

// keepAct adds to a list of acts: insert returns the new position, and trim removes old
// positions up to a given one.
func (t *session) keepAct(ctx context.Context, insert, trim string, of, act []any) error {
	newest, _, err := sqlstore.Get[int64](ctx, t, insert, append(slices.Clip(of), act...)...)
	if err != nil || sqlstore.OldActs(newest) <= 0 {
		return err
	}
	_, err = t.Exec(ctx, trim, append(slices.Clip(of), sqlstore.OldActs(newest))...)
	return err
}

// History is [store.Inspector].History.
func (s *Store) History(ctx context.Context, key batch.Key) ([]batch.Act, error) {
	found, err := inspect(ctx, s, "read a history", key, (*sqlstore.ActCols).BatchDest, sqlBatchActs)
	if err != nil {
		return nil, err
	}
	return sqlstore.BatchActs(found, key), nil
}

// inspect returns the rows that a statement finds about a batch. The error wraps
// batch.ErrNotFound where there is no such batch.
func inspect[T any](ctx context.Context, s *Store, op string, key batch.Key, dest func(*T) []any, statement string) (found []T, err error) {
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		seqs, err := sqlstore.Seqs(ctx, t, 1, func(int) store.Ref { return store.Ref{Key: key} })
		if err != nil {
			return err
		}
		if seqs[0] == 0 {
			return fmt.Errorf("%w: %s", batch.ErrNotFound, key)
		}
		found, err = sqlstore.Query(ctx, t, dest, statement, seqs[0])
		return err
	})
	return found, err
}

// LaneHistory is [store.Inspector].LaneHistory.
func (s *Store) LaneHistory(ctx context.Context, scope batch.Scope) (acts []batch.Act, err error) {
	const op = "read a lane's history"
	if err := scope.Validate(); err != nil {
		return nil, wrap(op, err)
	}
	err = s.tx(ctx, op, func(ctx context.Context, t *session) error {
		found, err := sqlstore.Query(ctx, t, (*sqlstore.ActCols).LaneDest, sqlLaneActs, scope.All, string(scope.Service))
		acts = sqlstore.LaneActs(found, scope)
		return err
	})
	if err != nil {
		return nil, err
	}
	return acts, nil
}

// pruneLaneActs removes old acts of operators on lanes.
func (t *session) pruneLaneActs(ctx context.Context, q store.PruneQuery, now int64, limit int) (int, error) {
	n, err := t.Exec(ctx, sqlPruneLaneActs, now-int64(q.OlderThan/time.Microsecond), int64(limit))
	return int(n), err
}
