package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Old finds rows from the place on where the last read ended. It notes the time up to which
// batches are removed, so that no other process takes these batches for lost.
func (t *session) Old(ctx context.Context, of sqlstore.Aging, until int64, limit int) ([]sqlstore.Aged, error) {
	statement := [...]string{sqlstore.AgingBatches: sqlPrunable, sqlstore.AgingOrders: sqlPrunableOrders, sqlstore.AgingIDs: sqlOldStreamIDs}[of]
	o := &t.store.positions.Removed[of]
	rows, err := sqlstore.Query[sqlstore.Aged](ctx, t, statement, until, int64(limit), o.From(until, time.Now()))
	if err != nil || len(rows) == 0 {
		return rows, err
	}
	o.Found(len(rows), rows[len(rows)-1].At)
	if of == sqlstore.AgingBatches {
		_, err = t.Exec(ctx, sqlMarkPruned, fmt.Sprint(until))
	}
	return rows, err
}

// pruneTx is tx for removals. After a rollback it forgets where the next reads begin, because the
// rows that the transaction had found are still there.
func (s *Store) pruneTx(ctx context.Context, op string, do func(ctx context.Context, t *session) error) error {
	begun := false
	err := s.tx(ctx, op, func(ctx context.Context, t *session) error {
		if begun {
			s.positions.ForgetRemoved()
		}
		begun = true
		return do(ctx, t)
	})
	if err != nil {
		s.positions.ForgetRemoved()
	}
	return err
}
