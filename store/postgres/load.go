package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Load locks the rows of these batches, and reads the clock under the locks.
func (t *session) Load(ctx context.Context, seqs []int64) (found map[int64]*sqlstore.Stored, now int64, err error) {
	if found, now, err = t.Attempted(ctx, seqs); err != nil {
		return nil, 0, err
	}
	missing := seqsNotFound(seqs, found)
	for _, from := range [...]struct {
		statement string
		unpack    func(*stored)
	}{
		{sqlWaitingRows, (*stored).unpackWaiting},
		{sqlOutcomeRows, (*stored).unpack},
	} {
		if len(missing) == 0 {
			break
		}
		rows, err := sqlstore.Query[stored](ctx, t, from.statement, ints(missing))
		if err != nil {
			return nil, 0, err
		}
		for i := range rows {
			from.unpack(&rows[i])
			found[rows[i].Seq] = &rows[i].Stored
		}
		missing = seqsNotFound(seqs, found)
	}
	if len(missing) > 0 {
		// A missing row was removed, or was moved from a table that was searched later to one that
		// was searched earlier.
		there, err := sqlstore.Query[int64](ctx, t, sqlThere, ints(missing))
		if err != nil {
			return nil, 0, err
		}
		if len(there) > 0 {
			return nil, 0, sqlstore.ErrMoved
		}
	}
	if now == 0 {
		if now, err = sqlstore.Now(ctx, t); err != nil {
			return nil, 0, err
		}
	}
	return found, now, sqlstore.LoadReceipts(ctx, t, found)
}

func seqsNotFound(seqs []int64, found map[int64]*sqlstore.Stored) (missing []int64) {
	for _, seq := range seqs {
		if found[seq] == nil {
			missing = append(missing, seq)
		}
	}
	return missing
}
