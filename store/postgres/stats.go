package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// beginCount begins a transaction that counts at one moment. It reads tables from end to end,
// which costs least, in one server process, and with memory for a hundred thousand lanes.
const beginCount = beginLook + ", set_config('max_parallel_workers_per_gather', '0', true), " +
	"set_config('work_mem', '32768', true), set_config('statement_timeout', '10000', true)"

// countTx is snapshotTx for a count. The server cancels a count after [store.StatsLimit].
func (s *Store) countTx(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	return s.readAs(ctx, op, beginCount, do)
}

// readSizes returns the sizes of the tables, with their indexes.
func readSizes(ctx context.Context, t sqlstore.Tx) ([]store.Size, error) {
	type row struct {
		Name  string `db:"name"`
		Bytes int64  `db:"bytes"`
		Dead  int64  `db:"dead"`
	}
	rows, err := sqlstore.Query[row](ctx, t, sqlSizes)
	sizes := make([]store.Size, len(rows))
	for i, r := range rows {
		sizes[i] = store.Size(r)
	}
	return sizes, err
}
