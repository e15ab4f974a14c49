package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// session is one connection, in a transaction or not, with its prepared statements. Statements
// run with the context that they get; in loops this context has no Done channel, because the
// driver starts a goroutine for every statement that can be interrupted.
type session struct {
	conn  preparer
	stmts map[string]*sql.Stmt
	texts *sqlstore.Texts
	fresh *sqlstore.Fresh
	// onCommit runs once the transaction is committed for certain, and nobody else writes yet;
	// nil runs nothing. Only write knows of a commit.
	onCommit func()
	own      *ownSpans
	added    []numberSpan // by its transaction
}

type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func (s *Store) session(conn preparer) *session {
	return &session{conn: conn, stmts: map[string]*sql.Stmt{}, texts: s.texts, fresh: s.fresh, own: &s.own}
}

func (t *session) close() {
	for _, s := range t.stmts {
		_ = s.Close() // its error does not matter
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

// Texts returns the store's.
func (t *session) Texts() *sqlstore.Texts { return t.texts }

// Exec runs a statement of this package, or one that is shared.
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

// Query is Exec for rows.
func (t *session) Query(ctx context.Context, statement string, args ...any) (sqlstore.Rows, error) {
	s, err := t.stmt(ctx, statement)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args...) //nolint:rowserrcheck // sqlstore checks it
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

// write runs do in a transaction that holds the database's write lock from its beginning, so
// that rows which do reads cannot change before it writes. A panic of do passes through after
// the rollback.
func (s *Store) write(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	if err := s.forgetOtherFile(s.files.checkSame()); err != nil { // before the pool makes another file
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
			if err == nil { // a commit to a file that nobody finds again does not count
				if err = s.forgetOtherFile(s.files.checkSameOn(ctx, w.conn)); err != nil {
					err = &sqlstore.CommitError{Err: err}
				}
			}
		} else {
			w.undo(free) // it may have begun all the same
		}
		done = err == nil
		return wrap(op, err)
	case <-ctx.Done():
		// While another process writes, SQLite waits inside of its busy handler, for
		// busy_timeout at most, and nothing interrupts it: the caller need not wait along.
		go func() {
			<-began //nolint:errcheck // it may have begun although it failed
			w.undo(free)
			s.endTurn(w, false)
		}()
		return wrap(op, ctx.Err())
	}
}

// waitTurn waits until no other writes, and returns the connection that the previous writer left,
// or nil.
func (s *Store) waitTurn(ctx context.Context) (*writerConn, error) {
	s.handover.wait()
	select {
	case s.writer <- struct{}{}:
		return s.handover.take(), nil
	case <-ctx.Done():
		s.handover.forgo()
		return nil, ctx.Err()
	}
}

// takeTurn is enter, and takes a connection from the pool where none was left. The turn ends with
// leave.
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

// endTurn ends a turn. It leaves only a connection in good order to another writer; where all
// connections are in use it leaves none, since readers and the application may wait for it,
// too.
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
	w.onCommit, w.added = nil, nil
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
	w.own.add(w.added) // before a listener can see the batches
	if _, err := w.conn.ExecContext(free, "COMMIT"); err != nil {
		w.own.remove(w.added)
		return &sqlstore.CommitError{Err: err}
	}
	done = true
	if w.onCommit != nil {
		w.onCommit()
	}
	return nil
}

// undo ends the transaction. The statements go first: SQLite keeps a connection that is closed
// before them, with its transaction and its lock.
func (w *writerConn) undo(ctx context.Context) {
	w.session.close()
	rollback(ctx, w.conn)
}

// rollback ends the transaction. A connection that may still be in a transaction does not go
// back to the pool.
func rollback(ctx context.Context, conn *sql.Conn) {
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err == nil {
		return
	}
	_ = conn.Raw(func(dc any) error { // its error is the verdict below
		if c, ok := dc.(interface{ AutoCommit() bool }); ok && c.AutoCommit() {
			return nil // SQLite had rolled back by itself, as it does when the disk is full
		}
		return driver.ErrBadConn
	})
}

// read runs do on one connection, without a lock. ctx interrupts it.
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

// snapshot is read where do sees one moment.
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
