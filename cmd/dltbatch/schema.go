package main

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// migrations returns the SQL files of a target, which needs no connection.
func (t target) migrations() (fs.FS, error) {
	if _, ok := t.file(); ok {
		return sqlite.Migrations(), nil
	}
	return postgres.Migrations(t.options())
}

// newest returns the version of the last of these files.
func newest(files fs.FS) (last int64, err error) {
	names, err := fs.Glob(files, "*.sql")
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		v, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", name, err)
		}
		last = max(last, v)
	}
	return last, err
}

// version returns the number of the last migration that was made, or 0. It changes nothing.
func (db *database) version(ctx context.Context, t target) (have int64, err error) {
	switch {
	case db.pool != nil:
		table := pgx.Identifier{t.schemaName(), t.prefix + postgres.MigrationsTable}.Sanitize()
		var found bool
		if err := db.pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&found); err != nil || !found {
			return 0, err
		}
		return have, db.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+table).Scan(&have)
	case db.file != nil:
		const exists = `SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '` + sqlite.MigrationsTable + `')`
		var found bool
		if err := db.file.QueryRowContext(ctx, exists).Scan(&found); err != nil || !found {
			return 0, err
		}
		return have, db.file.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM `+sqlite.MigrationsTable).Scan(&have)
	}
	return 0, fmt.Errorf("schema: %w: %T has none", store.ErrUnsupported, db.Store)
}

// schema is an answer of migrate.
type schema struct {
	Have int64 `json:"have"` // 0: no schema
	Want int64 `json:"want"` // the last that this program knows
	// Current says that the schema needs no migration: it is at version Want, or at the next.
	Current bool `json:"current"`
}

// schema compares the schema with what this program knows.
func (db *database) schema(ctx context.Context, t target) (s schema, err error) {
	files, err := t.migrations()
	if err != nil {
		return s, err
	}
	if s.Want, err = newest(files); err != nil {
		return s, err
	}
	s.Have, err = db.version(ctx, t)
	s.Current = s.Have >= s.Want && s.Have <= s.Want+1
	return s, err
}

func (p *page) schema(s schema) {
	p.line("the schema is at version %d, this program knows %d", s.Have, s.Want)
	switch {
	case s.Have > s.Want+1:
		p.line("it is too new: use a newer dltbatch")
	case s.Have == 0:
		p.line("there are no tables: dltbatch migrate up makes them")
	case s.Have < s.Want:
		p.line("dltbatch migrate up brings it up to date; on PostgreSQL --finish may be needed: see its help")
	}
}

func (a *app) migrate() *cobra.Command {
	c := group(&cobra.Command{Use: "migrate", Short: "The schema of the database"})
	var finish, yes bool
	up := &cobra.Command{
		Use: "up [flags]", Short: "Make the tables, or bring them up to date",
		Long: `Makes the tables, or brings them up to date; a missing SQLite file is made, too. Any number of processes
may do it at once. Migrate first, with the new code, and then replace the processes. --finish is the step on
PostgreSQL that wants the last process with code of schema version 1 to be gone. The JSON is an object
with "have", "want" and "current".`,
	}
	up.Flags().BoolVar(&finish, "finish", false, "PostgreSQL: finish the migration (postgres.Store.FinishMigration)")
	up.Flags().BoolVar(&yes, "yes", false, "do not ask for a typed confirmation, with --finish")
	c.AddCommand(
		a.plain(&cobra.Command{
			Use: "sql [flags]", Short: "The migrations as SQL", Args: cobra.NoArgs,
			Long: `Writes the migrations to the output, in goose's format, for other tools. It does not connect: the data
source name says only which database it is, such as postgres://. It has no JSON.`,
		}, func(_ context.Context, _ []string) error { return a.writeSQL() }),
		a.command(&cobra.Command{
			Use: "status [flags]", Short: "The schema's version",
			Long: `Shows the version of the schema, and the version that this program knows. It exits with 7 where the schema
is to be migrated, or is too new. The JSON is an object with "have", "want" and "current".`,
		}, func(ctx context.Context, db *database, _ []string) error {
			s, err := db.schema(ctx, a.target)
			if err != nil {
				return err
			}
			if err := a.print(s, func(p *page) { p.schema(s) }); err != nil || s.Current {
				return err
			}
			if s.Have > s.Want {
				return postgres.ErrNewerSchema
			}
			return postgres.ErrNotMigrated
		}),
		a.plain(up, func(ctx context.Context, _ []string) error {
			a.target.create = true
			db, err := a.open(ctx, a.target)
			if err != nil {
				return err
			}
			defer db.close()
			migrate, ok := db.Store.(interface{ Migrate(context.Context) error })
			if !ok {
				return fmt.Errorf("migrate: %w: %T has no schema", store.ErrUnsupported, db.Store)
			}
			do := migrate.Migrate
			if finish {
				f, ok := db.Store.(interface {
					FinishMigration(context.Context) error
				})
				if !ok {
					return fmt.Errorf("%w: --finish is for PostgreSQL", errUsage)
				}
				t := &consent{a: a, asks: true, yes: yes}
				if err := t.confirm(ctx, "finish", "From then on code of schema version 1 fails.", func(*page) {}); err != nil {
					return err
				}
				do = f.FinishMigration
			}
			if err := do(ctx); err != nil {
				return err
			}
			s, err := db.schema(ctx, a.target)
			if err != nil {
				return err
			}
			return a.print(s, func(p *page) { p.schema(s) })
		}),
	)
	return c
}

func (a *app) writeSQL() error {
	if a.target.dsn == "" {
		return fmt.Errorf("%w: say which database: give --dsn, or set DLTBATCH_DSN", errUsage)
	}
	files, err := a.target.migrations()
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.out, "-- %s\n%s\n", name, text); err != nil {
			return err
		}
	}
	return nil
}
