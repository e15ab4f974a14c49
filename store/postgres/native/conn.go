package native

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// conn is a [conns.Conn]. It sends BEGIN and the settings together with the first statement, which
// saves a round trip. The server runs them one after the other, and none after the first error. So
// no statement runs outside of its transaction.
type conn struct {
	poolConn    *pgxpool.Conn
	pool        *pool
	unsentBegin []string // the statements that begin the transaction, if they are not sent yet
	hasBegun    bool
	session     *conns.Session
}

func (c *conn) Begin(_ context.Context, text string) error {
	c.unsentBegin = c.pool.statements(text)
	return nil
}

func (c *conn) Begun() bool             { return c.hasBegun }
func (c *conn) Session() *conns.Session { return c.session }

func (c *conn) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	switch {
	case c.unsentBegin != nil && (text == conns.Commit || text == conns.Rollback):
		c.unsentBegin = nil // the server does not know of this transaction
		return 0, nil
	case c.unsentBegin != nil:
		var last pgx.BatchResults
		var err error
		if len(args) == 0 { // the text may consist of several statements
			list := c.pool.statements(text)
			c.unsentBegin = append(slices.Clip(c.unsentBegin), list[:len(list)-1]...)
			text = list[len(list)-1]
		}
		if last, err = c.sendFirst(ctx, text, args); err != nil {
			return 0, err
		}
		tag, _ := last.Exec() // Close returns the same error
		return tag.RowsAffected(), c.readEnd(last)
	case text == conns.Commit && c.poolConn.Conn().PgConn().TxStatus() == 'E':
		return 0, pgx.ErrTxCommitRollback // the server would roll back and report success
	case len(args) == 0:
		return 0, c.sendText(ctx, text)
	}
	tag, err := c.poolConn.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

func (c *conn) Query(ctx context.Context, text string, args ...any) (sqlstore.Rows, error) {
	if c.unsentBegin == nil {
		return rowsOf(c.poolConn.Query(ctx, text, args...))
	}
	last, err := c.sendFirst(ctx, text, args)
	if err != nil {
		return nil, err
	}
	r, err := last.Query()
	if err != nil {
		_ = c.readEnd(last)
		return nil, err
	}
	return firstRows{rows{r}, c, last}, nil
}

func (c *conn) Together(ctx context.Context, list ...conns.Statement) error {
	if len(list) == 1 {
		return conns.InTurn(ctx, c, list)
	}
	all, err := c.send(ctx, list)
	if err != nil {
		return err
	}
	return c.readEnd(all)
}

// sendFirst sends a statement after the beginning of its transaction.
func (c *conn) sendFirst(ctx context.Context, text string, args []any) (pgx.BatchResults, error) {
	return c.send(ctx, []conns.Statement{{Text: text, Args: args}})
}

// send sends statements, after the beginning of their transaction if that is not sent yet. It
// reads the results of the beginning, and returns the results of the statements.
func (c *conn) send(ctx context.Context, list []conns.Statement) (pgx.BatchResults, error) {
	b := &pgx.Batch{}
	for _, s := range c.unsentBegin {
		b.Queue(s)
	}
	for _, s := range list {
		q := b.Queue(s.Text, s.Args...)
		if s.Read != nil { // called when the results are closed
			q.Query(func(r pgx.Rows) error { return s.Read(rows{r}) })
		}
	}
	begin := c.unsentBegin
	c.unsentBegin = nil
	all := c.poolConn.SendBatch(ctx, b)
	for range begin {
		if _, err := all.Exec(); err != nil {
			_ = all.Close() // it returns the same error
			if early, is := errors.AsType[pgx.ErrPreprocessingBatch](err); is && !slices.Contains(begin, early.SQL()) {
				return nil, err // preparing a statement failed, before anything was run
			}
			return nil, fmt.Errorf("begin: %w", err)
		}
	}
	return all, nil
}

// readEnd reads the results to their end.
func (c *conn) readEnd(all pgx.BatchResults) error {
	err := all.Close()
	c.hasBegun = c.hasBegun || err == nil
	return err
}

// firstRows are the rows of a statement that was sent together with the beginning of its
// transaction.
type firstRows struct {
	rows
	conn    *conn
	results pgx.BatchResults
}

// Close also returns an error at the end of the results, which Err does not have.
func (r firstRows) Close() error {
	r.Rows.Close()
	if err := r.conn.readEnd(r.results); r.Err() == nil {
		return err
	}
	return nil
}

// sendText sends a text without arguments, such as COMMIT. It differs from pgx's Exec in one case:
// if the connection breaks before the answer, the error of pgx's Exec says that nothing was sent,
// and does not say why the connection broke.
func (c *conn) sendText(ctx context.Context, text string) error {
	on := c.poolConn.Conn()
	return traced(ctx, on, c.pool.tracer, text, func(ctx context.Context) error {
		return on.PgConn().Exec(ctx, text).Close()
	})
}

// traced sends a text without pgx's Exec, and reports it to the tracer, if there is one, as pgx
// does.
func traced(ctx context.Context, on *pgx.Conn, tracer pgx.QueryTracer, text string, send func(ctx context.Context) error) error {
	if tracer != nil {
		ctx = tracer.TraceQueryStart(ctx, on, pgx.TraceQueryStartData{SQL: text})
	}
	err := send(ctx)
	if tracer != nil {
		tracer.TraceQueryEnd(ctx, on, pgx.TraceQueryEndData{Err: err})
	}
	return err
}

func (c *conn) Release() { c.poolConn.Release() }

func (c *conn) Discard(ctx context.Context) {
	_ = c.poolConn.Conn().Close(ctx)
	c.poolConn.Release() // the pool does not keep a closed connection
}

// statements returns the statements of a text, for the protocol that takes them one by one.
func (p *pool) statements(text string) []string {
	if known, ok := p.splitTexts.Load(text); ok {
		return known.([]string)
	}
	list := strings.Split(text, "; ")
	p.splitTexts.Store(text, list)
	return list
}
