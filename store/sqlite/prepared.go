package sqlite

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Attempted reads open rows.
func (t *session) Attempted(ctx context.Context, seqs []int64) (map[int64]*sqlstore.Stored, int64, error) {
	now, err := sqlstore.Now(ctx, t)
	if err != nil {
		return nil, 0, err
	}
	found, err := t.openRows(ctx, seqs)
	return found, now, err
}

// SetPrepared writes each row by itself. Without bytes the value is empty, and not NULL, as the
// column requires.
func (t *session) SetPrepared(ctx context.Context, set []*sqlstore.Stored) error {
	for _, r := range set {
		n, err := t.Exec(ctx, sqlKeepPrepared, append([]byte{}, r.Now.Prepared...), r.Seq, r.Was.Version)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows written, want 1", n)
		}
		if err != nil {
			return fmt.Errorf("batch %s: %w", r.Key(), err)
		}
	}
	return nil
}
