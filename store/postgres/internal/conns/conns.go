// Package conns is the interface through which package postgres reaches a server. Package postgres
// implements it over database/sql, and package native over pgx's own pool. It is internal, so that
// nobody else depends on it.
package conns

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Pool is a pool of connections. Its methods may be called concurrently.
type Pool interface {
	// Acquire waits for a connection.
	Acquire(ctx context.Context) (Conn, error)
	// Idle returns about how many open connections are not in use.
	Idle() int
	// Single reports whether the pool has one connection at most.
	Single() bool
	// Unsent reports whether a statement failed before anything was sent. If so, another
	// connection may run it.
	Unsent(err error) bool
	// Listen opens a session that waits for notifications and leaves the pool's connections to
	// other calls. The error is [ErrNoListener] if the pool's driver or its settings do not allow
	// such a session. way says for people whose connection it is.
	Listen(ctx context.Context) (l Listener, way string, err error)
	// OpenDB returns the pool as a *sql.DB, for the migration tool. The caller calls done when it
	// needs db no more; the pool stays open.
	OpenDB() (db *sql.DB, done func())
}

// ErrNoListener means that a pool has no session that can wait for notifications. Its text says
// what to set.
var ErrNoListener = errors.New("set Options.Listen, for example to native.Listen with a data source name")

// Listener is a session that waits for notifications. Only one caller may use it.
type Listener interface {
	// Listen begins to listen on a channel. It is called once, before Next.
	Listen(ctx context.Context, channel string) error
	// Next waits for a notification on the channel, and returns its payload.
	Next(ctx context.Context) (payload string, err error)
	// Close ends the session. It also sends UNLISTEN, since a pooler may have carried out LISTEN
	// on a connection that others use. It does not wait long for the server. lost is the reason
	// why no notifications arrive any more, or nil if no listener is left.
	Close(lost error)
}

// Commit and Rollback are the statements that end a transaction.
const (
	Commit   = "COMMIT"
	Rollback = "ROLLBACK"
)

// Conn is a connection that one caller has to itself, until it calls Release or Discard.
type Conn interface {
	Tx
	// Begin begins a transaction with text: BEGIN and settings, separated by "; ". It may leave
	// the text to the next statement, which then returns the errors of both. A transaction without
	// any statement ends without a round trip.
	Begin(ctx context.Context, text string) error
	// Begun reports whether the server has answered all statements of that text.
	Begun() bool
	// Session returns what the store knows about this connection.
	Session() *Session
	// Release returns the connection to the pool. The connection must not be in a transaction.
	Release()
	// Discard closes the connection, which may be in a transaction.
	Discard(ctx context.Context)
}

// Tx runs statements one after the other. The rows of a query must be closed before the next
// statement. Arguments are int64, string, bool and []byte.
type Tx interface {
	// Exec returns how many rows the statement changed. A text without arguments may consist of
	// several statements; the number is then meaningless.
	Exec(ctx context.Context, text string, args ...any) (int64, error)
	// Query runs a statement and returns its rows. The rows may return the error of the statement.
	Query(ctx context.Context, text string, args ...any) (sqlstore.Rows, error)
	// Together runs statements that do not need each other's results, in one round trip if
	// possible. The server runs them in their order, up to the first error.
	Together(ctx context.Context, list ...Statement) error
}

// Copier is a [Tx] that also takes many rows at once.
type Copier interface {
	// Copy sends data after a text, COPY ... FROM STDIN, in one round trip. It reads data to its
	// end, perhaps in another goroutine, and reads no more after it has returned.
	Copy(ctx context.Context, text string, data io.Reader) error
}

// Statement is one of the statements of [Tx].Together.
type Statement struct {
	Text string
	Args []any
	Read func(rows sqlstore.Rows) error // nil for a statement without rows
}

// InTurn implements Together by one statement after the other.
func InTurn(ctx context.Context, t Tx, list []Statement) error {
	for _, s := range list {
		if s.Read == nil {
			if _, err := t.Exec(ctx, s.Text, s.Args...); err != nil {
				return err
			}
			continue
		}
		rows, err := t.Query(ctx, s.Text, s.Args...)
		if err != nil {
			return err
		}
		if err := errors.Join(s.Read(rows), rows.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Adders are the functions that add in a transaction of the application.
type Adders struct {
	Batches func(ctx context.Context, tx Tx, batches ...batch.Batch) error
	Orders  func(ctx context.Context, tx Tx, orders ...order.Order) error
}
