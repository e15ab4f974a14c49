// Package conns is the narrow way in which package postgres reaches a server. Package postgres
// has it over database/sql, package native over pgx's own pool. It is internal, so that nobody
// else depends on it.
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
	// Idle is about how many open connections nobody uses.
	Idle() int
	// Single reports whether the pool has one connection at most.
	Single() bool
	// Unsent reports whether a statement failed before anything was sent: another connection may
	// take it.
	Unsent(err error) bool
	// Listen opens a session that waits for notifications, and does not stand in the pool's way.
	// [ErrNoListener] says that the pool's driver or its settings do not allow one. way says for
	// people whose session it is.
	Listen(ctx context.Context) (l Listener, way string, err error)
	// OpenDB is the pool as database/sql has it, for the tool that migrates. The caller calls done
	// once it needs db no more; the pool stays open.
	OpenDB() (db *sql.DB, done func())
}

// ErrNoListener says why a pool has no session that can wait for notifications.
var ErrNoListener = errors.New("set Options.Listen, for example to native.Listen with a data source name")

// Listener is a session that waits for notifications. One caller uses it.
type Listener interface {
	// Listen begins to listen on a channel. It is called once, before Next.
	Listen(ctx context.Context, channel string) error
	// Next waits for a notification on the channel, and returns its payload.
	Next(ctx context.Context) (payload string, err error)
	// Close ends the session, and also UNLISTENs: a pooler may have carried LISTEN out on a
	// connection that others use. It does not wait for the server for long. lost says why nothing
	// is heard; nil where nobody listens any more.
	Close(lost error)
}

// Commit and Rollback end a transaction.
const (
	Commit   = "COMMIT"
	Rollback = "ROLLBACK"
)

// Conn is a connection that one caller has to itself, until it calls Release or Discard.
type Conn interface {
	Tx
	// Begin begins a transaction by a text of statements, BEGIN and settings, separated by "; ".
	// It may leave the text to the next statement, which then has the errors of both. A
	// transaction without any statement ends without a trip.
	Begin(ctx context.Context, text string) error
	// Begun reports whether the server has answered to all of that text.
	Begun() bool
	// Session is the store's memory of this connection.
	Session() *Session
	// Release gives the connection back to the pool. It must not be in a transaction.
	Release()
	// Discard closes the connection, which may be in a transaction.
	Discard(ctx context.Context)
}

// Tx takes statements, one after the other. The rows of a query end before the next statement.
// Arguments are int64, string, bool and []byte.
type Tx interface {
	// Exec returns how many rows the statement changed. A text without arguments may hold several
	// statements, and nobody counts its rows.
	Exec(ctx context.Context, text string, args ...any) (int64, error)
	// Query is Exec for rows. An error of the statement may come with the rows.
	Query(ctx context.Context, text string, args ...any) (sqlstore.Rows, error)
	// Together is Exec or Query for statements that do not need each other's results, in one
	// trip where that is possible. The server carries them out in their order, up to the first
	// error.
	Together(ctx context.Context, list ...Statement) error
}

// Copier is a [Tx] that also takes many rows at once.
type Copier interface {
	// Copy sends the rows of data behind a text, COPY ... FROM STDIN, in one trip. It reads data
	// to its end, maybe in another goroutine, and no more once it has returned.
	Copy(ctx context.Context, text string, data io.Reader) error
}

// Statement is one of several.
type Statement struct {
	Text string
	Args []any
	Read func(rows sqlstore.Rows) error // nil where there are no rows to read
}

// InTurn is Together by one statement after the other.
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

// Adders add in a transaction that the application began.
type Adders struct {
	Batches func(ctx context.Context, tx Tx, batches ...batch.Batch) error
	Orders  func(ctx context.Context, tx Tx, orders ...order.Order) error
}
