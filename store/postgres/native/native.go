package native

import (
	"context"
	"database/sql"
	"io"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// Store is a [postgres.Store] over a pool of pgx. Tx and AddOrdersTx take pgx's transactions;
// the methods of these names of the embedded store take database/sql's, as ever.
type Store struct {
	*postgres.Store
	adders conns.Adders
}

var (
	_ store.Store = (*Store)(nil)
	_ order.Store = (*Store)(nil)
)

// New is [postgres.New] over a pool, which the caller closes. It checks the options and sends
// nothing to the database: an unfit database gives an error of the first call. See
// [postgres.Store.Migrate].
func New(p *pgxpool.Pool, o *postgres.Options) (*Store, error) {
	if p == nil {
		return nil, &batch.InputError{Field: "pool", Value: "nil", Want: "an open *pgxpool.Pool"}
	}
	s, adders, err := postgres.Over(&pool{pgxPool: p, tracer: p.Config().ConnConfig.Tracer, listenSession: connectBeside(p)}, o)
	if err != nil {
		return nil, err
	}
	return &Store{s, adders}, nil
}

// Tx is [postgres.Store.Tx] of a transaction of pgx. A context that ends while a statement
// runs closes the connection, as always with pgx, and the whole transaction is gone with it.
func (s *Store) Tx(t pgx.Tx) store.Tx { return appTx{s, txOf(t)} }

// Owns is [store.Store].Owns. A Tx of the embedded store is its own, too.
func (s *Store) Owns(tx store.Tx) bool {
	own, is := tx.(appTx)
	return is && own.store == s || s.Store.Owns(tx)
}

// appTx is a transaction of the application.
type appTx struct {
	store *Store
	tx    conns.Tx
}

// Add implements [store.Tx].
func (o appTx) Add(ctx context.Context, batches ...batch.Batch) error {
	return o.store.adders.Batches(ctx, o.tx, batches...)
}

// AddOrdersTx is [postgres.Store.AddOrdersTx] in a transaction of pgx, as Tx.
func (s *Store) AddOrdersTx(ctx context.Context, t pgx.Tx, orders ...order.Order) error {
	return s.adders.Orders(ctx, txOf(t), orders...)
}

// txOf returns a transaction of pgx as a conns.Tx; nil stays nil.
func txOf(t pgx.Tx) conns.Tx {
	if t == nil {
		return nil
	}
	return tx{t}
}

// pool is a [conns.Pool].
type pool struct {
	pgxPool       *pgxpool.Pool
	tracer        pgx.QueryTracer
	splitTexts    sync.Map // the statements of each text that has several
	sessions      conns.Sessions
	listenSession *listenSession
}

func (p *pool) Acquire(ctx context.Context) (conns.Conn, error) {
	c, err := p.pgxPool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{poolConn: c, pool: p, session: p.sessions.Of(c.Conn(), func() int { return int(p.pgxPool.Stat().TotalConns()) })}, nil
}

func (p *pool) Idle() int             { return int(p.pgxPool.Stat().IdleConns()) }
func (p *pool) Single() bool          { return p.pgxPool.Stat().MaxConns() == 1 }
func (p *pool) Unsent(err error) bool { return pgconn.SafeToRetry(err) }

func (p *pool) OpenDB() (*sql.DB, func()) {
	db := stdlib.OpenDBFromPool(p.pgxPool)
	return db, func() { _ = db.Close() } // db has no connection in use any more
}

// tx is an application's transaction, a [conns.Tx].
type tx struct{ pgxTx pgx.Tx }

func (t tx) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	tag, err := t.pgxTx.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

func (t tx) Query(ctx context.Context, text string, args ...any) (sqlstore.Rows, error) {
	return rowsOf(t.pgxTx.Query(ctx, text, args...))
}

func (t tx) Together(ctx context.Context, list ...conns.Statement) error {
	return conns.InTurn(ctx, t, list)
}

// Copy implements [conns.Copier].
func (t tx) Copy(ctx context.Context, text string, data io.Reader) error {
	c := t.pgxTx.Conn()
	return copyFrom(ctx, c, c.Config().Tracer, text, data)
}

func rowsOf(r pgx.Rows, err error) (sqlstore.Rows, error) {
	if err != nil {
		return nil, err
	}
	return rows{r}, nil
}

// rows are [sqlstore.Rows]. Err returns every error, so that Close returns none.
type rows struct{ pgx.Rows }

func (r rows) Columns() ([]string, error) {
	of := r.FieldDescriptions()
	names := make([]string, len(of))
	for i := range of {
		names[i] = of[i].Name
	}
	return names, nil
}

func (r rows) Close() error {
	r.Rows.Close()
	return nil
}
