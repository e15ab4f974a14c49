package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	pgxdriver "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	libpq "github.com/lib/pq"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/postgres"
	pgnative "github.com/dltbatch/dltbatch/store/postgres/native"
	sqlitestore "github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// poolSize is the number of connections of a pool, as in the examples.
const poolSize = 16

// database is where a contender keeps its batches.
type database struct {
	job       job
	wire      *tripCounter
	adminConn *pgxdriver.Conn // nil for SQLite; its round trips are not counted
	startLSN  string          // position in the write-ahead log at the start
}

func (j job) onSQLite() bool { return j.Store == storeSQLite }

// openDatabase connects to the database, and removes the schemas of earlier processes unless the
// job uses them.
func openDatabase(ctx context.Context, j job) (*database, error) {
	d := &database{job: j, wire: &tripCounter{}}
	if j.onSQLite() || j.Store == storeMemory {
		return d, nil
	}
	var err error
	if d.adminConn, err = pgxdriver.Connect(ctx, j.DSN); err != nil {
		return nil, err
	}
	if j.Contender == contenderOurs && j.Waiting > 0 {
		return d, nil
	}
	for _, schema := range []string{"dltbatch", "floor", "river"} {
		if err := d.exec(ctx, `DROP SCHEMA IF EXISTS `+schema+` CASCADE`); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *database) close() {
	if d.adminConn != nil {
		_ = d.adminConn.Close(context.Background()) // closed with the process
	}
}

func (d *database) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := d.adminConn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// settleTables brings prepared tables into the state that they normally reach after a while:
// vacuumed, and written to the disk.
func (d *database) settleTables(ctx context.Context) error {
	if d.adminConn == nil {
		return nil
	}
	return d.exec(ctx, `VACUUM ANALYZE`, `CHECKPOINT`)
}

// startMeasuring begins a measurement, and stop ends it.
func (d *database) startMeasuring(ctx context.Context, m *meter) error {
	if d.adminConn != nil {
		if err := d.adminConn.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&d.startLSN); err != nil {
			return err
		}
	}
	d.wire.trips.Store(0)
	return m.start()
}

func (d *database) stopMeasuring(ctx context.Context, m *meter, r *result, n int) error {
	if err := m.stop(r, n); err != nil {
		return err
	}
	r.RoundTrips = float64(d.wire.trips.Load()) / float64(n)
	if d.adminConn == nil {
		return nil
	}
	var bytes float64
	err := d.adminConn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::float8`, d.startLSN).Scan(&bytes)
	r.WAL = bytes / float64(n)
	return err
}

// pgxConfig returns pgx's configuration, with a connection that counts round trips.
func (d *database) pgxConfig() (*pgxdriver.ConnConfig, error) {
	dsn := d.job.DSN
	if d.job.Store == storeBouncer {
		dsn = d.job.Bouncer
	}
	c, err := pgxdriver.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if d.job.Store == storeBouncer {
		c.DefaultQueryExecMode = pgxdriver.QueryExecModeExec
	}
	c.DialFunc = d.wire.DialContext
	return c, nil
}

// openPool returns the pool that a user of the library would give to a store.
func (d *database) openPool() (*sql.DB, error) {
	switch d.job.Store {
	case storePgx, storeBouncer:
		c, err := d.pgxConfig()
		if err != nil {
			return nil, err
		}
		return stdlib.OpenDB(*c), nil
	case storePQ:
		c, err := libpq.NewConnector(d.job.DSN)
		if err != nil {
			return nil, err
		}
		c.Dialer(d.wire)
		return sql.OpenDB(c), nil
	default:
		return nil, fmt.Errorf("no store %q", d.job.Store)
	}
}

// storeWithoutHints hides that a store can tell hints and hear them.
type storeWithoutHints struct{ store.Store }

func (s storeWithoutHints) Abilities() store.Abilities { return s.Store.Abilities() &^ store.CanHint }

// openStore opens the library's store in the database, with or without hints as the job says.
func (d *database) openStore(ctx context.Context, migrate bool) (_ store.Store, shut func(), err error) {
	st, shut, err := d.openStoreWithHints(ctx, migrate)
	if d.job.WithoutHints {
		st = storeWithoutHints{st}
	}
	return st, shut, err
}

// openStoreWithHints opens the library's store in the database. If migrate is true, it creates the
// tables.
func (d *database) openStoreWithHints(ctx context.Context, migrate bool) (_ store.Store, shut func(), err error) {
	switch {
	case d.job.onSQLite():
		return d.sqliteStore(ctx, migrate)
	case d.job.Store == storeMemory:
		return memory.New(), func() {}, nil
	case d.job.Store == storeNative:
		return d.nativeStore(ctx, migrate)
	}
	db, err := d.openPool()
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	o := &postgres.Options{}
	if d.job.Store != storePgx { // the pools of other drivers cannot receive hints
		o.Listen = pgnative.Listen(d.job.DSN)
	}
	st, err := postgres.New(db, o)
	if err == nil && migrate {
		err = st.Migrate(ctx)
	}
	return st, func() { _ = db.Close() }, err
}

func (d *database) nativeStore(ctx context.Context, migrate bool) (_ store.Store, shut func(), err error) {
	c, err := pgxpool.ParseConfig(d.job.DSN)
	if err != nil {
		return nil, nil, err
	}
	c.MaxConns = poolSize
	c.ConnConfig.DialFunc = d.wire.DialContext
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	st, err := pgnative.New(p, nil)
	if err == nil && migrate {
		err = st.Migrate(ctx)
	}
	return st, p.Close, err
}

func (d *database) sqliteStore(ctx context.Context, migrate bool) (_ store.Store, shut func(), err error) {
	path := filepath.Join(d.job.Dir, "ours.db")
	if migrate {
		if err := removeSQLite(path); err != nil {
			return nil, nil, err
		}
	}
	db, err := sqliteopen.Open(path)
	if err != nil {
		return nil, nil, err
	}
	st, err := sqlitestore.New(db, nil)
	if err == nil && migrate {
		err = st.Migrate(ctx)
	}
	return st, func() { _ = db.Close() }, err
}

// removeSQLite removes a database file of SQLite, its log and its shared memory.
func removeSQLite(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
