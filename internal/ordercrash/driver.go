package ordercrash

import (
	"context"
	"database/sql"
	"database/sql/driver"
)

// connect opens a database on which every statement calls step.
func (k *killer) connect(name, dsn string) (*sql.DB, error) {
	db, err := sql.Open(name, dsn)
	if err != nil {
		return nil, err
	}
	d := db.Driver()
	if err := db.Close(); err != nil {
		return nil, err
	}
	c := &connector{killer: k, driver: d, dsn: dsn}
	if dc, ok := d.(driver.DriverContext); ok {
		if c.inner, err = dc.OpenConnector(dsn); err != nil {
			return nil, err
		}
	}
	return sql.OpenDB(c), nil
}

type connector struct {
	killer *killer
	driver driver.Driver
	dsn    string
	inner  driver.Connector // nil if the driver has none
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
	return &conn{inner, c.killer}, nil
}

// conn passes every call on, and calls step before and after every statement.
type conn struct {
	driver.Conn
	killer *killer
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
	return &stmt{s, c.killer}, nil
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	c.killer.reachInside(ctx)
	r, err := e.ExecContext(ctx, query, args)
	c.killer.reachInside(ctx)
	return r, err
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	c.killer.reachInside(ctx)
	return q.QueryContext(ctx, query, args)
}

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	b, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, driver.ErrSkip
	}
	inner, err := b.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &tx{inner, c.killer, ctx}, nil
}

func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
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
	killer *killer
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.killer.reachInside(ctx)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) // every driver here has this method
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.killer.reachInside(ctx)
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

type tx struct {
	driver.Tx
	killer *killer
	ctx    context.Context
}

func (t *tx) Commit() error {
	t.killer.reachInside(t.ctx)
	err := t.Tx.Commit()
	t.killer.reachInside(t.ctx)
	return err
}
