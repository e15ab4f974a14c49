package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/dltbatch/dltbatch/store"
)

// MigrationsTable is goose's table of the migrations that have run.
const MigrationsTable = "dltbatch_schema"

// MovedTable is a table that a schema on PostgreSQL has while its tables move to another server,
// and on the old server for ever after (package moving). While the table's note is not empty,
// every call returns [store.ErrSchemaMoved]. So does Migrate, so that nobody makes new tables
// there. Tables that another tool makes there are not used either.
const MovedTable = "moved"

// unreleasedTable is the table of migrations in versions from before the first release, which had
// other migrations.
const unreleasedTable = "dltbatch_migrations"

// SchemaVersion returns the number of the last migration that has run; 0 if none has. exists is a
// statement that reports whether the table {table} exists. The error wraps
// [store.ErrUnreleasedSchema] if a version from before the first release made the database.
func SchemaVersion(ctx context.Context, t Tx, exists string) (int64, error) {
	have, found, err := lastMigration(ctx, t, exists, MigrationsTable)
	if err != nil || found {
		return have, err
	}
	if have, found, err = lastMigration(ctx, t, exists, unreleasedTable); err != nil || !found {
		return 0, err
	}
	return 0, fmt.Errorf("%w: it has the table %s, at version %d, and no %s", store.ErrUnreleasedSchema, unreleasedTable, have, MigrationsTable)
}

// lastMigration reads the last version in a table of migrations. found is false if the table does
// not exist.
func lastMigration(ctx context.Context, t Tx, exists, table string) (have int64, found bool, err error) {
	if found, _, err = Get[bool](ctx, t, strings.ReplaceAll(exists, "{table}", "{"+table+"}")); err != nil || !found {
		return 0, false, err
	}
	have, _, err = Get[int64](ctx, t, `SELECT coalesce(max(version_id), 0) FROM {`+table+`}`)
	return have, true, err
}

// Schema compares the version of the database's schema with that of this code. It changes nothing.
func (s *Store) Schema(ctx context.Context) (store.Schema, error) {
	have, err := s.driver.Have(ctx)
	return store.Schema{Have: have, Want: s.driver.Want}, s.driver.Wrap("read the schema's version", err)
}
