package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Attempted locks the rows of attempted batches, and returns them. A lock is a write, so the
// commit waits for the standbys, and the earlier writes of others are durable, too. A transaction
// without a write would not wait for the standbys.
func (t *session) Attempted(ctx context.Context, seqs []int64) (map[int64]*sqlstore.Stored, int64, error) {
	if len(seqs) == 0 {
		return map[int64]*sqlstore.Stored{}, 0, nil
	}
	rows, err := sqlstore.Query[stored](ctx, t, sqlAttemptedRows, ints(seqs))
	found := make(map[int64]*sqlstore.Stored, len(rows))
	var now int64
	for i := range rows {
		rows[i].unpack()
		found[rows[i].Seq] = &rows[i].Stored
		now = max(now, rows[i].Clock)
	}
	return found, now, err
}

// SetPrepared sends the bytes of all batches in one value, as Add does.
func (t *session) SetPrepared(ctx context.Context, set []*sqlstore.Stored) error {
	all := []byte{} // without bytes the value is empty, and not NULL, as the column requires
	seqs, was := make([]int64, len(set)), make([]int64, len(set))
	at, size := make([]int64, len(set)), make([]int64, len(set))
	for i, r := range set {
		seqs[i], was[i] = r.Seq, r.Was.Version
		at[i], size[i] = int64(len(all)+1), int64(len(r.Now.Prepared))
		all = append(all, r.Now.Prepared...)
	}
	n, err := t.Exec(ctx, sqlKeepPrepared, ints(seqs), ints(was), all, ints(at), ints(size))
	if err == nil && n != int64(len(set)) {
		err = sqlstore.ErrMoved
	}
	return err
}
