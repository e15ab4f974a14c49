package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

//go:embed migrations/*.sql
var migrations embed.FS

// MigrationsTable is goose's table of the migrations that were made, in the store's schema and
// with its prefix. It is not goose's usual table, so that the application may use goose for
// its own tables.
const MigrationsTable = sqlstore.MigrationsTable

// schemaVersion is the number of the last migration.
const schemaVersion = 1

// Migrations returns the SQL files of these options, in goose's format, for other migration
// tools. The schema must exist before. A user of another tool also enters their versions in
// [MigrationsTable].
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

// migrations returns the SQL files with the names of the schema and the tables filled in.
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

// migrateTimeLimit is how long Migrate tries while other processes migrate the same schema.
const migrateTimeLimit = 30 * time.Second

// Migrate makes the schema and the tables, or brings old tables up to date. Any number of
// processes may call it at once, and again when there is nothing to do.
//
// The rule for rolling deploys: code of schema version n works on versions n and n+1, because
// a migration only adds, and the migration after it removes the replaced parts. So migrate
// first, with the new code; then replace the processes one by one, old and new side by side,
// including restarts in between; and only then deploy code with version n+2. On a version
// further on every call gives [store.ErrNewerSchema], in a process that runs within a minute
// (AddTx after another call has), and Migrate by older code leaves a newer schema as it is. Older
// code ignores features that it does not know: where a version brings something that holds lanes,
// as pauses and halts do, it holds them once the last old process is gone.
func (s *Store) Migrate(ctx context.Context) error {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(migrateTimeLimit))
	err := backoff.Retry(func() error {
		err := s.migrate(ctx)
		if err != nil && !isMigrationRace(err) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(b, ctx))
	if err == nil {
		err = s.recordShard(ctx)
	}
	s.schemaCheckedUntil.Store(nil)
	return wrap("migrate", err)
}

func (s *Store) migrate(ctx context.Context) error {
	if err := s.makeSchema(ctx); err != nil {
		return err
	}
	have, err := s.schemaVersionOf(ctx)
	if err != nil {
		return err
	}
	if err := s.checkKnown(have); !errors.Is(err, store.ErrNotMigrated) {
		return err
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
	_, err = p.Up(ctx)
	return err
}

// makeSchema creates the schema if it does not exist.
func (s *Store) makeSchema(ctx context.Context) error {
	return s.runOnAnyConn(ctx, beginSQL, func() {}, func(ctx context.Context, t *session, _ *conns.Session) error {
		// CREATE SCHEMA IF NOT EXISTS needs the right to create a schema, even if it exists.
		found, _, err := sqlstore.Get[bool](ctx, t, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text)`, s.names.schema)
		if err == nil && !found {
			_, err = t.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS "`+s.names.schema+`"`)
		}
		return s.names.withSchemaName(err)
	})
}

// schemaVersionOf reads the version of the database's schema.
func (s *Store) schemaVersionOf(ctx context.Context) (have int64, err error) {
	err = s.runOnAnyConn(ctx, beginRead, func() {}, func(ctx context.Context, t *session, _ *conns.Session) error {
		have, err = t.version(ctx)
		return err
	})
	return have, err
}

func (t *session) version(ctx context.Context) (int64, error) {
	have, err := sqlstore.SchemaVersion(ctx, t, `SELECT to_regclass('{table}') IS NOT NULL`)
	if err == nil {
		err = t.checkNotMoved(ctx)
	}
	return have, t.store.names.withSchemaName(err)
}

// checkNotMoved returns an error for a schema whose tables have moved to another server.
func (t *session) checkNotMoved(ctx context.Context) error {
	there, _, err := sqlstore.Get[bool](ctx, t, `SELECT to_regclass('{`+sqlstore.MovedTable+`}') IS NOT NULL`)
	if err != nil || !there {
		return err
	}
	note, _, err := sqlstore.Get[string](ctx, t, `SELECT note FROM {`+sqlstore.MovedTable+`}`)
	if err != nil || note == "" {
		return err
	}
	return fmt.Errorf("%w: %s", store.ErrSchemaMoved, note)
}

// checkKnown returns an error if this code does not work on a version of the schema.
func (s *Store) checkKnown(have int64) error {
	return s.names.withSchemaName(store.Schema{Have: have, Want: schemaVersion}.Check())
}

// withSchemaName adds the name of the schema to an error.
func (n names) withSchemaName(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("schema %q: %w", n.schema, err)
}

// isMigrationRace reports whether another process was making the same tables.
func isMigrationRace(err error) bool {
	switch sqlState(err) {
	case uniqueViolation: // of a row of the catalogue; the rows of a table that a migration refuses would stay as they are
		name := constraintName(err)
		return name == "" || strings.HasPrefix(name, "pg_")
	case "42P06", "42P07", "42710", "42701", // schema, table, object or column exists
		"XX000", // tuple concurrently updated
		serializationFailure, deadlockDetected, lockNotAvailable:
		return true
	}
	return false
}

// gooseStore is goose's own store with another TableExists, because goose does not find a table by
// its quoted name.
type gooseStore struct {
	database.Store
	names
}

// TableExists implements an optional method of goose.
func (g gooseStore) TableExists(ctx context.Context, db database.DBTxConn) (found bool, err error) {
	err = db.QueryRowContext(ctx, g.fill(`SELECT to_regclass('{`+MigrationsTable+`}') IS NOT NULL`)).Scan(&found)
	return found, err
}
