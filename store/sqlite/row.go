package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// batchCols are the columns of a batch that never change, as the rules need them.
type batchCols struct {
	Seq             int64  `db:"seq"`
	HeaderSignature string `db:"header_signature"`
	ServiceID       string `db:"service_id"`
	CreatedAt       int64  `db:"created_at"`
	DataChangeID    string `db:"data_change_id"`
	BudgetAttempts  int    `db:"budget_attempts"`
	BudgetEveryTry  bool   `db:"budget_every_try"`
}

func (c batchCols) key() batch.Key {
	return batch.Key{Service: batch.ServiceID(c.ServiceID), ID: batch.ID(c.HeaderSignature)}
}

func (c batchCols) ref() store.Ref { return store.Ref{Key: c.key(), Row: c.Seq} }

func (c batchCols) budget() batch.Budget {
	return batch.Budget{Attempts: c.BudgetAttempts, EveryTry: c.BudgetEveryTry}
}

// rowCols is a store.Row, of open_batches or of outcomes: columns that a table lacks stay
// zero.
type rowCols struct {
	State        int            `db:"state"`
	Version      int64          `db:"version"`
	Attempt      int            `db:"attempt"`
	Spent        int            `db:"spent"`
	Failures     int            `db:"failures"`
	ClaimExpires int64          `db:"claim_expires"`
	NotBefore    int64          `db:"not_before"`
	NextCheck    int64          `db:"next_check"`
	AskedAt      int64          `db:"asked_at"`
	LastPost     int64          `db:"last_post"`
	SettlesAt    int64          `db:"settles_at"`
	FinalAt      int64          `db:"final_at"`
	DoubtAttempt int            `db:"doubt_attempt"`
	DoubtSince   int64          `db:"doubt_since"`
	ResendUntil  int64          `db:"resend_until"`
	Resends      int            `db:"resends"`
	Refused      bool           `db:"refused"`
	Requeued     bool           `db:"requeued"`
	Error        sql.NullString `db:"submission_error"`
	ErrorMessage string         `db:"submission_error_message"`
	Decision     string         `db:"decision"`
	Receipts     int            `db:"receipts"`
	Settled      bool           `db:"orders_settled"`
	Prepared     []byte         `db:"prepared"`
	ClaimedBy    string         `db:"claimed_by"`
	AtEnd        bool           `db:"at_end"`
	Quarantined  bool           `db:"quarantined"`
	ClaimTTL     int64          `db:"claim_ttl"`
	TTLAttempt   int64          `db:"ttl_attempt"`
	FirstClaimed int64          `db:"first_claimed"`
	Rollbacks    int            `db:"rollbacks"`
	SeenAttempt  int            `db:"seen_attempt"`
	SeenEndpoint string         `db:"seen_endpoint"`
}

func (c rowCols) row() store.Row {
	r := store.Row{
		State: batch.State(c.State), Version: c.Version, Attempt: c.Attempt, Spent: c.Spent, Failures: c.Failures,
		ClaimExpires: sqlstore.FromMicro(c.ClaimExpires), NotBefore: sqlstore.FromMicro(c.NotBefore), NextCheck: sqlstore.FromMicro(c.NextCheck),
		AskedAt: sqlstore.FromMicro(c.AskedAt), LastPost: sqlstore.FromMicro(c.LastPost), SettlesAt: sqlstore.FromMicro(c.SettlesAt),
		FinalAt: sqlstore.FromMicro(c.FinalAt), DoubtAttempt: c.DoubtAttempt, DoubtSince: sqlstore.FromMicro(c.DoubtSince),
		ResendUntil: sqlstore.FromMicro(c.ResendUntil), Resends: c.Resends, Refused: c.Refused, Requeued: c.Requeued, Decision: c.Decision,
		OrdersSettled: c.Settled, ClaimedBy: c.ClaimedBy, AtEnd: c.AtEnd, Quarantined: c.Quarantined,
		ClaimTTL: sqlstore.ClaimTTL(c.ClaimTTL, c.TTLAttempt, int64(c.Attempt)), FirstClaimed: sqlstore.FromMicro(c.FirstClaimed),
		Rollbacks: c.Rollbacks, SeenAttempt: c.SeenAttempt, SeenEndpoint: c.SeenEndpoint,
	}
	if c.Error.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.Error.String), Message: c.ErrorMessage}
	}
	if len(c.Prepared) > 0 {
		r.Prepared = c.Prepared
	}
	return r
}

// stored is a loaded batch, and its present row.
type stored struct {
	batchCols
	now      store.Row
	receipts int // how many transaction_receipts the database has
}

// storedCols is stored as a statement names its columns.
type storedCols struct {
	batchCols
	rowCols
}

func (c *storedCols) stored() *stored {
	return &stored{batchCols: c.batchCols, now: c.row(), receipts: c.Receipts}
}

// batchOf reads colsBatch.
func batchOf(c *cells) batchCols {
	return batchCols{
		Seq: c.int64(), HeaderSignature: c.text(), ServiceID: c.text(), CreatedAt: c.int64(), DataChangeID: c.text(),
		BudgetAttempts: c.int(), BudgetEveryTry: c.bool(),
	}
}

// openOf reads colsOpen.
func (s *stored) openOf(c *cells) {
	cols := rowCols{
		State: c.int(), Version: c.int64(), Attempt: c.int(), Spent: c.int(), Failures: c.int(), ClaimExpires: c.int64(),
		NotBefore: c.int64(), NextCheck: c.int64(), AskedAt: c.int64(), LastPost: c.int64(), SettlesAt: c.int64(),
		DoubtAttempt: c.int(), DoubtSince: c.int64(), ResendUntil: c.int64(), Resends: c.int(), Refused: c.bool(), Requeued: c.bool(),
		Error: nullText(c), ErrorMessage: c.text(), Decision: c.text(), Receipts: c.int(), Prepared: c.blob(), ClaimedBy: c.text(),
		AtEnd: c.bool(), ClaimTTL: c.int64(), TTLAttempt: c.int64(), FirstClaimed: c.int64(), Rollbacks: c.int(), SeenAttempt: c.int(),
		SeenEndpoint: c.text(),
	}
	s.now, s.receipts = cols.row(), cols.Receipts
}

// finalOf reads colsFinal.
func (s *stored) finalOf(c *cells) {
	cols := rowCols{
		State: c.int(), Version: c.int64(), Attempt: c.int(), Spent: c.int(), Failures: c.int(), AskedAt: c.int64(),
		LastPost: c.int64(), SettlesAt: c.int64(), FinalAt: c.int64(), Requeued: c.bool(), Error: nullText(c), ErrorMessage: c.text(),
		Receipts: c.int(), Settled: c.bool(), Quarantined: c.bool(),
	}
	s.now, s.receipts = cols.row(), cols.Receipts
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

func (s *stored) record() batch.Record {
	r := s.now.Record(s.key())
	r.Budget, r.DataChangeID, r.CreatedAt = s.budget(), s.DataChangeID, sqlstore.FromMicro(s.CreatedAt)
	return r
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
	s := &stored{}
	found, err := t.one(ctx, func(c *cells) { s.batchCols = batchOf(c); s.openOf(c) }, sqlOpenRow, ref.Row)
	if err == nil && !found {
		found, err = t.one(ctx, func(c *cells) { s.batchCols = batchOf(c); s.finalOf(c) }, sqlFinalRow, ref.Row)
	}
	switch {
	case err != nil:
		return nil, err
	case !found || s.key() != ref.Key:
		return nil, fmt.Errorf("%w: %s", batch.ErrNotFound, ref.Key)
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
		s := &stored{batchCols: batchOf(c)}
		s.openOf(c)
		found[s.Seq] = s
	}, sqlOpenRows, jsonInts(seqs))
}

func jsonInts(n []int64) string {
	b, _ := json.Marshal(n) //nolint:errchkjson // integers always marshal
	return string(b)
}

type receiptCols struct {
	TransactionID string `db:"transaction_id"`
	Valid         bool   `db:"result_valid"`
	Message       string `db:"error_message"`
	Data          []byte `db:"error_data"`
}

func (t *session) loadReceipts(ctx context.Context, s *stored) error {
	if s.receipts == 0 {
		return nil
	}
	var rows []receiptCols
	if err := t.sel(ctx, &rows, sqlReceipts, s.Seq); err != nil {
		return err
	}
	for _, r := range rows {
		s.now.Receipts = append(s.now.Receipts, batch.Receipt(r))
	}
	return nil
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
		err = fmt.Errorf("batch %s: %d rows written, want 1", s.key(), n)
	}
	s.now = next
	return err
}

func (t *session) saveReceipts(ctx context.Context, s *stored, next store.Row) error {
	same := slices.EqualFunc(s.now.Receipts, next.Receipts, func(a, b batch.Receipt) bool {
		return a.TransactionID == b.TransactionID && a.Valid == b.Valid && a.Message == b.Message && string(a.Data) == string(b.Data)
	})
	if same {
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
	kind, message := errorArgs(r.Error)
	return append(make([]any, 0, 33),
		int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures), sqlstore.ToMicro(r.ClaimExpires),
		sqlstore.ToMicro(r.NotBefore), sqlstore.ToMicro(r.NextCheck), sqlstore.ToMicro(r.AskedAt), sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt),
		int64(r.DoubtAttempt), sqlstore.ToMicro(r.DoubtSince), sqlstore.ToMicro(r.ResendUntil), int64(r.Resends), r.Refused, r.Requeued,
		kind, message, r.Decision, int64(receipts), dueAt(r), r.ClaimedBy, r.AtEnd,
		r.ClaimTTL.Microseconds(), int64(r.Attempt), sqlstore.ToMicro(r.FirstClaimed), int64(r.Rollbacks), int64(r.SeenAttempt), r.SeenEndpoint)
}

func finalArgs(seq int64, r store.Row, receipts int) []any {
	kind, message := errorArgs(r.Error)
	return []any{seq, int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures), sqlstore.ToMicro(r.AskedAt),
		sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt), sqlstore.ToMicro(r.FinalAt), r.Requeued, kind, message, int64(receipts), r.OrdersSettled,
		r.Quarantined}
}

func errorArgs(e *batch.SubmissionError) (kind any, message string) {
	if e == nil {
		return nil, ""
	}
	return string(e.Kind), e.Message
}

// dueAt is NULL for a row that is not the monitor's, so that the index of due rows holds no
// others; and never before the end of a claim.
func dueAt(r store.Row) any {
	if at := sqlstore.DueAt(r); at != sqlstore.NeverDue {
		return at
	}
	return nil
}
