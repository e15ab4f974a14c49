package sqlite

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/pressly/goose/v3"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// MigrationsTable is goose's table of the migrations that were made. It is not goose's usual
// table, so that the application may use goose for its own tables.
const MigrationsTable = sqlstore.MigrationsTable

// schemaVersion is the number of the last migration.
const schemaVersion = 1

// Migrations returns the SQL files, in goose's format, for other migration tools. A user of
// another tool also enters their versions in [MigrationsTable].
func Migrations() fs.FS {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // impossible, because the directory is embedded above
	}
	return sub
}

// migrateTimeLimit is how long Migrate tries while other processes migrate the same database.
const migrateTimeLimit = 30 * time.Second

// Migrate makes the tables, or brings old tables up to date. Any number of processes may call
// it at once, and again when there is nothing to do.
//
// Code of schema version n works on versions n and n+1: migrate first, with the new code, and then
// replace the processes. On a version further on every call gives [store.ErrNewerSchema]. Migrate
// by older code leaves a newer schema as it is.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.forgetOtherFile(s.files.checkSame()); err != nil {
		return wrap("migrate", err)
	}
	w, err := s.waitTurn(ctx)
	if err != nil {
		return wrap("migrate", err)
	}
	defer func() { <-s.writer }()
	if w != nil {
		w.close() // the pool may have no other connection to migrate on
	}
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(time.Second), backoff.WithMaxElapsedTime(migrateTimeLimit))
	// If two processes migrate at once, one of them finds a table that exists, or a locked
	// database. The error depends on the driver, but in the end the tables exist.
	err = backoff.Retry(func() error {
		have, err := s.schemaVersionOf(ctx)
		switch {
		case errors.Is(err, store.ErrUnreleasedSchema):
			return backoff.Permanent(err)
		case err != nil:
			return err
		}
		switch err := checkKnown(have); {
		case err == nil:
			return nil
		case !errors.Is(err, store.ErrNotMigrated):
			return backoff.Permanent(err)
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

// schemaVersionOf reads the version of the database's schema.
func (s *Store) schemaVersionOf(ctx context.Context) (int64, error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	t := s.session(conn)
	defer t.close()
	return t.version(ctx)
}

func (t *session) version(ctx context.Context) (int64, error) {
	return sqlstore.SchemaVersion(ctx, t, `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{table}')`)
}

// checkKnown returns an error if this code does not work on a version of the schema.
func checkKnown(have int64) error { return store.Schema{Have: have, Want: schemaVersion}.Check() }

// schemaCheckInterval is how often a process checks the schema's version, because somebody may
// migrate it further than this code allows.
const schemaCheckInterval = time.Minute

// checkSchema checks from time to time whether this code works on the schema.
func (s *Store) checkSchema(ctx context.Context, t *session) error {
	now := time.Now()
	if until := s.schemaKnownUntil.Load(); until != nil && now.Before(*until) {
		return nil
	}
	have, err := t.version(ctx)
	if err == nil {
		err = checkKnown(have)
	}
	if err != nil {
		return err
	}
	until := now.Add(schemaCheckInterval)
	s.schemaKnownUntil.Store(&until)
	return nil
}
