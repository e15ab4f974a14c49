package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// session is a connection with its prepared statements, in a transaction or not. A statement runs
// with the context that it gets. In loops that context has no Done channel, because the driver
// starts a goroutine for every statement that can be interrupted.
type session struct {
	conn  preparer
	stmts map[string]*sql.Stmt
	texts *sqlstore.Texts
	fresh *sqlstore.Fresh
	// onCommit runs after the transaction has certainly been committed and before another writer
	// begins. nil runs nothing. Only write calls it.
	onCommit   func()
	ownSpans   *ownSpans
	addedSpans []numberSpan // the numbers that its transaction has added
}

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (s *Store) session(conn preparer) *session {
	return &session{conn: conn, stmts: map[string]*sql.Stmt{}, texts: s.texts, fresh: s.fresh, ownSpans: &s.ownSpans}
}

func (t *session) close() {
	for _, s := range t.stmts {
		_ = s.Close() // an error does not matter here
	}
	clear(t.stmts)
}

func (t *session) stmt(ctx context.Context, statement string) (*sql.Stmt, error) {
	query := t.texts.Of(statement)
	if s, ok := t.stmts[query]; ok {
		return s, nil
	}
	s, err := t.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	t.stmts[query] = s
	return s, nil
}

// Texts returns the cache of statements of the store.
func (t *session) Texts() *sqlstore.Texts { return t.texts }

// Exec runs a statement of this package or of package sqlstore.
func (t *session) Exec(ctx context.Context, statement string, args ...any) (int64, error) {
	s, err := t.stmt(ctx, statement)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Query is Exec for a statement that returns rows.
func (t *session) Query(ctx context.Context, statement string, args ...any) (sqlstore.Rows, error) {
	s, err := t.stmt(ctx, statement)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args...) //nolint:rowserrcheck // package sqlstore checks the error
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// now reads the database's clock.
func (t *session) now(ctx context.Context) (time.Time, error) {
	us, err := sqlstore.Now(ctx, t)
	return sqlstore.FromMicro(us), err
}

// write runs do in a transaction that has the database's write lock from its beginning, so that
// rows which do reads cannot change before it writes. A panic of do is passed on after the
// rollback.
func (s *Store) write(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if err := s.forgetOtherFile(s.files.checkSame()); err != nil { // before the pool creates another file
		return wrap(op, err)
	}
	w, err := s.takeTurn(ctx)
	if err != nil {
		return wrap(op, err)
	}
	began := make(chan error, 1)
	free := context.WithoutCancel(ctx)
	go func() {
		_, err := w.conn.ExecContext(free, "BEGIN IMMEDIATE")
		began <- err
	}()
	select {
	case err := <-began:
		done := false
		defer func() { s.endTurn(w, done) }()
		if err == nil {
			err = transact(ctx, w, func(ctx context.Context, t *session) error {
				if err := s.forgetOtherFile(s.files.checkSameOn(ctx, w.conn)); err != nil {
					return err
				}
				if err := s.checkSchema(ctx, t); err != nil {
					return err
				}
				return do(ctx, t)
			})
			if err == nil { // a commit to a file that is no longer at the path does not count
				if err = s.forgetOtherFile(s.files.checkSameOn(ctx, w.conn)); err != nil {
					err = &sqlstore.CommitError{Err: err}
				}
			}
		} else {
			w.undo(free) // the transaction may have begun in spite of the error
		}
		done = err == nil
		return wrap(op, err)
	case <-ctx.Done():
		// While another process writes, SQLite waits in its busy handler, for busy_timeout at
		// most, and nothing interrupts that. The caller does not wait for it.
		go func() {
			<-began //nolint:errcheck // the transaction may have begun in spite of an error
			w.undo(free)
			s.endTurn(w, false)
		}()
		return wrap(op, ctx.Err())
	}
}

// waitTurn waits until no other caller writes. It returns the connection that the previous writer
// left, or nil.
func (s *Store) waitTurn(ctx context.Context) (*writerConn, error) {
	s.handover.announce()
	select {
	case s.writer <- struct{}{}:
		return s.handover.take(), nil
	case <-ctx.Done():
		s.handover.forgo()
		return nil, ctx.Err()
	}
}

// takeTurn is waitTurn, and takes a connection from the pool if none was left. endTurn ends the
// turn.
func (s *Store) takeTurn(ctx context.Context) (*writerConn, error) {
	if w, err := s.waitTurn(ctx); w != nil || err != nil {
		return w, err
	}
	conn, err := s.connect(ctx)
	if err != nil {
		<-s.writer
		return nil, err
	}
	return &writerConn{session: s.session(conn), conn: conn}, nil
}

// endTurn ends a turn. It leaves a connection to the next writer only if the connection is in good
// order, and only if another connection is free, since readers and the application may also wait
// for a connection.
func (s *Store) endTurn(w *writerConn, good bool) {
	if !good || s.allConnsUsed() || !s.handover.pass(w) {
		w.close()
	}
	<-s.writer
}

func (s *Store) allConnsUsed() bool {
	pool := s.db.Stats()
	return pool.MaxOpenConnections > 0 && pool.InUse >= pool.MaxOpenConnections
}

// transact runs do in the transaction that w is in, and ends it.
func transact(ctx context.Context, w *writerConn, do func(ctx context.Context, t *session) error) error {
	free := context.WithoutCancel(ctx)
	done := false
	w.onCommit, w.addedSpans = nil, nil
	defer func() {
		if !done {
			w.undo(free)
		}
	}()
	if err := do(free, w.session); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.ownSpans.add(w.addedSpans) // before a listener can see the batches
	if _, err := w.conn.ExecContext(free, "COMMIT"); err != nil {
		w.ownSpans.remove(w.addedSpans)
		return &sqlstore.CommitError{Err: err}
	}
	done = true
	if w.onCommit != nil {
		w.onCommit()
	}
	return nil
}

// undo ends the transaction. It closes the statements first, because SQLite keeps a connection
// that is closed before its statements, with its transaction and its lock.
func (w *writerConn) undo(ctx context.Context) {
	w.session.close()
	rollback(ctx, w.conn)
}

// rollback ends the transaction. A connection that may still be in a transaction is closed and
// does not return to the pool.
func rollback(ctx context.Context, conn *sql.Conn) {
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err == nil {
		return
	}
	_ = conn.Raw(func(dc any) error { // Raw returns the error of this function
		if c, ok := dc.(interface{ AutoCommit() bool }); ok && c.AutoCommit() {
			return nil // SQLite had rolled back by itself, as it does when the disk is full
		}
		return driver.ErrBadConn
	})
}

// read runs do on one connection, without a lock. The end of ctx interrupts it.
func (s *Store) read(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if err := s.forgetOtherFile(s.files.checkSame()); err != nil {
		return wrap(op, err)
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return wrap(op, err)
	}
	defer func() { _ = conn.Close() }()
	t := s.session(conn)
	defer t.close()
	err = s.checkSchema(ctx, t)
	if err == nil {
		err = do(ctx, t)
	}
	return wrap(op, err)
}

// snapshot is read in a transaction in which do sees one moment.
func (s *Store) snapshot(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if err := s.forgetOtherFile(s.files.checkSame()); err != nil {
		return wrap(op, err)
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return wrap(op, err)
	}
	defer func() { _ = conn.Close() }()
	defer rollback(context.WithoutCancel(ctx), conn)
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return wrap(op, err)
	}
	t := s.session(conn)
	defer t.close()
	err = s.checkSchema(ctx, t)
	if err == nil {
		err = do(ctx, t)
	}
	return wrap(op, err)
}
