package main

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/sqlite"
)

// migrations returns the SQL files for a target. It needs no connection.
func (t target) migrations() (fs.FS, error) {
	if _, ok := t.file(); ok {
		return sqlite.Migrations(), nil
	}
	return postgres.Migrations(t.options())
}

// schemaAnswer is what "migrate" prints.
type schemaAnswer struct {
	Have int64 `json:"have"` // 0: no schema
	Want int64 `json:"want"` // the last that this program knows
	// Current is true if the schema needs no migration: it has the version Want, or the next one.
	Current bool `json:"current"`
}

// migratable is a store with a schema that can be migrated.
type migratable interface {
	Migrate(ctx context.Context) error
	Schema(ctx context.Context) (store.Schema, error)
}

// schema compares the database's schema with the version of this program. It changes nothing. why
// says why the schema is not current; nil if it is.
func (db *database) schema(ctx context.Context) (s schemaAnswer, why, err error) {
	in, ok := db.Store.(migratable)
	if !ok {
		return s, nil, fmt.Errorf("schema: %w: %T has none", store.ErrUnsupported, db.Store)
	}
	found, err := in.Schema(ctx)
	why = found.Check()
	return schemaAnswer{Have: found.Have, Want: found.Want, Current: why == nil}, why, err
}

func (p *page) printSchema(s schemaAnswer) {
	p.line("the schema is at version %d, this program knows %d", s.Have, s.Want)
	switch {
	case s.Have > s.Want+1:
		p.line("it is too new: use a newer dltbatch")
	case s.Have == 0:
		p.line("there are no tables: dltbatch migrate up makes them")
	case s.Have < s.Want:
		p.line("dltbatch migrate up brings it up to date")
	}
}

func (a *app) migrate() *cobra.Command {
	c := requireSubcommand(&cobra.Command{Use: "migrate", Short: "The schema of the database"})
	up := &cobra.Command{
		Use: "up [flags]", Short: "Make the tables, or bring them up to date",
		Long: `Makes the tables, or brings them up to date; a missing SQLite file is made, too. Any number of
processes may do it at once. Migrate first, with the new code, and then replace the processes. The
JSON is an object with "have", "want" and "current".`,
	}
	c.AddCommand(
		a.plainCommand(&cobra.Command{
			Use: "sql [flags]", Short: "The migrations as SQL", Args: cobra.NoArgs,
			Long: `Writes the migrations to the output, in goose's format, for other tools. It does not connect: the
data source name says only which database it is, such as postgres://. It has no JSON.`,
		}, func(_ context.Context, _ []string) error { return a.writeSQL() }),
		a.databaseCommand(&cobra.Command{
			Use: "status [flags]", Short: "The schema's version",
			Long: `Shows the version of the schema, and the version that this program knows. It exits with 7 where
the schema is to be migrated, or is too new. The JSON is an object with "have", "want" and
"current".`,
		}, func(ctx context.Context, db *database, _ []string) error {
			s, why, err := db.schema(ctx)
			if err != nil {
				return err
			}
			if err := a.print(s, func(p *page) { p.printSchema(s) }); err != nil {
				return err
			}
			return why
		}),
		a.plainCommand(up, func(ctx context.Context, _ []string) error {
			t, err := a.target()
			if err != nil {
				return err
			}
			t.create = true
			db, err := a.openDatabase(ctx, t)
			if err != nil {
				return err
			}
			defer db.close()
			in, ok := db.Store.(migratable)
			if !ok {
				return fmt.Errorf("migrate: %w: %T has no schema", store.ErrUnsupported, db.Store)
			}
			if err := in.Migrate(ctx); err != nil {
				return err
			}
			s, _, err := db.schema(ctx)
			if err != nil {
				return err
			}
			return a.print(s, func(p *page) { p.printSchema(s) })
		}),
	)
	return c
}

func (a *app) writeSQL() error {
	t, err := a.target()
	if err != nil {
		return err
	}
	if t.dsn == "" {
		return fmt.Errorf("%w: say which database: give --dsn, or set DLTBATCH_DSN", errUsage)
	}
	files, err := t.migrations()
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
		if _, err := fmt.Fprintf(a.stdout, "-- %s\n%s\n", name, text); err != nil {
			return err
		}
	}
	return nil
}
