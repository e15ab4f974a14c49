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

// session is a connection in a transaction.
type session struct {
	tx        conns.Tx
	store     *Store
	isolation isolation
	// server is the server to which the connection led when it was checked: conns.Session.Server.
	server string
	// written are the rows that this transaction has written, for [commitMemory].
	written []witness
}

// isolation is the isolation level of a transaction.
type isolation uint8

const (
	readCommitted isolation = iota // READ UNCOMMITTED is the same in PostgreSQL
	repeatableRead
	serializable
)

// hidesCommits reports whether the transaction may not see what was committed since it began.
func (i isolation) hidesCommits() bool { return i != readCommitted }

// Texts returns the cache of statements of the store.
func (t *session) Texts() *sqlstore.Texts { return t.store.texts }

// Exec runs a statement after it has filled in the names of tables.
func (t *session) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	return t.tx.Exec(ctx, t.store.sql(statement), args...)
}

// Query is Exec for a statement that returns rows.
func (t *session) Query(ctx context.Context, statement string, args ...any) (sqlstore.Rows, error) {
	return t.tx.Query(ctx, t.store.sql(statement), args...)
}

// sendTogether runs statements that do not need each other's results.
func (t *session) sendTogether(ctx context.Context, list ...conns.Statement) error {
	for i := range list {
		list[i].Text = t.store.sql(list[i].Text)
	}
	return t.tx.Together(ctx, list...)
}

// maxRetries is how often a transaction is begun again after conflicts with other transactions.
const maxRetries = 8

// tx runs do in a transaction and commits. After a conflict with another transaction it begins
// again.
func (s *Store) tx(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.txAs(ctx, op, beginSQL, do)
}

// read is tx for statements that only read, which a standby takes, too.
func (s *Store) read(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.readAs(ctx, op, beginRead, do)
}

// readAs is read with another text that begins the transaction.
func (s *Store) readAs(ctx context.Context, op, begin string, do func(ctx context.Context, t *session) error) error {
	return s.runWithRetries(ctx, op, toRead, begin, func() {}, do)
}

// txAs is tx with another text that begins the transaction.
func (s *Store) txAs(ctx context.Context, op, begin string, do func(ctx context.Context, t *session) error) error {
	return s.txBefore(ctx, op, begin, func() {}, do)
}

// txBefore is txAs, and calls before ahead of each BEGIN.
func (s *Store) txBefore(ctx context.Context, op, begin string, before func(), do func(ctx context.Context, t *session) error) error {
	err := s.runWithRetries(ctx, op, toWrite, begin, before, do)
	switch {
	case err == nil:
		s.noteWritable()
	case errors.Is(err, ErrReadOnly):
		s.noteReadOnly(err)
	}
	return err
}

// runWithRetries runs do in a transaction, and again after a conflict with another transaction.
func (s *Store) runWithRetries(ctx context.Context, op string, as txPurpose, begin string, before func(), do func(ctx context.Context, t *session) error) error {
	var b backoff.BackOff
	for {
		err := s.runOnce(ctx, as, begin, before, do)
		if err == nil || !canRetry(err) || ctx.Err() != nil {
			err = s.explain(ctx, op, err)
			if errors.Is(err, store.ErrNotMigrated) { // tables that existed a moment ago may have moved
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

// isFalse reports whether a statement without arguments returns false. It takes one round trip,
// since an idle instance asks once a second. After an error isFalse returns false, and the
// caller's own transaction returns the error.
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
		return false // the caller's transaction checks the connection
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

// runOnce runs do in one transaction. As database/sql does, it tries another connection if the
// server has closed the connection of the pool, after a restart for example. It also does so if
// the connection was unfit.
func (s *Store) runOnce(ctx context.Context, as txPurpose, begin string, before func(), do func(ctx context.Context, t *session) error) error {
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
		if errors.Is(err, errOtherServer) {
			of.Looked = time.Time{}
		}
		return err
	}
	return s.runOnAnyConn(ctx, begin, before, checked)
}

// runOnAnyConn runs do in one transaction, on the first connection that is neither lost nor unfit.
func (s *Store) runOnAnyConn(ctx context.Context, begin string, before func(), do func(ctx context.Context, t *session, of *conns.Session) error) error {
	for left := -1; ; left-- {
		before()
		begun, err := s.runOnConn(ctx, begin, do)
		if err == nil || begun || !s.isConnLost(err) {
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

// runOnConn runs do in one transaction, on one connection. begun is false if the connection failed
// before the server had begun the transaction, or was unfit and is closed; then nothing took
// effect. A panic of do is passed on after the rollback.
func (s *Store) runOnConn(ctx context.Context, begin string, do func(ctx context.Context, t *session, of *conns.Session) error) (begun bool, err error) {
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
	t := &session{tx: c, store: s}
	if err := do(ctx, t, c.Session()); err != nil {
		return false, err
	}
	if _, err := c.Exec(ctx, conns.Commit); err != nil {
		return false, &sqlstore.CommitError{Err: err}
	}
	done = true
	// A commit that was cancelled while it waited for a synchronous standby is done on this
	// server, and PostgreSQL and lib/pq report success. A failover would undo it.
	if err := ctx.Err(); err != nil {
		return false, &sqlstore.CommitError{Err: err}
	}
	s.commitMemory.noteCommitted(t.server, t.written)
	return false, nil
}

// planAnew makes the server plan the following statements anew, in a transaction of [beginKept].
func (t *session) planAnew(ctx context.Context) error { return t.plan(ctx, sqlPlanAnew) }

// plan is planAnew with a statement that contains sqlPlanAnew.
func (t *session) plan(ctx context.Context, statement string) error {
	if _, err := t.Exec(ctx, statement); err != nil {
		return fmt.Errorf("set plan_cache_mode: %w", err)
	}
	return nil
}

// rollbackTimeLimit is how long a rollback may take before the connection is given up.
const rollbackTimeLimit = 5 * time.Second

// rollback ends the transaction, with a context of its own, and releases the connection. A
// connection that may still be in a transaction does not return to the pool.
func rollback(ctx context.Context, c conns.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeLimit)
	defer cancel()
	if _, err := c.Exec(ctx, conns.Rollback); err != nil {
		c.Discard(ctx)
		return
	}
	c.Release()
}

// discard closes the connection, so that the server ends its transaction.
func discard(ctx context.Context, c conns.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeLimit)
	defer cancel()
	c.Discard(ctx)
}

// checkInterval is how often a process checks the schema's version, because somebody may migrate
// it further than this code allows, and the settings of each connection.
const checkInterval = time.Minute

// schemaChecked reports whether the last check of the schema still counts.
func (s *Store) schemaChecked() bool {
	until := s.schemaCheckedUntil.Load()
	return until != nil && time.Now().Before(*until)
}

// checkSchemaAndConn checks from time to time whether this code works on the schema. If several
// transactions find that a check is due, one of them makes it.
func (s *Store) checkSchemaAndConn(ctx context.Context, t *session) error {
	was := s.schemaCheckedUntil.Load()
	if s.schemaChecked() {
		return nil
	}
	if was == nil {
		return s.checkSchema(ctx, t)
	}
	looks := time.Now().Add(time.Second)
	if !s.schemaCheckedUntil.CompareAndSwap(was, &looks) {
		return nil
	}
	err := s.checkSchema(ctx, t)
	switch {
	case errors.Is(err, store.ErrNewerSchema), errors.Is(err, store.ErrOtherShard):
		s.schemaCheckedUntil.Store(nil)
	case err != nil:
		s.schemaCheckedUntil.CompareAndSwap(&looks, was)
	}
	return err
}

// checkSchema reads the schema's version in a transaction of the store or of the application.
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
	shard, err := t.readShard(ctx)
	if err != nil {
		return err
	}
	s.shard.Store(&shard)
	s.schemaCheckedUntil.Store(&until)
	return nil
}

// explain wraps an error, together with the context's error if that is the cause, which not every
// driver says. After an error about a missing table, the next call checks the schema again.
func (s *Store) explain(ctx context.Context, op string, err error) error {
	if c := ctx.Err(); err != nil && c != nil && !errors.Is(err, c) {
		return fmt.Errorf("postgres: %s: %w: %w", op, c, err)
	}
	switch sqlState(err) {
	case undefinedTable, undefinedColumn, invalidSchemaName:
		s.schemaCheckedUntil.Store(nil)
		return fmt.Errorf("postgres: %s: %w: %w", op, store.ErrNotMigrated, err)
	case readOnlyTransaction:
		return fmt.Errorf("postgres: %s: %w: %w", op, ErrReadOnly, err)
	}
	return wrap(op, err)
}
