package integration

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// testApp is an application with a store and a database connection of its own: database/sql, or
// pgx's pool.
type testApp struct {
	*postgres.Store
	db               *sql.DB // also set with pgx's pool
	pool             *pgxpool.Pool
	native           *native.Store // nil without pgx's pool
	openTransactions *openTxs
}

// openApp opens a store as an application does, and does not migrate it.
func openApp(t testing.TB, d driver, dsn string, o *postgres.Options) *testApp {
	t.Helper()
	a := &testApp{openTransactions: &openTxs{}}
	if d.isPool {
		a.pool = openPool(t, dsn)
		a.db = stdlib.OpenDBFromPool(a.pool)
	} else {
		a.db = openDSN(t, d, dsn)
	}
	t.Cleanup(a.close)
	return a.openAnother(t, o)
}

// open opens a store in the space and does not migrate it; o may be nil.
func (s *testSpace) open(o *postgres.Options) *testApp {
	s.t.Helper()
	if o == nil {
		o = &postgres.Options{Schema: s.schema, Listen: s.listen()}
	}
	return openApp(s.t, s.driver, s.dsn, o)
}

// listen returns the option that opens a session for hints, for stores whose pool cannot provide
// one.
func (s *testSpace) listen() func(context.Context) (postgres.Listener, error) {
	switch {
	case s.driver.hasBouncer:
		return native.Listen(dsnOfDatabase(s.t, pgtest.Start(s.t), s.schema))
	case s.driver == libpq:
		return native.Listen(s.baseDSN)
	}
	return nil
}

// app returns an application with a migrated store in the space.
func (s *testSpace) app() *testApp {
	s.t.Helper()
	a := s.open(nil)
	require.NoError(s.t, a.Migrate(s.t.Context()))
	return a
}

// openAnother opens another store on the same connections.
func (a *testApp) openAnother(t testing.TB, o *postgres.Options) *testApp {
	t.Helper()
	b := *a
	var err error
	if b.pool == nil {
		b.Store, err = postgres.New(b.db, o)
	} else {
		b.native, err = native.New(b.pool, o)
		b.Store = b.native.Store
	}
	require.NoError(t, err)
	return &b
}

// close ends the application as a crash would: its open transactions are rolled back.
func (a *testApp) close() {
	a.openTransactions.end()
	_ = a.db.Close()
	if a.pool != nil {
		a.pool.Close()
	}
}

// driverStore returns the store as the driver's own type, with all methods.
func (a *testApp) driverStore() interface {
	store.Store
	order.Store
} {
	if a.native != nil {
		return a.native
	}
	return a.Store
}

// appTx is a transaction of the application.
type appTx struct {
	sql              *sql.Tx
	pgx              driverpgx.Tx
	openTransactions *openTxs
}

func (a *testApp) begin(ctx context.Context) (*appTx, error) {
	x := &appTx{openTransactions: a.openTransactions}
	var err error
	if a.pool != nil {
		x.pgx, err = a.pool.Begin(ctx)
	} else {
		x.sql, err = a.db.BeginTx(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	a.openTransactions.add(x)
	return x, nil
}

// mustBegin is begin for a transaction that is rolled back at the end of the test.
func (a *testApp) mustBegin(t testing.TB) *appTx {
	t.Helper()
	x, err := a.begin(t.Context())
	require.NoError(t, err)
	return x
}

func (a *testApp) addTx(ctx context.Context, x *appTx, bs ...batch.Batch) error {
	return a.ownTx(x).Add(ctx, bs...)
}

// ownTx returns the store.Tx for a transaction.
func (a *testApp) ownTx(x *appTx) store.Tx {
	if a.native != nil {
		return a.native.Tx(x.pgx)
	}
	return a.Tx(x.sql)
}

func (a *testApp) addOrdersTx(ctx context.Context, x *appTx, os ...order.Order) error {
	if a.native != nil {
		return a.native.AddOrdersTx(ctx, x.pgx, os...)
	}
	return a.AddOrdersTx(ctx, x.sql, os...)
}

func (x *appTx) exec(ctx context.Context, text string) (err error) {
	if x.pgx != nil {
		_, err = x.pgx.Exec(ctx, text)
	} else {
		_, err = x.sql.ExecContext(ctx, text)
	}
	return err
}

// read runs a statement that returns one value, and stores the value in into.
func (x *appTx) read(ctx context.Context, into any, text string) error {
	if x.pgx != nil {
		return x.pgx.QueryRow(ctx, text).Scan(into)
	}
	return x.sql.QueryRowContext(ctx, text).Scan(into)
}

func (x *appTx) commit() error {
	x.openTransactions.remove(x)
	if x.pgx != nil {
		return x.pgx.Commit(context.Background())
	}
	return x.sql.Commit()
}

func (x *appTx) rollback() error {
	x.openTransactions.remove(x)
	if x.pgx != nil {
		return x.pgx.Rollback(context.Background())
	}
	return x.sql.Rollback()
}

// openTxs holds the open transactions of an application, because closing a pool waits for
// them.
type openTxs struct {
	mu  sync.Mutex
	txs []*appTx
}

func (o *openTxs) add(x *appTx) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.txs = append(o.txs, x)
}

func (o *openTxs) remove(x *appTx) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.txs = slices.DeleteFunc(o.txs, func(y *appTx) bool { return x == y })
}

func (o *openTxs) end() {
	o.mu.Lock()
	all := slices.Clone(o.txs)
	o.mu.Unlock()
	for _, x := range all {
		_ = x.rollback()
	}
}

// openPool opens a pgx pool with as many connections as a test may need; keptPlanWatcher watches
// its statements.
func openPool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	if !strings.Contains(dsn, "pool_max_conns=") {
		dsn = withParams(dsn, "pool_max_conns=100")
	}
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.ConnConfig.Tracer = newKeptPlanWatcher(t)
	p, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	return p
}
