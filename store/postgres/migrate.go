package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

//go:embed migrations/*.sql
var migrations embed.FS

// MigrationsTable is goose's table of the migrations that were made, in the store's schema and
// with its prefix. It is not goose's usual table, so that the application may use goose for
// its own tables.
const MigrationsTable = "dltbatch_migrations"

// schemaVersion is the number of the last migration, oldestVersion the number of the first
// migration on which this code works. finishedVersion waits until the last process with code of
// version 1 is gone. statsVersion has the tables of the stats, traceVersion the column for the trace
// contexts of batches, orderTraceVersion the column of orders, operatorVersion the tables of bulk actions
// and summaries, endsVersion the columns that say how removed batches ended.
const (
	schemaVersion     = 8
	endsVersion       = 8
	operatorVersion   = 7
	orderTraceVersion = 6
	traceVersion      = 5
	statsVersion      = 4
	finishedVersion   = 3
	oldestVersion     = 2
)

// Migrations returns the SQL files of these options, in goose's format, for other migration
// tools. The schema must exist before. A user of another tool also enters their versions in
// [MigrationsTable], and respects the condition of [Store.FinishMigration] on the last
// migration.
func Migrations(o *Options) (fs.FS, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	n, err := newNames(opts)
	if err != nil {
		return nil, err
	}
	return n.migrations()
}

// migrations fills the names into the files.
func (n names) migrations() (fs.FS, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	filled := fstest.MapFS{}
	for _, path := range files {
		text, err := migrations.ReadFile(path)
		if err != nil {
			return nil, err
		}
		filled[path[len("migrations/"):]] = &fstest.MapFile{Data: []byte(n.fill(string(text)))}
	}
	return filled, nil
}

// migrateFor is how long Migrate tries while others migrate the same schema.
const migrateFor = 30 * time.Second

// Migrate makes the schema and the tables, or brings old tables up to date. Any number of
// processes may call it at once, and again when there is nothing to do.
//
// The rule for rolling deploys: code of schema version n works on versions n and n+1, because
// a migration only adds, and the migration after it removes the replaced parts. So migrate
// first, with the new code; then replace the processes one by one, old and new side by side,
// including restarts in between; and only then deploy code with version n+2. On a version
// further on every call gives [ErrNewerSchema], in a process that runs within a minute (AddTx after
// another call has), and Migrate by older code leaves a newer schema as it is. Older code ignores
// features that it does not know: where a version brings something that holds lanes, as pauses and
// halts do, it holds them once the last old process is gone.
//
// A database whose tables code of version 1 made stays at version 2: call
// [Store.FinishMigration] once the last process with that code is gone.
func (s *Store) Migrate(ctx context.Context) error {
	return s.migrateTo(ctx, oldestVersion, false)
}

// FinishMigration is Migrate, and before its end the step that needs the last process with code of schema
// version 1 to be gone: after it such code fails when it adds, claims or requeues, loudly and
// with nothing lost. Before it every claim walks over finished rows that the database could
// not clean up yet, in front of the open batches of its lanes; after it claims begin where the
// open work does, in running processes within a minute. It waits a second at a time for
// transactions that use the tables, half a minute in all; if a transaction stays open longer
// the error has the state 55P03. A new database needs no such call, and none needs it twice.
func (s *Store) FinishMigration(ctx context.Context) error {
	return s.migrateTo(ctx, schemaVersion, false)
}

// MigrateTo is Migrate up, or down, to a version. Version 0 removes the tables with everything
// in them. It gives [ErrNewerSchema] if a newer version of this package made tables that
// this version cannot remove. On the way down no other process may run; on the way up to
// version 3 and further see [Store.FinishMigration].
func (s *Store) MigrateTo(ctx context.Context, version int64) error {
	return s.migrateTo(ctx, version, true)
}

func (s *Store) migrateTo(ctx context.Context, version int64, down bool) error {
	const op = "migrate"
	if version < 0 || version > schemaVersion {
		return wrap(op, fmt.Errorf("version %d of %d", version, schemaVersion))
	}
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(migrateFor))
	err := backoff.Retry(func() error {
		err := s.migrate(ctx, &version, down)
		if err != nil && !raced(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(b, ctx))
	s.checked.Store(nil)
	s.hasStats.Store(false)
	s.hasOperator.Store(false)
	return wrap(op, err)
}

// migrate raises the wanted version to the last one if no process can have code of version 1: the
// database has no tables, or the migration was finished before.
func (s *Store) migrate(ctx context.Context, want *int64, down bool) error {
	have, err := s.version(ctx)
	if (have == 0 || have >= finishedVersion) && *want == oldestVersion && !down {
		*want = schemaVersion
	}
	to := *want
	switch {
	case err != nil || have == to:
		return err
	case have > schemaVersion+1, have > schemaVersion && down:
		return s.newer(have)
	case have > to && !down:
		return nil
	}
	files, err := s.names.migrations()
	if err != nil {
		return err
	}
	gs, err := database.NewStore(database.DialectPostgres, s.names.table(MigrationsTable))
	if err != nil {
		return err
	}
	db, done := s.pool.OpenDB()
	defer done()
	p, err := goose.NewProvider(goose.DialectCustom, db, files, goose.WithStore(gooseStore{gs, s.names}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if have > to {
		_, err = p.DownTo(ctx, to)
		return err
	}
	_, err = p.UpTo(ctx, to)
	return err
}

// version makes a missing schema, and returns the last migration.
func (s *Store) version(ctx context.Context) (have int64, err error) {
	err = s.onAny(ctx, beginSQL, func() {}, func(ctx context.Context, t *session, _ *conns.Session) error {
		// CREATE SCHEMA IF NOT EXISTS needs the right to create a schema, even if it exists.
		found, _, err := sqlstore.Get[bool](ctx, t, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text)`, s.names.schema)
		if err == nil && !found {
			_, err = t.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS "`+s.names.schema+`"`)
		}
		if err == nil {
			have, err = t.version(ctx)
		}
		return err
	})
	return have, err
}

// version returns the number of the last migration that was made, or 0.
func (t *session) version(ctx context.Context) (int64, error) {
	found, _, err := sqlstore.Get[bool](ctx, t, `SELECT to_regclass('{`+MigrationsTable+`}') IS NOT NULL`)
	if err != nil || !found {
		return 0, err
	}
	have, _, err := sqlstore.Get[int64](ctx, t, `SELECT coalesce(max(version_id), 0) FROM {`+MigrationsTable+`}`)
	return have, err
}

// raced reports whether another process was making the same tables.
func raced(err error) bool {
	switch sqlState(err) {
	case uniqueViolation: // of a row of the catalogue; rows of a table that a migration refuses stay as they are
		name := constraint(err)
		return name == "" || strings.HasPrefix(name, "pg_")
	case "42P06", "42P07", "42710", "42701", // schema, table, object, column exist
		undefinedTable, undefinedColumn, "XX000", // on the way down; tuple concurrently updated
		serializationFailure, deadlockDetected, "55P03":
		return true
	}
	return false
}

// gooseStore is goose's own store with another TableExists: goose does not find a table by its quoted name.
type gooseStore struct {
	database.Store
	names
}

// TableExists is an optional method of goose's.
func (g gooseStore) TableExists(ctx context.Context, db database.DBTxConn) (found bool, err error) {
	err = db.QueryRowContext(ctx, g.fill(`SELECT to_regclass('{`+MigrationsTable+`}') IS NOT NULL`)).Scan(&found)
	return found, err
}
