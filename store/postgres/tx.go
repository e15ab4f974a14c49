package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// session is one connection in a transaction.
type session struct {
	tx    conns.Tx
	s     *Store
	level isolation
	// server is the one that the connection led to when it was looked at: conns.Session.Server.
	server string
	// writes are rows that this transaction has written, for [commitMemory].
	writes []witness
}

// isolation is the isolation level of a transaction.
type isolation uint8

const (
	readCommitted isolation = iota // READ UNCOMMITTED is the same
	repeatableRead
	serializable
)

// hidesCommits reports whether the transaction may not see everything that was committed since it
// began.
func (i isolation) hidesCommits() bool { return i != readCommitted }

// Texts returns the store's.
func (t *session) Texts() *sqlstore.Texts { return t.s.texts }

// Exec sends a statement whose names are not filled in.
func (t *session) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	return t.tx.Exec(ctx, t.s.sql(statement), args...)
}

// Query is Exec for rows.
func (t *session) Query(ctx context.Context, statement string, args ...any) (sqlstore.Rows, error) {
	return t.tx.Query(ctx, t.s.sql(statement), args...)
}

// sendTogether sends statements that need no results of each other.
func (t *session) sendTogether(ctx context.Context, list ...conns.Statement) error {
	for i := range list {
		list[i].Text = t.s.sql(list[i].Text)
	}
	return t.tx.Together(ctx, list...)
}

// How often a transaction is begun again after a conflict with another transaction.
const maxRetries = 8

// tx runs do in a transaction and commits; after a conflict with others it starts again.
func (s *Store) tx(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.txAs(ctx, op, beginSQL, do)
}

// read is tx for statements that only read: a standby takes them, too.
func (s *Store) read(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.readAs(ctx, op, beginRead, do)
}

// readAs is read with another beginning.
func (s *Store) readAs(ctx context.Context, op, begin string, do func(ctx context.Context, t *session) error) error {
	return s.repeat(ctx, op, toRead, begin, func() {}, do)
}

// txAs is tx with another beginning.
func (s *Store) txAs(ctx context.Context, op, begin string, do func(ctx context.Context, t *session) error) error {
	return s.txBefore(ctx, op, begin, func() {}, do)
}

// txBefore is txAs, and calls before ahead of each BEGIN.
func (s *Store) txBefore(ctx context.Context, op, begin string, before func(), do func(ctx context.Context, t *session) error) error {
	err := s.repeat(ctx, op, toWrite, begin, before, do)
	switch {
	case err == nil:
		s.noteWritable()
	case errors.Is(err, ErrReadOnly):
		s.noteReadOnly(err)
	}
	return err
}

// repeat runs do in a transaction, and again where another transaction was in its way.
func (s *Store) repeat(ctx context.Context, op string, as purpose, begin string, before func(), do func(ctx context.Context, t *session) error) error {
	var b backoff.BackOff
	for {
		err := s.runOnce(ctx, as, begin, before, do)
		if err == nil || !canRetry(err) || ctx.Err() != nil {
			err = s.explain(ctx, op, err)
			if errors.Is(err, store.ErrNotMigrated) { // tables that were there a moment ago may have moved
				if _, moved := s.schemaVersionOf(ctx); errors.Is(moved, store.ErrSchemaMoved) {
					return wrap(op, moved)
				}
			}
			return err
		}
		if b == nil {
			b = backoff.WithMaxRetries(backoff.NewExponentialBackOff(
				backoff.WithInitialInterval(time.Millisecond), backoff.WithMaxInterval(100*time.Millisecond)), maxRetries)
		}
		pause := b.NextBackOff()
		if pause == backoff.Stop {
			return wrap(op, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return wrap(op, errors.Join(ctx.Err(), err))
		}
	}
}

// isFalse reports whether a statement without arguments gives false, in one round trip: an idle
// instance asks once a second. On an error it returns false, and the caller's transaction reports
// the error.
func (s *Store) isFalse(ctx context.Context, text string) bool {
	if !s.schemaChecked() {
		return false
	}
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return false
	}
	defer c.Release()
	if !s.connChecked(c.Session(), time.Now()) {
		return false // and the caller's transaction looks
	}
	something := true
	rows, err := c.Query(ctx, text)
	if err != nil {
		return false
	}
	for rows.Next() && err == nil {
		err = rows.Scan(&something)
	}
	return errors.Join(err, rows.Err(), rows.Close()) == nil && !something
}

// runOnce runs do in one transaction. As database/sql does, it tries another connection when the
// server has closed the pool's: after a restart, say. It also does so where the pool's was unfit.
func (s *Store) runOnce(ctx context.Context, as purpose, begin string, before func(), do func(ctx context.Context, t *session) error) error {
	checked := func(ctx context.Context, t *session, of *conns.Session) error {
		if err := s.checkConn(ctx, t, of, as); err != nil {
			return err
		}
		t.server = of.Server
		if err := s.checkSchemaAndConn(ctx, t); err != nil {
			return err
		}
		if as == toWrite {
			if err := t.checkWitnesses(ctx); err != nil {
				return err
			}
		}
		err := do(ctx, t)
		if errors.Is(err, errElsewhere) {
			of.Looked = time.Time{}
		}
		return err
	}
	return s.onAny(ctx, begin, before, checked)
}

// onAny runs do in one transaction, on the first connection that is neither lost nor unfit.
func (s *Store) onAny(ctx context.Context, begin string, before func(), do func(ctx context.Context, t *session, of *conns.Session) error) error {
	for left := -1; ; left-- {
		before()
		begun, err := s.tryConn(ctx, begin, do)
		if err == nil || begun || !s.lost(err) {
			return err
		}
		if left < 0 {
			left = s.pool.Idle() + 2
		}
		if left == 0 {
			return err
		}
	}
}

// tryConn runs do in one transaction, on one connection. begun is false where this connection
// failed before the server had begun the transaction, and where it was unfit and is closed: then
// nothing took effect. A panic of do passes through after the rollback.
func (s *Store) tryConn(ctx context.Context, begin string, do func(ctx context.Context, t *session, of *conns.Session) error) (begun bool, err error) {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return true, err
	}
	done := false
	defer func() {
		begun = c.Begun()
		switch {
		case done:
			c.Release()
		case isUnfit(err) && time.Since(c.Session().Since) >= renewAfter:
			discard(ctx, c)
			begun, err = false, unfitError{err}
		default:
			rollback(ctx, c)
		}
	}()
	if err := c.Begin(ctx, begin); err != nil {
		return false, fmt.Errorf("begin: %w", err)
	}
	t := &session{tx: c, s: s}
	if err := do(ctx, t, c.Session()); err != nil {
		return false, err
	}
	if _, err := c.Exec(ctx, conns.Commit); err != nil {
		return false, &sqlstore.CommitError{Err: err}
	}
	done = true
	// A commit that was cancelled while it waited for a synchronous standby is done on this
	// server, and a success to PostgreSQL and to lib/pq. A failover would undo it.
	if err := ctx.Err(); err != nil {
		return false, &sqlstore.CommitError{Err: err}
	}
	s.commitMemory.noteCommitted(t.server, t.writes)
	return false, nil
}

// planAnew makes plans anew for the following statements in a transaction of [beginKept].
func (t *session) planAnew(ctx context.Context) error { return t.plan(ctx, sqlPlanAnew) }

// plan is planAnew by a statement: sqlPlanAnew, or another that contains it.
func (t *session) plan(ctx context.Context, statement string) error {
	if _, err := t.Exec(ctx, statement); err != nil {
		return fmt.Errorf("set plan_cache_mode: %w", err)
	}
	return nil
}

// rollbackTimeLimit is how long a rollback may take before the connection is given up.
const rollbackTimeLimit = 5 * time.Second

// rollback ends the transaction, with a context of its own, and the use of the connection. A
// connection that may still be in a transaction does not go back to the pool.
func rollback(ctx context.Context, c conns.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeLimit)
	defer cancel()
	if _, err := c.Exec(ctx, conns.Rollback); err != nil {
		c.Discard(ctx)
		return
	}
	c.Release()
}

// discard closes the connection, and the server ends its transaction.
func discard(ctx context.Context, c conns.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeLimit)
	defer cancel()
	c.Discard(ctx)
}

// checkInterval is how often a process looks at the schema's version, since somebody may migrate
// further than this code goes, and at the settings of each connection.
const checkInterval = time.Minute

// schemaChecked reports whether the last check of the schema still counts.
func (s *Store) schemaChecked() bool {
	until := s.checked.Load()
	return until != nil && time.Now().Before(*until)
}

// checkSchemaAndConn asks the database now and then whether this code knows its schema. Where
// several transactions find that it is time, one of them looks.
func (s *Store) checkSchemaAndConn(ctx context.Context, t *session) error {
	was := s.checked.Load()
	if s.schemaChecked() {
		return nil
	}
	if was == nil {
		return s.checkSchema(ctx, t)
	}
	looks := time.Now().Add(time.Second)
	if !s.checked.CompareAndSwap(was, &looks) {
		return nil
	}
	err := s.checkSchema(ctx, t)
	switch {
	case errors.Is(err, store.ErrNewerSchema), errors.Is(err, store.ErrOtherShard):
		s.checked.Store(nil)
	case err != nil:
		s.checked.CompareAndSwap(&looks, was)
	}
	return err
}

// checkSchema asks the database, in a transaction of the store or of the application.
func (s *Store) checkSchema(ctx context.Context, t *session) error {
	until := time.Now().Add(checkInterval)
	have, err := t.version(ctx)
	if err == nil {
		err = s.checkKnown(have)
	}
	if err == nil {
		err = t.checkNotDistributed(ctx)
	}
	if err != nil {
		return err
	}
	shard, err := t.shard(ctx)
	if err != nil {
		return err
	}
	s.shard.Store(&shard)
	s.checked.Store(&until)
	return nil
}

// explain wraps an error, together with the context's error if that is the cause: not every driver
// says so. After an error about a missing table, the next call checks the schema again.
func (s *Store) explain(ctx context.Context, op string, err error) error {
	if c := ctx.Err(); err != nil && c != nil && !errors.Is(err, c) {
		return fmt.Errorf("postgres: %s: %w: %w", op, c, err)
	}
	switch sqlState(err) {
	case undefinedTable, undefinedColumn, invalidSchemaName:
		s.checked.Store(nil)
		return fmt.Errorf("postgres: %s: %w: %w", op, store.ErrNotMigrated, err)
	case readOnlyTransaction:
		return fmt.Errorf("postgres: %s: %w: %w", op, ErrReadOnly, err)
	}
	return wrap(op, err)
}
