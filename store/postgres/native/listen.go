package native

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// Listen returns a [postgres.Options].Listen that connects by pgx to a server itself: for a pool
// that goes through PgBouncer in transaction mode, and for lib/pq, which cannot wait for
// notifications through database/sql. The data source name must lead to the primary server and the
// database of the pool.
func Listen(dsn string) func(context.Context) (postgres.Listener, error) {
	return func(ctx context.Context) (postgres.Listener, error) {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		return connect(ctx, c)
	}
}

// Listen connects as the pool does, and beside it: the pool's Close waits for connections in use.
func (p *pool) Listen(ctx context.Context) (conns.Listener, error) {
	all := p.p.Config()
	own := all.ConnConfig.Copy()
	if all.BeforeConnect != nil { // it has the password, maybe
		if err := all.BeforeConnect(ctx, own); err != nil {
			return nil, err
		}
	}
	own.Tracer, own.OnNotification = nil, nil
	return connect(ctx, own)
}

func connect(ctx context.Context, c *pgx.ConnConfig) (conns.Listener, error) {
	on, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	return listener{on}, nil
}

// listener is a [conns.Listener].
type listener struct{ c *pgx.Conn }

func (l listener) Exec(ctx context.Context, text string) error {
	return l.c.PgConn().Exec(ctx, text).Close()
}

func (l listener) Next(ctx context.Context) (string, error) {
	n, err := l.c.WaitForNotification(ctx)
	if err != nil {
		return "", err
	}
	return n.Payload, nil
}

// closeLimit bounds the goodbye to the server.
const closeLimit = time.Second

func (l listener) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	_ = l.c.Close(ctx) // the session is over either way
}
