package sqlite

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// rowCols is a batch as a statement of this package reads it.
type rowCols struct {
	sqlstore.BatchCols
	sqlstore.RowCols
	Footprint []byte `db:"footprint"`
	Size      int    `db:"size"`
}

func (c *rowCols) stored() *sqlstore.Stored {
	s := &sqlstore.Stored{BatchCols: c.BatchCols, Was: c.Row(), Had: c.Receipts}
	s.Now = s.Was
	return s
}

// openRows reads the open rows of these numbers, without receipts. It leaves out numbers without
// an open row.
func (t *session) openRows(ctx context.Context, seqs []int64) (map[int64]*sqlstore.Stored, error) {
	found := make(map[int64]*sqlstore.Stored, len(seqs))
	return found, sqlstore.Each(ctx, t, func(c *rowCols) error {
		found[c.Seq] = c.stored()
		return nil
	}, sqlOpenRows, jsonText(seqs))
}

// Load reads the clock, and the rows of these batches.
func (t *session) Load(ctx context.Context, seqs []int64) (found map[int64]*sqlstore.Stored, now int64, err error) {
	if found, now, err = t.Attempted(ctx, seqs); err != nil {
		return nil, 0, err
	}
	for _, seq := range seqs {
		if found[seq] != nil {
			continue
		}
		final, err := sqlstore.Query[rowCols](ctx, t, sqlFinalRow, seq)
		if err != nil {
			return nil, 0, err
		}
		if len(final) > 0 {
			found[seq] = final[0].stored()
		}
	}
	return found, now, sqlstore.LoadReceipts(ctx, t, found)
}

// Save writes each row by itself.
func (t *session) Save(ctx context.Context, all []*sqlstore.Stored) error {
	for _, s := range all {
		if s.Now.Version == s.Was.Version {
			continue
		}
		if err := t.save(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// save writes the row to its table. After that, Was is the row in the database.
func (t *session) save(ctx context.Context, s *sqlstore.Stored) error {
	if err := t.saveReceipts(ctx, s); err != nil {
		return err
	}
	if err := t.SetPrepared(ctx, sqlstore.Voided([]*sqlstore.Stored{s})); err != nil {
		return err
	}
	var n int64
	var err error
	if prev, next := s.Was, s.Now; !prev.Final() && !next.Final() {
		n, err = t.Exec(ctx, sqlUpdateOpen, append(openArgs(next, s.Had), s.Seq, prev.Version)...)
	} else {
		if !prev.Final() {
			n, err = t.Exec(ctx, sqlDeleteOpen, s.Seq, prev.Version)
		} else {
			n, err = t.Exec(ctx, sqlDeleteFinal, s.Seq)
		}
		switch {
		case err != nil || n != 1:
		case next.Final():
			n, err = t.Exec(ctx, sqlInsertFinal, finalArgs(s.Seq, next, s.Had)...)
		default:
			n, err = t.Exec(ctx, sqlInsertOpen, append(openArgs(next, s.Had), s.Seq, s.ServiceID, s.CreatedAt)...)
		}
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("batch %s: %d rows written, want 1", s.Key(), n)
	}
	s.Was = s.Now
	return err
}

func (t *session) saveReceipts(ctx context.Context, s *sqlstore.Stored) error {
	if sqlstore.SameReceipts(s.Was.Receipts, s.Now.Receipts) {
		return nil
	}
	if _, err := t.Exec(ctx, sqlDeleteReceipts, s.Seq); err != nil {
		return err
	}
	for i, r := range s.Now.Receipts {
		if _, err := t.Exec(ctx, sqlInsertReceipt, s.Seq, i, r.TransactionID, r.Valid, r.Message, r.Data); err != nil {
			return err
		}
	}
	s.Had = int64(len(s.Now.Receipts))
	return nil
}

// openArgs returns the values of a row in the order of the columns of sqlUpdateOpen and
// sqlInsertOpen.
func openArgs(r store.Row, receipts int64) []any {
	kind, message := sqlstore.ErrorCols(r.Error)
	return append(make([]any, 0, 32),
		int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures), sqlstore.ToMicro(r.ClaimExpires),
		sqlstore.ToMicro(r.NotBefore), sqlstore.ToMicro(r.NextCheck), sqlstore.ToMicro(r.AskedAt), sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt),
		int64(r.DoubtAttempt), sqlstore.ToMicro(r.DoubtSince), sqlstore.ToMicro(r.ResendUntil), int64(r.Resends), r.Refused, r.Requeued,
		kind, message, r.Decision, receipts, dueAt(r), r.ClaimedBy,
		r.ClaimTTL.Microseconds(), sqlstore.ToMicro(r.MovedAt), int64(r.Rollbacks), int64(r.SeenAttempt), r.SeenEndpoint, r.Withdrawn)
}

func finalArgs(seq int64, r store.Row, receipts int64) []any {
	kind, message := sqlstore.ErrorCols(r.Error)
	return []any{seq, int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures), sqlstore.ToMicro(r.AskedAt),
		sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt), sqlstore.ToMicro(r.FinalAt), r.Requeued, kind, message, receipts, r.OrdersSettled,
		r.Quarantined}
}

// dueAt returns when the row is due: NULL for a row that is not the monitor's, so that the index
// of due rows has no others, and never before the end of a claim.
func dueAt(r store.Row) any { return dueArg(sqlstore.DueAt(r)) }

func dueArg(at int64) any {
	if at == sqlstore.NeverDue {
		return nil
	}
	return at
}
