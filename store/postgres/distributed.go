package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// ErrDistributed refuses a schema whose tables Citus distributes to other servers. With
// distributed tables, a default is evaluated on another server than the statement, the number of
// rows that an insert reports is not the number that it inserted, and a commit becomes visible
// long after it was acknowledged. Batches are not found, and their order breaks, without any
// error. docs/operations.md#growing says what to do instead.
var ErrDistributed = errors.New("dltbatch: Citus distributes the schema, and a store would lose batches and their order there")

// Citus lists the tables that it distributes in pg_dist_partition, in each database in which it is
// installed.
const (
	sqlCitus       = `SELECT to_regclass('pg_dist_partition') IS NOT NULL`
	sqlDistributed = `SELECT p.logicalrelid::regclass::text FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
	WHERE c.relnamespace = (SELECT b.relnamespace FROM pg_class b WHERE b.oid = '{batches}'::regclass) LIMIT 1`
)

// checkNotDistributed returns an error for a schema with distributed tables.
func (t *session) checkNotDistributed(ctx context.Context) error {
	citus, _, err := sqlstore.Get[bool](ctx, t, sqlCitus)
	if err != nil || !citus {
		return err
	}
	table, found, err := sqlstore.Get[string](ctx, t, sqlDistributed)
	if err != nil || !found {
		return err
	}
	return t.store.names.withSchemaName(fmt.Errorf("%w: the table %s: undistribute it", ErrDistributed, table))
}
