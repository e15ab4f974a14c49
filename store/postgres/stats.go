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
const beginCount = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + beginLocal + "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL jit = off; " +
	"SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL work_mem = 32768; SET LOCAL statement_timeout = 10000"

// counting is snapshot for a count. The server itself cuts it off after [store.StatsLimit].
func (s *Store) counting(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.readAs(ctx, op, beginCount, do)
}

// run is [Store.tx] or [Store.read].
type run func(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error

// withStats is run for the tables of the stats, which an earlier schema does not have.
func (s *Store) withStats(run run) run { return s.with(run, &s.hasStats, statsVersion, "stats") }

// withOperator is run for the tables of bulk actions and summaries, which an earlier schema does not have.
func (s *Store) withOperator(run run) run {
	return s.with(run, &s.hasOperator, operatorVersion, "bulk actions and summaries")
}

// with is run for tables that came with a version of the schema. has remembers that they are there.
func (s *Store) with(run run, has *atomic.Bool, version int64, tables string) run {
	return func(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
		return run(ctx, op, func(ctx context.Context, t *session) error {
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
}

// sizes are the sizes of the tables, with their indexes.
func sizes(ctx context.Context, t sqlstore.Tx) ([]store.Size, error) {
	return sqlstore.Query(ctx, t, func(s *store.Size) []any { return []any{&s.Name, &s.Bytes, &s.Dead} }, sqlSizes)
}
