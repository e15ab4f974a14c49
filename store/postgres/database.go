package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// sqlPool is a [conns.Pool] over database/sql.
type sqlPool struct {
	db       *sql.DB
	sessions *conns.Sessions
}

var errUnreadableDSN = errors.New("the data source name is no URL that can be read; it is not shown, since it may hold a password")

func (p sqlPool) Acquire(ctx context.Context) (conns.Conn, error) {
	c, err := p.db.Conn(ctx)
	if u, is := errors.AsType[*url.Error](err); is && u.Op == "parse" { // such an error quotes the whole data source name
		return nil, errUnreadableDSN
	}
	if err != nil {
		return nil, err
	}
	of := &sqlConn{conn: c}
	err = c.Raw(func(connection any) error {
		of.session = p.sessions.Of(connection, func() int { return p.db.Stats().OpenConnections })
		return nil
	})
	if err != nil {
		_ = c.Close() // the earlier error is returned
		return nil, err
	}
	return of, nil
}

func (p sqlPool) Idle() int                 { return p.db.Stats().Idle }
func (p sqlPool) Single() bool              { return p.db.Stats().MaxOpenConnections == 1 }
func (p sqlPool) Unsent(err error) bool     { return errors.Is(err, driver.ErrBadConn) }
func (p sqlPool) OpenDB() (*sql.DB, func()) { return p.db, func() {} }

// sqlConn is a [conns.Conn].
type sqlConn struct {
	conn     *sql.Conn
	hasBegun bool
	session  *conns.Session
}

func (c *sqlConn) Begin(ctx context.Context, text string) error {
	_, err := c.conn.ExecContext(ctx, text)
	c.hasBegun = err == nil
	return err
}

func (c *sqlConn) Begun() bool             { return c.hasBegun }
func (c *sqlConn) Session() *conns.Session { return c.session }

// commitOrFail is COMMIT after a statement that changes nothing. A server answers COMMIT in a
// failed transaction with ROLLBACK, which drivers return as a success. In such a transaction the
// first statement fails.
const commitOrFail = "SELECT 1; " + conns.Commit

func (c *sqlConn) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	if text == conns.Commit {
		text = commitOrFail
	}
	return rowsAffected(c.conn.ExecContext(ctx, text, args...))
}

func (c *sqlConn) Query(ctx context.Context, text string, args ...any) (sqlstore.Rows, error) {
	return sqlRows(c.conn.QueryContext(ctx, text, args...))
}

func (c *sqlConn) Together(ctx context.Context, list ...conns.Statement) error {
	return conns.InTurn(ctx, c, list)
}

func (c *sqlConn) Release() { _ = c.conn.Close() } // the transaction has ended, so an error of Close changes nothing

func (c *sqlConn) Discard(context.Context) {
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes the connection; Raw returns this error
	_ = c.conn.Close()
}

// sqlTx is an application's transaction, a [conns.Tx].
type sqlTx struct{ tx *sql.Tx }

func (t sqlTx) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	return rowsAffected(t.tx.ExecContext(ctx, text, args...))
}

func (t sqlTx) Query(ctx context.Context, text string, args ...any) (sqlstore.Rows, error) {
	return sqlRows(t.tx.QueryContext(ctx, text, args...))
}

func (t sqlTx) Together(ctx context.Context, list ...conns.Statement) error {
	return conns.InTurn(ctx, t, list)
}

func rowsAffected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func sqlRows(rows *sql.Rows, err error) (sqlstore.Rows, error) {
	if err != nil {
		return nil, err
	}
	return rows, nil
}
