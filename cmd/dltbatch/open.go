package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// target names a database.
type target struct {
	dsn, schema, prefix string
	// create allows open to create a missing SQLite file.
	create bool
	pool   *pgxpool.Pool // an open pool with the same dsn; nil if there is none
}

func (t target) options() *postgres.Options {
	return &postgres.Options{Schema: t.schema, Prefix: t.prefix}
}

func (t target) schemaName() string { return cmp.Or(t.schema, postgres.DefaultSchema) }

// file returns the path of a SQLite file; ok is false if the target is PostgreSQL.
func (t target) file() (path string, ok bool) {
	if path, ok = strings.CutPrefix(t.dsn, "sqlite:"); ok {
		return path, true
	}
	return t.dsn, !strings.Contains(t.dsn, "://") && !strings.Contains(t.dsn, "=")
}

// database is an open store.
type database struct {
	store.Store
	desk     *operator.Desk
	postgres *pgxpool.Pool
	sqlite   *sql.DB
	close    func()

	t       target
	shard   func(context.Context) (store.Shard, error) // says which shard the store is; nil if it cannot be a shard
	openErr error                                      // why the shard is left out; nil if it is not
}

// Limits of the connections to PostgreSQL.
const (
	maxConns       = 4
	connectTimeout = 10 * time.Second
)

// open opens the database of a target. No error text contains the data source name, and no error
// wraps another one that does.
func open(ctx context.Context, t target) (*database, error) {
	if t.dsn == "" {
		return nil, fmt.Errorf("%w: no database: give --dsn, or set DLTBATCH_DSN", errUsage)
	}
	if path, ok := t.file(); ok {
		if t.schema != "" || t.prefix != "" {
			return nil, fmt.Errorf("%w: --schema and --prefix are for PostgreSQL", errUsage)
		}
		return openFile(path, t.create)
	}
	pool, closed := t.pool, func() {}
	if pool == nil {
		var err error
		if pool, err = connect(ctx, t.dsn); err != nil {
			return nil, err
		}
		closed = pool.Close
	}
	st, err := native.New(pool, t.options())
	if err != nil {
		closed()
		return nil, err
	}
	db, err := newDatabase(st, closed)
	if err == nil {
		db.postgres, db.shard = pool, st.ReadShard
	}
	return db, err
}

// connect returns a pool that has opened no connection yet.
func connect(ctx context.Context, dsn string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("%w: the DSN cannot be read as PostgreSQL's; it is not shown, since it may hold a password", errUsage)
	}
	config.MaxConns = maxConns
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "dltbatch command"
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func newDatabase(st store.Store, closed func()) (*database, error) {
	desk, err := operator.New(st)
	if err != nil {
		closed()
		return nil, err
	}
	return &database{Store: st, desk: desk, close: closed}, nil
}

var errNoFile = errors.New("there is no such database file: is the path right? dltbatch migrate up makes a new, empty one")
