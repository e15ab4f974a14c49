package postgres

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// beginCount begins a transaction that counts at one moment. It reads tables from end to end, which
// costs least; in one process, and with the memory for a hundred thousand lanes.
const beginCount = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off; " +
	"SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL work_mem = 32768; SET LOCAL statement_timeout = 10000"

// counting is snapshot for a count. The server itself cuts it off after [store.StatsLimit].
func (s *Store) counting(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.txAs(ctx, op, beginCount, do)
}

// withStats is tx for the tables of the stats, which an earlier schema does not have.
func (s *Store) withStats(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.with(ctx, op, &s.hasStats, statsVersion, "stats", do)
}

// withOperator is tx for the tables of bulk actions and summaries, which an earlier schema does not have.
func (s *Store) withOperator(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.with(ctx, op, &s.hasOperator, operatorVersion, "bulk actions and summaries", do)
}

// with is tx for tables that came with a version of the schema. has remembers that they are there.
func (s *Store) with(ctx context.Context, op string, has *atomic.Bool, version int64, tables string, do func(ctx context.Context, t *session) error) error {
	return s.tx(ctx, op, func(ctx context.Context, t *session) error {
		if !has.Load() {
			have, err := t.version(ctx)
			if err != nil {
				return err
			}
			if have < version {
				return fmt.Errorf("%w: schema %q is at version %d, want %d for %s", ErrNotMigrated, s.names.schema, have, version, tables)
			}
			has.Store(true)
		}
		return do(ctx, t)
	})
}

// sizes are the sizes of the tables, with their indexes.
func sizes(ctx context.Context, t sqlstore.Tx) ([]store.Size, error) {
	return sqlstore.Query(ctx, t, func(s *store.Size) []any { return []any{&s.Name, &s.Bytes, &s.Dead} }, sqlSizes)
}
