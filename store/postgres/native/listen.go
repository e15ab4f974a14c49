package native

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// Listen returns a [postgres.Options].Listen that connects by pgx to a server itself: for a pool
// that goes through PgBouncer in transaction mode, and for lib/pq, which cannot wait for
// notifications through database/sql. The data source name must lead to the primary server and the
// database of the pool. Stores with the same function share one session: give it to all shards
// that are in one database.
func Listen(dsn string) func(context.Context) (postgres.Listener, error) {
	s := newListenSession(func(ctx context.Context) (*pgx.Conn, error) {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		return pgx.ConnectConfig(ctx, c)
	})
	return s.newListener
}

// ListenBeside is [Listen] with a session that connects with the settings of a pool, and is not
// one of the pool's connections. A store over the pool has such a session of its own by default;
// stores with the same function share one.
func ListenBeside(p *pgxpool.Pool) func(context.Context) (postgres.Listener, error) {
	return connectBeside(p).newListener
}

// connectBeside opens sessions with the settings of a pool, outside the pool. The pool's Close
// would wait for a connection of the pool that is in use.
func connectBeside(p *pgxpool.Pool) *listenSession {
	return newListenSession(func(ctx context.Context) (*pgx.Conn, error) {
		all := p.Config()
		own := all.ConnConfig.Copy()
		if all.BeforeConnect != nil { // it may set the password
			if err := all.BeforeConnect(ctx, own); err != nil {
				return nil, err
			}
		}
		own.Tracer, own.OnNotification = nil, nil
		return pgx.ConnectConfig(ctx, own)
	})
}

// Listen implements [conns.Pool].
func (p *pool) Listen(ctx context.Context) (_ conns.Listener, way string, err error) {
	l, err := p.listenSession.newListener(ctx)
	return l, "a connection beside pgx's pool", err
}

// closeLimit bounds how long Close waits for the server.
const closeLimit = time.Second
