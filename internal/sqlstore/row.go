package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// BatchCols are those columns of a batch that never change, as far as the rules need them.
type BatchCols struct {
	Seq             int64  `db:"seq"`
	HeaderSignature string `db:"header_signature"`
	ServiceID       string `db:"service_id"`
	CreatedAt       int64  `db:"created_at"`
	DataChangeID    string `db:"data_change_id"`
	BudgetAttempts  int64  `db:"budget_attempts"`
	BudgetEveryTry  bool   `db:"budget_every_try"`
	TraceParent     string `db:"trace_parent"`
}

// Key names the batch.
func (c *BatchCols) Key() batch.Key {
	return batch.Key{Service: batch.ServiceID(c.ServiceID), ID: batch.ID(c.HeaderSignature)}
}

// Ref names the batch, with its number and its order key.
func (c *BatchCols) Ref() store.Ref {
	return store.Ref{Key: c.Key(), Row: c.Seq, TraceParent: c.TraceParent, Created: FromMicro(c.CreatedAt)}
}

// Budget returns the budget of the batch itself.
func (c *BatchCols) Budget() batch.Budget {
	return batch.Budget{Attempts: int(c.BudgetAttempts), EveryTry: c.BudgetEveryTry}
}

// Record returns the application's view of the batch with this row.
func (c *BatchCols) Record(row store.Row) batch.Record {
	r := row.Record(c.Key())
	r.Budget, r.DataChangeID, r.CreatedAt, r.TraceParent = c.Budget(), c.DataChangeID, FromMicro(c.CreatedAt), c.TraceParent
	return r
}

// RowCols is a store.Row as the tables have it. Columns that a statement does not read stay zero.
type RowCols struct {
	State        int64          `db:"state"`
	Version      int64          `db:"version"`
	Attempt      int64          `db:"attempt"`
	Spent        int64          `db:"spent"`
	Failures     int64          `db:"failures"`
	ClaimExpires int64          `db:"claim_expires"`
	NotBefore    int64          `db:"not_before"`
	NextCheck    int64          `db:"next_check"`
	AskedAt      int64          `db:"asked_at"`
	LastPost     int64          `db:"last_post"`
	SettlesAt    int64          `db:"settles_at"`
	FinalAt      int64          `db:"final_at"`
	DoubtAttempt int64          `db:"doubt_attempt"`
	DoubtSince   int64          `db:"doubt_since"`
	ResendUntil  int64          `db:"resend_until"`
	Resends      int64          `db:"resends"`
	Refused      bool           `db:"refused"`
	Requeued     bool           `db:"requeued"`
	Withdrawn    bool           `db:"withdrawn"`
	Settled      bool           `db:"orders_settled"`
	Kind         sql.NullString `db:"submission_error"`
	Message      string         `db:"submission_error_message"`
	Decision     string         `db:"decision"`
	Receipts     int64          `db:"receipts"` // the number of rows in transaction_receipts
	Prepared     []byte         `db:"prepared"`
	ClaimedBy    string         `db:"claimed_by"`
	Quarantined  bool           `db:"quarantined"`
	ClaimTTL     int64          `db:"claim_ttl"`
	MovedAt      int64          `db:"moved_at"`
	Rollbacks    int64          `db:"rollbacks"`
	SeenAttempt  int64          `db:"seen_attempt"`
	SeenEndpoint string         `db:"seen_endpoint"`
}

// Row returns the row in the columns, without its receipts.
func (c *RowCols) Row() store.Row {
	r := store.Row{
		State: batch.State(c.State), Version: c.Version, Attempt: int(c.Attempt), Spent: int(c.Spent), Failures: int(c.Failures),
		ClaimExpires: FromMicro(c.ClaimExpires), NotBefore: FromMicro(c.NotBefore),
		NextCheck: FromMicro(c.NextCheck), AskedAt: FromMicro(c.AskedAt), LastPost: FromMicro(c.LastPost),
		SettlesAt: FromMicro(c.SettlesAt), FinalAt: FromMicro(c.FinalAt), DoubtAttempt: int(c.DoubtAttempt),
		DoubtSince: FromMicro(c.DoubtSince), ResendUntil: FromMicro(c.ResendUntil), Resends: int(c.Resends),
		Refused: c.Refused, Requeued: c.Requeued, Withdrawn: c.Withdrawn, OrdersSettled: c.Settled, Decision: c.Decision,
		ClaimedBy: c.ClaimedBy, Quarantined: c.Quarantined,
		ClaimTTL: time.Duration(c.ClaimTTL) * time.Microsecond, MovedAt: FromMicro(c.MovedAt),
		Rollbacks: int(c.Rollbacks), SeenAttempt: int(c.SeenAttempt), SeenEndpoint: c.SeenEndpoint,
	}
	if c.Kind.Valid {
		r.Error = &batch.SubmissionError{Kind: batch.ErrorKind(c.Kind.String), Message: c.Message}
	}
	if len(c.Prepared) > 0 {
		r.Prepared = c.Prepared
	}
	return r
}

// ErrorCols returns the columns of an error. kind is nil if there is no error.
func ErrorCols(e *batch.SubmissionError) (kind any, message string) {
	if e == nil {
		return nil, ""
	}
	return string(e.Kind), e.Message
}

// Stored is a batch during a call. Was is its row in the database, and Now the row that the call
// is to write.
type Stored struct {
	BatchCols
	Was, Now store.Row
	Had      int64 // the number of receipts in the database
}

// Record returns the application's view.
func (s *Stored) Record() batch.Record { return s.BatchCols.Record(s.Now) }

// SameReceipts reports whether two rows have the same receipts.
func SameReceipts(a, b []batch.Receipt) bool {
	return slices.EqualFunc(a, b, func(a, b batch.Receipt) bool {
		return a.TransactionID == b.TransactionID && a.Valid == b.Valid && a.Message == b.Message && string(a.Data) == string(b.Data)
	})
}

type receiptCols struct {
	Seq     int64  `db:"batch_seq"`
	ID      string `db:"transaction_id"`
	Valid   bool   `db:"result_valid"`
	Message string `db:"error_message"`
	Data    []byte `db:"error_data"`
}

// Receipts returns the receipts of the batches of these numbers.
func Receipts(ctx context.Context, t Tx, seqs []int64) (map[int64][]batch.Receipt, error) {
	if len(seqs) == 0 {
		return nil, nil //nolint:nilnil // no receipts are asked for
	}
	rows, err := Query[receiptCols](ctx, t, sqlReceipts, t.Ints(seqs))
	if err != nil {
		return nil, err
	}
	found := make(map[int64][]batch.Receipt, len(seqs))
	for _, c := range rows {
		if len(c.Data) == 0 {
			c.Data = nil
		}
		found[c.Seq] = append(found[c.Seq], batch.Receipt{TransactionID: c.ID, Valid: c.Valid, Message: c.Message, Data: c.Data})
	}
	return found, nil
}

// LoadReceipts reads the receipts of those rows that have receipts.
func LoadReceipts(ctx context.Context, t Tx, found map[int64]*Stored) error {
	var seqs []int64
	for seq, s := range found {
		if s.Had > 0 {
			seqs = append(seqs, seq)
		}
	}
	receipts, err := Receipts(ctx, t, seqs)
	for seq, list := range receipts {
		found[seq].Was.Receipts, found[seq].Now.Receipts = list, list
	}
	return err
}

// foundCols are a batch and its row, as one statement reads them.
type foundCols struct {
	BatchCols
	RowCols
	Tags      string `db:"tags"`
	Footprint []byte `db:"footprint"`
	Clock     int64  `db:"now"`
}

// readRecords returns the records that a statement finds.
func readRecords(ctx context.Context, t Tx, statement string, args ...any) ([]batch.Record, error) {
	rows, err := Query[foundCols](ctx, t, statement, args...)
	if err != nil {
		return nil, err
	}
	return withReceipts(ctx, t, rows)
}

// withReceipts returns the records of rows, with their receipts.
func withReceipts(ctx context.Context, t Tx, rows []foundCols) ([]batch.Record, error) {
	var seqs []int64
	for i := range rows {
		if rows[i].Receipts > 0 {
			seqs = append(seqs, rows[i].Seq)
		}
	}
	receipts, err := Receipts(ctx, t, seqs)
	if err != nil {
		return nil, err
	}
	found := make([]batch.Record, len(rows))
	for i := range rows {
		row := rows[i].Row()
		row.Receipts = receipts[rows[i].Seq]
		found[i] = rows[i].Record(row)
		found[i].Tags = decodeTags(rows[i].Tags)
	}
	return found, nil
}
