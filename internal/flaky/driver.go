package flaky

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// Open opens a database whose statements, COMMIT and ROLLBACK included, fail when f says so.
// database/sql keeps a connection on which a statement failed, so the store under test must itself
// end the transaction that is left open.
func (f *Faults) Open(name, dsn string) (*sql.DB, error) {
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, err
	}
	d := db.Driver()
	if err := db.Close(); err != nil {
		return nil, err
	}
	c := &connector{faults: f, driver: d, dsn: dsn}
	if dc, ok := d.(driver.DriverContext); ok {
		if c.inner, err = dc.OpenConnector(dsn); err != nil {
			return nil, err
		}
	}
	return sql.OpenDB(c), nil
}

type connector struct {
	faults *Faults
	driver driver.Driver
	dsn    string
	inner  driver.Connector // nil if the driver has no connector
}

func (c *connector) Driver() driver.Driver { return c.driver }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var inner driver.Conn
	var err error
	if c.inner != nil {
		inner, err = c.inner.Connect(ctx)
	} else {
		inner, err = c.driver.Open(c.dsn)
	}
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, faults: c.faults}, nil
}

// statementVerb returns the name by which a statement is counted.
func statementVerb(query string) string {
	if strings.HasSuffix(query, "COMMIT") { // COMMIT may follow another statement
		return "COMMIT"
	}
	word, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	return strings.ToUpper(word)
}

// conn passes every call on, and makes statements fail.
type conn struct {
	driver.Conn
	faults   *Faults
	isClosed bool
}

// Close closes the connection, unless a fault has closed it.
func (c *conn) Close() error {
	if c.isClosed {
		return nil
	}
	c.isClosed = true
	return c.Conn.Close()
}

// execIgnoringError runs a statement in addition to the caller's, and ignores its error.
func (c *conn) execIgnoringError(ctx context.Context, query string) {
	if e, ok := c.Conn.(driver.ExecerContext); ok {
		_, _ = e.ExecContext(ctx, query, nil) // the statement may be meant to fail
	}
}

// carryOut runs a call or not, as the faults decide.
func carryOut[T any](ctx context.Context, c *conn, name string, do func() (T, error)) (v T, err error) {
	if c.isClosed {
		return v, driver.ErrBadConn
	}
	k := c.faults.drawKind(name)
	switch k {
	case ConnectionCut:
		_ = c.Close() // this is the fault
		return v, fmt.Errorf("%s: %w", name, ErrBefore)
	case RolledBack:
		c.execIgnoringError(ctx, "ROLLBACK")
		return v, fmt.Errorf("%s: %w", name, ErrBefore)
	case CommitRolledBack:
		c.execIgnoringError(ctx, "SELECT 1/0")
	case Shutdown:
		if v, err = do(); err == nil {
			err = shutdown{}
		}
		return v, err
	}
	return failCall(k, name, do)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	var s driver.Stmt
	var err error
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		s, err = p.PrepareContext(ctx, query)
	} else {
		s, err = c.Prepare(query)
	}
	if err != nil {
		return nil, err
	}
	return &stmt{s, c, statementVerb(query)}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return execWithFaults(ctx, c, statementVerb(query), func() (driver.Result, error) { return e.ExecContext(ctx, query, args) })
}

func execWithFaults(ctx context.Context, c *conn, name string, do func() (driver.Result, error)) (driver.Result, error) {
	r, err := carryOut(ctx, c, name, do)
	if err != nil {
		c.closeIfEnded(err)
		return nil, err
	}
	return r, nil
}

// closeIfEnded closes a connection that the simulated server has ended.
func (c *conn) closeIfEnded(err error) {
	if errors.Is(err, shutdown{}) {
		_ = c.Close() // this is the fault
	}
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return queryWithFaults(ctx, c, statementVerb(query), func() (driver.Rows, error) { return q.QueryContext(ctx, query, args) })
}

// queryWithFaults is execWithFaults for a query. The query has made its changes only after its
// rows were read.
func queryWithFaults(ctx context.Context, c *conn, name string, do func() (driver.Rows, error)) (driver.Rows, error) {
	r, err := carryOut(ctx, c, name, do)
	if err == nil {
		return r, nil
	}
	defer c.closeIfEnded(err)
	if r == nil {
		return nil, err
	}
	into := make([]driver.Value, len(r.Columns()))
	for r.Next(into) == nil {
	}
	_ = r.Close() // the answer is lost
	return nil, err
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	b, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, fmt.Errorf("flaky: %T cannot begin", c.Conn)
	}
	inner, err := b.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &tx{inner, c}, nil
}

func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if c.isClosed {
		return driver.ErrBadConn
	}
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !c.isClosed && (!ok || v.IsValid())
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if n, ok := c.Conn.(driver.NamedValueChecker); ok {
		return n.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// AutoCommit implements the method that package sqlite calls on a connection whose transaction
// failed.
func (c *conn) AutoCommit() bool {
	a, ok := c.Conn.(interface{ AutoCommit() bool })
	return ok && a.AutoCommit()
}

type stmt struct {
	driver.Stmt
	conn *conn
	verb string
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return execWithFaults(ctx, s.conn, s.verb, func() (driver.Result, error) { return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return queryWithFaults(ctx, s.conn, s.verb, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

// tx is a transaction that database/sql has begun.
type tx struct {
	driver.Tx
	conn *conn
}

// Commit commits unless a fault prevents it, and may lose the answer. It rolls a transaction that
// is not committed back, as the end of its connection would.
func (t *tx) Commit() error {
	_, err := carryOut(context.Background(), t.conn, "COMMIT", func() (struct{}, error) { return struct{}{}, t.Tx.Commit() })
	if errors.Is(err, ErrBefore) && !t.conn.isClosed {
		_ = t.Tx.Rollback()
	}
	t.conn.closeIfEnded(err)
	return err
}
