package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Attempted locks attempted rows. The lock is a write, so that what was written earlier is as
// durable as what is written now.
func (t *session) Attempted(ctx context.Context, seqs []int64) (map[int64]*sqlstore.Stored, int64, error) {
	if len(seqs) == 0 {
		return map[int64]*sqlstore.Stored{}, 0, nil
	}
	rows, err := sqlstore.Query(ctx, t, lockedDest, sqlAttemptedRows, ints(seqs))
	found := make(map[int64]*sqlstore.Stored, len(rows))
	var now int64
	for i := range rows {
		rows[i].unpack()
		found[rows[i].Seq] = &rows[i].Stored
		now = max(now, rows[i].clock)
	}
	return found, now, err
}

// SetPrepared sends all bytes in one value, as Add does.
func (t *session) SetPrepared(ctx context.Context, set []*sqlstore.Stored) error {
	var all []byte
	column := func(at func(s *sqlstore.Stored) int64) string {
		return intArray(len(set), func(i int) int64 { return at(set[i]) })
	}
	for _, s := range set {
		all = append(all, s.Now.Prepared...)
	}
	end := int64(1)
	n, err := t.Exec(ctx, sqlKeepPrepared, column(func(s *sqlstore.Stored) int64 { return s.Seq }),
		column(func(s *sqlstore.Stored) int64 { return s.Was.Version }), all,
		column(func(s *sqlstore.Stored) int64 {
			end += int64(len(s.Now.Prepared))
			return end - int64(len(s.Now.Prepared))
		}),
		column(func(s *sqlstore.Stored) int64 { return int64(len(s.Now.Prepared)) }))
	if err == nil && n != int64(len(set)) {
		err = sqlstore.ErrMoved
	}
	return err
}
