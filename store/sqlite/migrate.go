package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// MigrationsTable is goose's table of the migrations that were made. It is not goose's usual
// table, so that the application may use goose for its own tables.
const MigrationsTable = "dltbatch_migrations"

// schemaVersion is the number of the last migration, oldestVersion the number of the first
// migration on which this code works. statsVersion has the tables of the stats, traceVersion the
// column for the trace contexts of batches, orderTraceVersion for those of orders, operatorVersion the
// tables of bulk actions and summaries, endsVersion the columns that say how removed batches ended.
const (
	schemaVersion     = 7
	endsVersion       = 7
	operatorVersion   = 6
	orderTraceVersion = 5
	traceVersion      = 4
	statsVersion      = 3
	oldestVersion     = 2
)

// Migrations returns the SQL files, in goose's format, for other migration tools. A user of
// another tool also enters their versions in [MigrationsTable].
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the directory is embedded above: this cannot happen
	}
	return sub
}

// migrateFor is how long Migrate tries while others migrate the same database.
const migrateFor = 30 * time.Second

// Migrate makes the tables, or brings old tables up to date. Any number of processes may call
// it at once, and again when there is nothing to do.
//
// Code of schema version n works on versions n and n+1: migrate first, with the new code, and then
// replace the processes. On a version further on every call gives [ErrNewerSchema]. Migrate by older
// code leaves a newer schema as it is.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.same(s.files.same()); err != nil {
		return wrap("migrate", err)
	}
	w, err := s.enter(ctx)
	if err != nil {
		return wrap("migrate", err)
	}
	defer func() { <-s.writer }()
	if w != nil {
		w.close() // the pool may have no other to migrate on
	}
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(migrateFor))
	// The loser of a race finds a table that exists or a database that is locked. The error
	// depends on the driver; but in the end the tables are there.
	err = backoff.Retry(func() error {
		v, err := s.version(ctx)
		switch {
		case err == nil && v > schemaVersion+1:
			return backoff.Permanent(newer(v))
		case err != nil || v >= schemaVersion:
			return err
		}
		p, err := goose.NewProvider(goose.DialectSQLite3, s.db, Migrations(),
			goose.WithTableName(MigrationsTable), goose.WithDisableGlobalRegistry(true))
		if err != nil {
			return backoff.Permanent(err)
		}
		_, err = p.Up(ctx)
		return err
	}, backoff.WithContext(b, ctx))
	return wrap("migrate", err)
}

func (s *Store) version(ctx context.Context) (int64, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	return version(ctx, conn)
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	database.DBTxConn
}

// version returns the last migration that was made; 0 for no migration.
func version(ctx context.Context, conn queryer) (int64, error) {
	var found bool
	const table = `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '` + MigrationsTable + `')`
	if err := conn.QueryRowContext(ctx, table).Scan(&found); err != nil || !found {
		return 0, err
	}
	gs, err := database.NewStore(database.DialectSQLite3, MigrationsTable)
	if err != nil {
		return 0, err
	}
	v, err := gs.GetLatestVersion(ctx, conn)
	if errors.Is(err, database.ErrVersionNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", MigrationsTable, err)
	}
	return v, nil
}

// checkEvery is how often a process looks at the schema's version: somebody may migrate further than
// this code goes.
const checkEvery = time.Minute

// check looks now and then whether this code knows the schema, and each time whether it has the columns
// that came later, until it has. Where tables are missing the statements show it.
func (s *Store) check(ctx context.Context, conn queryer) error {
	now := time.Now()
	if until := s.checked.Load(); until != nil && now.Before(*until) {
		return nil
	}
	v, err := version(ctx, conn)
	switch {
	case err != nil:
		return err
	case v > schemaVersion+1:
		return newer(v)
	}
	s.texts.Has(v >= traceVersion, v >= orderTraceVersion, v >= endsVersion)
	if v >= endsVersion {
		until := now.Add(checkEvery)
		s.checked.Store(&until)
	}
	return nil
}

func newer(version int64) error {
	return fmt.Errorf("%w: it is at version %d, this is %d", ErrNewerSchema, version, schemaVersion)
}

// with is run for tables that came with a version of the schema.
func (s *Store) with(least int64, run func(context.Context, string, func(context.Context, *session) error) error,
) func(context.Context, string, func(context.Context, *session) error) error {
	return func(ctx context.Context, op string, do func(context.Context, *session) error) error {
		return run(ctx, op, func(ctx context.Context, t *session) error {
			if s.made.Load() < least {
				have, _, err := sqlstore.Get[int64](ctx, t, sqlVersion)
				if err != nil {
					return err
				}
				if have < least {
					return fmt.Errorf("%w: it is at version %d, want %d", ErrNotMigrated, have, least)
				}
				s.made.Store(have)
			}
			return do(ctx, t)
		})
	}
}
