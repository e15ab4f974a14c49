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
	job   job
	wire  *wire
	admin *pgxdriver.Conn // nil for SQLite; its round trips are not counted
	lsn   string          // position in the write-ahead log at the start
}

func (j job) onSQLite() bool { return j.Store == sqlite }

// openDatabase connects to the database, and removes the schemas of earlier processes unless the
// job uses them.
func openDatabase(ctx context.Context, j job) (*database, error) {
	d := &database{job: j, wire: &wire{}}
	if j.onSQLite() || j.Store == inMemory {
		return d, nil
	}
	var err error
	if d.admin, err = pgxdriver.Connect(ctx, j.DSN); err != nil {
		return nil, err
	}
	if j.Contender == ours && j.Waiting > 0 {
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
	if d.admin != nil {
		_ = d.admin.Close(context.Background()) // closed with the process
	}
}

func (d *database) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := d.admin.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// settleTables brings prepared tables into the state that they normally reach after a while:
// vacuumed, and written to the disk.
func (d *database) settleTables(ctx context.Context) error {
	if d.admin == nil {
		return nil
	}
	return d.exec(ctx, `VACUUM ANALYZE`, `CHECKPOINT`)
}

// start begins a measurement, and stop ends it.
func (d *database) start(ctx context.Context, m *meter) error {
	if d.admin != nil {
		if err := d.admin.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&d.lsn); err != nil {
			return err
		}
	}
	d.wire.trips.Store(0)
	return m.start()
}

func (d *database) stop(ctx context.Context, m *meter, r *result, n int) error {
	if err := m.stop(r, n); err != nil {
		return err
	}
	r.Trips = float64(d.wire.trips.Load()) / float64(n)
	if d.admin == nil {
		return nil
	}
	var bytes float64
	err := d.admin.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::float8`, d.lsn).Scan(&bytes)
	r.WAL = bytes / float64(n)
	return err
}

// config returns pgx's configuration, with a connection that counts round trips.
func (d *database) config() (*pgxdriver.ConnConfig, error) {
	dsn := d.job.DSN
	if d.job.Store == bouncer {
		dsn = d.job.Bouncer
	}
	c, err := pgxdriver.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if d.job.Store == bouncer {
		c.DefaultQueryExecMode = pgxdriver.QueryExecModeExec
	}
	c.DialFunc = d.wire.DialContext
	return c, nil
}

// pool returns the pool that a user would give to a store.
func (d *database) pool() (*sql.DB, error) {
	switch d.job.Store {
	case pgx, bouncer:
		c, err := d.config()
		if err != nil {
			return nil, err
		}
		return stdlib.OpenDB(*c), nil
	case pq:
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

// storeWithoutHints is a store without hints.
type storeWithoutHints struct{ store.Store }

func (s storeWithoutHints) Abilities() store.Abilities { return s.Store.Abilities() &^ store.CanHint }

// store opens the library's store in the database, with or without hints as the job says.
func (d *database) store(ctx context.Context, migrate bool) (_ store.Store, shut func(), err error) {
	st, shut, err := d.open(ctx, migrate)
	if d.job.WithoutHints {
		st = storeWithoutHints{st}
	}
	return st, shut, err
}

// open opens the library's store in the database. If migrate is true, it creates the tables.
func (d *database) open(ctx context.Context, migrate bool) (_ store.Store, shut func(), err error) {
	switch {
	case d.job.onSQLite():
		return d.sqliteStore(ctx, migrate)
	case d.job.Store == inMemory:
		return memory.New(), func() {}, nil
	case d.job.Store == native:
		return d.nativeStore(ctx, migrate)
	}
	db, err := d.pool()
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	o := &postgres.Options{}
	if d.job.Store != pgx { // the pools of other drivers cannot receive hints
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

// removeSQLite removes a database file, its log and its shared memory.
func removeSQLite(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
