package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgsettings"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// Tx takes the application's own transaction for dltbatch.Runner.AddTx. A transaction in another
// database, or on another server, than those of the store's own connections gives a
// [*batch.InputError]. To find out, the first Add of a process may take a connection of the
// store's pool for a moment. If the pool has none for a second, as in a burst of transactions at
// the start, the Add is not refused, nor are those of the next minute, unless a call of the
// store's own finds out sooner. A pool of one connection never tells.
//
// After an error of an Add the transaction may go on. The Add does not repeat the transaction, as
// the store's own Add does: on a serialization failure (SQLSTATE 40001), or a deadlock (40P01) of
// two transactions that add the same ids or data change ids crosswise, the application rolls back
// and repeats its whole transaction.
//
// However long the transaction stays open, only callers that add the same ids wait for it. Prune
// skips those of its batches that were known before. The places of its batches in the lane follow
// the times at which they were added, but they come behind batches that were claimed before these
// became visible. A transaction above READ COMMITTED gets an [*IsolationError]: see
// Options.AllowSnapshotTx.
//
// With synchronous standbys, a commit whose context ends while it waits for them can be reported
// as a success (by lib/pq), and a failover undoes it. If the context is done after the commit, the
// commit is not known: add the batches again.
func (s *Store) Tx(tx *sql.Tx) store.Tx { return appTx{s, sqlTxOf(tx)} }

// Owns is [store.Store].Owns.
func (s *Store) Owns(tx store.Tx) bool {
	own, is := tx.(appTx)
	return is && own.store == s
}

// sqlTxOf returns a transaction of database/sql as a conns.Tx; nil stays nil.
func sqlTxOf(tx *sql.Tx) conns.Tx {
	if tx == nil {
		return nil
	}
	return sqlTx{tx}
}

// appTx is a transaction of the application.
type appTx struct {
	store *Store
	tx    conns.Tx
}

// Add implements [store.Tx].
func (o appTx) Add(ctx context.Context, batches ...batch.Batch) error {
	return o.store.addTx(ctx, o.tx, batches...)
}

func (s *Store) addTx(ctx context.Context, tx conns.Tx, batches ...batch.Batch) error {
	const op = "add in a transaction"
	in, err := sqlstore.Prepare(batches)
	if err != nil || len(in) == 0 {
		return wrap(op, err)
	}
	fresh := (&session{tx: tx, store: s}).copier(len(in)) != nil && s.freshness.expectsFresh()
	return s.inTx(ctx, op, tx, true, func(t *session) error {
		err := t.add(ctx, in, fresh)
		if fresh && s.notFreshError(err) {
			fresh = false
			return fmt.Errorf("%w: %w", sqlstore.ErrMoved, err)
		}
		if err != nil || !s.opts.NotifyInTx {
			return err
		}
		var h store.Hint
		for _, b := range batches {
			if !slices.Contains(h.Lanes, b.Service) {
				h.Lanes = append(h.Lanes, b.Service)
			}
		}
		return sendHint(ctx, tx, notifyAtCommitStatement, s.names.channel(), h)
	})
}

// inTx runs do in the application's own transaction. After an error it undoes the work of do. adds
// is true if do assigns order keys, as in [Store.addTransaction].
func (s *Store) inTx(ctx context.Context, op string, tx conns.Tx, adds bool, do func(t *session) error) error {
	if tx == nil {
		return wrap(op, &batch.InputError{Field: "tx", Value: "nil", Want: "an open transaction of this database: a *sql.Tx, or a pgx.Tx in store/postgres/native"})
	}
	t := &session{tx: tx, store: s}
	list := pgsettings.For(pgsettings.Applications, s.opts.AllowAsynchronousCommit)
	have, err := sqlstore.Query[string](ctx, t, textRowsStatement(selectTxSettings+selectLocation+list.Columns()))
	if err != nil {
		return wrap(op, err)
	}
	level, plans := have[0], have[1]
	if err := wrongSetting(list, have[4:]); err != nil {
		return wrap(op, err)
	}
	if err := s.checkOwnDatabase(ctx, op, location{have[2], have[3]}); err != nil {
		return err
	}
	switch level {
	case "read committed", "read uncommitted":
	case "repeatable read":
		t.isolation = repeatableRead
	default:
		t.isolation = serializable
	}
	if t.isolation.hidesCommits() && !s.opts.AllowSnapshotTx {
		return wrap(op, &IsolationError{Level: level})
	}
	// Once the schema has been checked, only transactions of the store check it again, because the
	// application's transaction may have other rights and an older snapshot.
	if s.schemaCheckedUntil.Load() == nil {
		if err := s.checkSchema(ctx, t); err != nil {
			return wrap(op, err)
		}
	}
	// Settings that are made after a savepoint are undone with it, or below.
	begin := "SAVEPOINT dltbatch_add; " + sqlCustomPlans
	if adds {
		begin += "; " + s.sql(takeNumber)
	}
	free := context.WithoutCancel(ctx)
	for left := maxRetries; ; left-- {
		if _, err = tx.Exec(ctx, begin); err == nil {
			err = do(t)
		}
		if err == nil {
			break
		}
		_, undo := tx.Exec(free, "ROLLBACK TO SAVEPOINT dltbatch_add; RELEASE SAVEPOINT dltbatch_add")
		if undo != nil || left == 0 || !errors.Is(err, sqlstore.ErrMoved) {
			return s.explain(ctx, op, errors.Join(err, undo))
		}
	}
	_, err = tx.Exec(free, "RELEASE SAVEPOINT dltbatch_add; SELECT set_config('plan_cache_mode', '"+plans+"', true)")
	return wrap(op, err)
}
