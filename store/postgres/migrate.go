package postgres

import (
	"archive/zip"
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

//go:embed migrations/*.sql
var migrations embed.FS

// MigrationsTable is where goose notes which migrations were made, in the store's
// schema and behind its prefix. It is not goose's usual one, so that the application
// may use goose for its own tables.
const MigrationsTable = "dltbatch_migrations"

// schemaVersion is the number of the last migration, and oldestVersion is of the first that
// this code works on. Between the two is what has to wait for the last process with code
// from before.
const (
	schemaVersion = 3
	oldestVersion = 2
)

// Migrations returns the SQL files of these options, in goose's format, for other
// migration tools. The schema has to exist before. Who makes them another way also
// notes their versions in [MigrationsTable], and keeps what [Store.FinishMigration]
// says about the last one.
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

// migrations fills the names into the files. A zip archive in memory is the standard
// library's way to make a file system of a few bytes.
func (n names) migrations() (fs.FS, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		text, err := migrations.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := w.Create(path[len("migrations/"):])
		if err != nil {
			return nil, err
		}
		if _, err := f.Write([]byte(n.fill(string(text)))); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
}

// migrateFor is how long Migrate tries while others migrate the same schema.
const migrateFor = 30 * time.Second

// Migrate makes the schema and the tables, or brings old ones up to date. It may be
// called by any number of processes at once, and again when there is nothing to do.
//
// The rule for rolling deploys: code of schema version n works on versions n and n+1,
// because a migration only adds, and what it replaces goes with the one after it. So
// migrate first, with the new code; then replace the processes one by one, old and
// new side by side, those that restart in between included; and only then deploy
// what has version n+2. On a version further on every call gives [ErrNewerSchema], and
// Migrate by older code leaves a newer schema as it is. Older code does not do what it
// does not know of: where a version brings something that holds lanes, as pauses and
// halts do, it holds them once the last of the old processes is gone.
//
// A database that had tables before is left one step short, at version 2: call
// [Store.FinishMigration] once the last process with code of version 1 is gone.
func (s *Store) Migrate(ctx context.Context) error {
	return s.migrateTo(ctx, oldestVersion, false)
}

// FinishMigration is Migrate, and the step that wants the last process with code of
// schema version 1 to be gone: from there on such code fails when it adds, claims or
// requeues, loudly and with nothing lost. Until it is made every claim passes over what
// was finished in front of the open batches of its lanes and the database was not able to
// clean up yet; after it claims begin where the open work does, in running processes
// within a minute. It waits a second at a time for transactions that use the tables, and
// for half a minute in all; the error of one that stays open longer has the state 55P03.
// A new database needs no such call, and none needs it twice.
func (s *Store) FinishMigration(ctx context.Context) error {
	return s.migrateTo(ctx, schemaVersion, false)
}

// MigrateTo is Migrate up, or down, to a version. Version 0 removes the tables with
// everything in them. It gives [ErrNewerSchema] where a newer version of this package
// made tables that this one does not know how to take back. On the way down no other
// process may run, and on the way up to version 3 see [Store.FinishMigration].
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
	s.checked.Store(false)
	return wrap(op, err)
}

// migrate raises what is wanted where it finds no tables: no old process can use them.
func (s *Store) migrate(ctx context.Context, want *int64, down bool) error {
	have, err := s.version(ctx)
	if have == 0 && *want == oldestVersion && !down {
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
	gs, err := s.gooseStore()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectCustom, s.db, files, goose.WithStore(gs), goose.WithDisableGlobalRegistry(true))
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

// version makes the schema if there is none, and returns the last migration.
func (s *Store) version(ctx context.Context) (have int64, err error) {
	c, err := s.begin(ctx, beginSQL)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	t := &session{c, s}
	// CREATE SCHEMA IF NOT EXISTS wants the right to create one, even if it exists.
	found, _, err := get[bool](ctx, t, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1::text)`, s.names.schema)
	if err == nil && !found {
		_, err = t.exec(ctx, `CREATE SCHEMA IF NOT EXISTS "`+s.names.schema+`"`)
	}
	if err == nil {
		have, err = t.version(ctx)
	}
	if err == nil {
		_, err = c.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		rollback(ctx, c)
	}
	return have, err
}

// version returns the last migration that was made; 0 if there was none.
func (t *session) version(ctx context.Context) (int64, error) {
	found, _, err := get[bool](ctx, t, `SELECT to_regclass('{`+MigrationsTable+`}') IS NOT NULL`)
	if err != nil || !found {
		return 0, err
	}
	have, _, err := get[int64](ctx, t, `SELECT coalesce(max(version_id), 0) FROM {`+MigrationsTable+`}`)
	return have, err
}

// raced reports whether somebody else was making the same tables.
func raced(err error) bool {
	switch sqlState(err) {
	case "42P06", "42P07", "42710", "42701", "23505", // schema, table, object, column exist; a row of the catalogue
		undefinedTable, undefinedColumn, "XX000", // on the way down; tuple concurrently updated
		serializationFailure, deadlockDetected, "55P03":
		return true
	}
	return false
}

func (s *Store) gooseStore() (database.Store, error) {
	return database.NewStoreFromQuerier(s.names.table(MigrationsTable), gooseQuerier{s.names})
}

// gooseQuerier speaks to the table of migrations by its quoted name, which goose's
// own does not.
type gooseQuerier struct{ names }

func (gooseQuerier) CreateTable(table string) string {
	return `CREATE TABLE ` + table + ` (id integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
	version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamptz NOT NULL DEFAULT now())`
}

func (gooseQuerier) InsertVersion(table string) string {
	return `INSERT INTO ` + table + ` (version_id, is_applied) VALUES ($1, $2)`
}

func (gooseQuerier) DeleteVersion(table string) string {
	return `DELETE FROM ` + table + ` WHERE version_id = $1`
}

func (gooseQuerier) GetMigrationByVersion(table string) string {
	return `SELECT tstamp, is_applied FROM ` + table + ` WHERE version_id = $1 ORDER BY tstamp DESC LIMIT 1`
}

func (gooseQuerier) ListMigrations(table string) string {
	return `SELECT version_id, is_applied FROM ` + table + ` ORDER BY id DESC`
}

func (gooseQuerier) GetLatestVersion(table string) string {
	return `SELECT max(version_id) FROM ` + table
}

func (q gooseQuerier) TableExists(string) string {
	return q.fill(`SELECT to_regclass('{` + MigrationsTable + `}') IS NOT NULL`)
}
