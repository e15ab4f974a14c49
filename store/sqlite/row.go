package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// stored is a loaded batch, and its present row.
type stored struct {
	sqlstore.BatchCols
	now      store.Row
	receipts int // how many transaction_receipts the database has
}

// batchOf reads colsBatch.
func batchOf(c *cells) sqlstore.BatchCols {
	return sqlstore.BatchCols{
		Seq: c.int64(), HeaderSignature: c.text(), ServiceID: c.text(), CreatedAt: c.int64(), DataChangeID: c.text(),
		BudgetAttempts: c.int(), BudgetEveryTry: c.bool(),
	}
}

// openOf reads colsOpen.
func (s *stored) openOf(c *cells) {
	cols := sqlstore.RowCols{
		State: c.int64(), Version: c.int64(), Attempt: c.int64(), Spent: c.int64(), Failures: c.int64(), ClaimExpires: c.int64(),
		NotBefore: c.int64(), NextCheck: c.int64(), AskedAt: c.int64(), LastPost: c.int64(), SettlesAt: c.int64(),
		DoubtAttempt: c.int64(), DoubtSince: c.int64(), ResendUntil: c.int64(), Resends: c.int64(), Refused: c.bool(), Requeued: c.bool(),
		Kind: nullText(c), Message: c.text(), Decision: c.text(), Receipts: c.int(), Prepared: c.blob(), ClaimedBy: c.text(),
		AtEnd: c.bool(), ClaimTTL: c.int64(), TTLAttempt: c.int64(), FirstClaimed: c.int64(), Rollbacks: c.int64(), SeenAttempt: c.int64(),
		SeenEndpoint: c.text(),
	}
	s.now, s.receipts = cols.Row(), cols.Receipts
}

// finalOf reads colsFinal.
func (s *stored) finalOf(c *cells) {
	cols := sqlstore.RowCols{
		State: c.int64(), Version: c.int64(), Attempt: c.int64(), Spent: c.int64(), Failures: c.int64(), AskedAt: c.int64(),
		LastPost: c.int64(), SettlesAt: c.int64(), FinalAt: c.int64(), Requeued: c.bool(), Kind: nullText(c), Message: c.text(),
		Receipts: c.int(), Settled: c.bool(), Quarantined: c.bool(),
	}
	s.now, s.receipts = cols.Row(), cols.Receipts
}

func nullText(c *cells) sql.NullString {
	text, null := c.textOrNull()
	return sql.NullString{String: text, Valid: !null}
}

// footprintOf reads the column of a footprint.
func footprintOf(c *cells) batch.Footprint {
	f, err := sqlstore.DecodeFootprint(c.blob())
	if err != nil && c.err == nil {
		c.err = err
	}
	return f
}

// load reads the row of a batch, open or final, with its receipts. It looks up a ref without
// Row by its id. The error wraps batch.ErrNotFound if there is no such batch.
func (t *session) load(ctx context.Context, ref store.Ref) (*stored, error) {
	if ref.Row == 0 {
		switch err := t.get(ctx, &ref.Row, sqlSeqByID, idHash(ref.Key.ID), string(ref.Key.ID)); {
		case noRows(err):
			return nil, fmt.Errorf("%w: %s", batch.ErrNotFound, ref.Key)
		case err != nil:
			return nil, err
		}
	}
	s, err := t.loadRow(ctx, ref.Row)
	if err == nil && (s == nil || s.Key() != ref.Key) {
		err = fmt.Errorf("%w: %s", batch.ErrNotFound, ref.Key)
	}
	return s, err
}

// loadRow reads the row of a number, or nil.
func (t *session) loadRow(ctx context.Context, seq int64) (*stored, error) {
	s := &stored{}
	found, err := t.one(ctx, func(c *cells) { s.BatchCols = batchOf(c); s.openOf(c) }, sqlOpenRow, seq)
	if err == nil && !found {
		found, err = t.one(ctx, func(c *cells) { s.BatchCols = batchOf(c); s.finalOf(c) }, sqlFinalRow, seq)
	}
	if err != nil || !found {
		return nil, err
	}
	return s, t.loadReceipts(ctx, s)
}

// loadOpen reads the open rows of these numbers at once. It leaves out other rows.
func (t *session) loadOpen(ctx context.Context, seqs []int64) (map[int64]*stored, error) {
	if len(seqs) == 0 {
		return map[int64]*stored{}, nil
	}
	found, err := t.openRows(ctx, seqs)
	for _, s := range found {
		if err == nil {
			err = t.loadReceipts(ctx, s)
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// openRows is loadOpen without receipts.
func (t *session) openRows(ctx context.Context, seqs []int64) (map[int64]*stored, error) {
	found := make(map[int64]*stored, len(seqs))
	return found, t.each(ctx, func(c *cells) {
		s := &stored{BatchCols: batchOf(c)}
		s.openOf(c)
		found[s.Seq] = s
	}, sqlOpenRows, jsonInts(seqs))
}

func jsonInts(n []int64) string {
	b, _ := json.Marshal(n) //nolint:errchkjson // integers always marshal
	return string(b)
}

func (t *session) loadReceipts(ctx context.Context, s *stored) error {
	if s.receipts == 0 {
		return nil
	}
	found, err := sqlstore.Receipts(ctx, t, []int64{s.Seq})
	s.now.Receipts = found[s.Seq]
	return err
}

// save writes next as the row, to the table it belongs in, and sets s.now.
func (t *session) save(ctx context.Context, s *stored, next store.Row) error {
	prev := s.now
	if err := t.saveReceipts(ctx, s, next); err != nil {
		return err
	}
	var n int64
	var err error
	switch {
	case !prev.Final() && !next.Final():
		n, err = t.exec(ctx, sqlUpdateOpen, append(openArgs(next, s.receipts), s.Seq, prev.Version)...)
	case !prev.Final():
		if n, err = t.exec(ctx, sqlDeleteOpen, s.Seq, prev.Version); err == nil && n == 1 {
			n, err = t.exec(ctx, sqlInsertFinal, finalArgs(s.Seq, next, s.receipts)...)
		}
	default:
		if n, err = t.exec(ctx, sqlDeleteFinal, s.Seq); err != nil || n != 1 {
			break
		}
		if next.Final() {
			n, err = t.exec(ctx, sqlInsertFinal, finalArgs(s.Seq, next, s.receipts)...)
		} else {
			n, err = t.exec(ctx, sqlInsertOpen, append(openArgs(next, s.receipts), s.Seq, s.ServiceID, s.CreatedAt)...)
		}
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("batch %s: %d rows written, want 1", s.Key(), n)
	}
	s.now = next
	return err
}

func (t *session) saveReceipts(ctx context.Context, s *stored, next store.Row) error {
	if sqlstore.SameReceipts(s.now.Receipts, next.Receipts) {
		return nil
	}
	if _, err := t.exec(ctx, sqlDeleteReceipts, s.Seq); err != nil {
		return err
	}
	for i, r := range next.Receipts {
		if _, err := t.exec(ctx, sqlInsertReceipt, s.Seq, i, r.TransactionID, r.Valid, r.Message, r.Data); err != nil {
			return err
		}
	}
	s.receipts = len(next.Receipts)
	return nil
}

// openArgs are the values of a row in the order of sqlUpdateOpen and sqlInsertOpen.
func openArgs(r store.Row, receipts int) []any {
	kind, message := sqlstore.ErrorCols(r.Error)
	return append(make([]any, 0, 33),
		int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures), sqlstore.ToMicro(r.ClaimExpires),
		sqlstore.ToMicro(r.NotBefore), sqlstore.ToMicro(r.NextCheck), sqlstore.ToMicro(r.AskedAt), sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt),
		int64(r.DoubtAttempt), sqlstore.ToMicro(r.DoubtSince), sqlstore.ToMicro(r.ResendUntil), int64(r.Resends), r.Refused, r.Requeued,
		kind, message, r.Decision, int64(receipts), dueAt(r), r.ClaimedBy, r.AtEnd,
		r.ClaimTTL.Microseconds(), int64(r.Attempt), sqlstore.ToMicro(r.FirstClaimed), int64(r.Rollbacks), int64(r.SeenAttempt), r.SeenEndpoint)
}

func finalArgs(seq int64, r store.Row, receipts int) []any {
	kind, message := sqlstore.ErrorCols(r.Error)
	return []any{seq, int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures), sqlstore.ToMicro(r.AskedAt),
		sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt), sqlstore.ToMicro(r.FinalAt), r.Requeued, kind, message, int64(receipts), r.OrdersSettled,
		r.Quarantined}
}

// dueAt is NULL for a row that is not the monitor's, so that the index of due rows holds no
// others; and never before the end of a claim.
func dueAt(r store.Row) any {
	if at := sqlstore.DueAt(r); at != sqlstore.NeverDue {
		return at
	}
	return nil
}

// Load reads the clock, and the rows of these batches.
func (t *session) Load(ctx context.Context, seqs []int64) (found map[int64]*sqlstore.Stored, now int64, err error) {
	if now, err = sqlstore.Now(ctx, t); err != nil {
		return nil, 0, err
	}
	found = make(map[int64]*sqlstore.Stored, len(seqs))
	for _, seq := range seqs {
		s, err := t.loadRow(ctx, seq)
		if err != nil {
			return nil, 0, err
		}
		if s != nil {
			found[seq] = &sqlstore.Stored{BatchCols: s.BatchCols, Was: s.now, Now: s.now, Had: s.receipts}
		}
	}
	return found, now, nil
}

// Save writes rows one by one.
func (t *session) Save(ctx context.Context, all []*sqlstore.Stored) error {
	for _, s := range all {
		if s.Now.Version == s.Was.Version {
			continue
		}
		if err := t.save(ctx, &stored{s.BatchCols, s.Was, s.Had}, s.Now); err != nil {
			return err
		}
	}
	return nil
}
