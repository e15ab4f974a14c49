package sqlstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// BatchCols are the columns of a batch that never change, as the rules need them.
type BatchCols struct {
	Seq             int64
	HeaderSignature string
	ServiceID       string
	CreatedAt       int64
	DataChangeID    string
	BudgetAttempts  int64
	BudgetEveryTry  bool
	TraceParent     string
}

// Dest takes the columns of ColsBatch.
func (c *BatchCols) Dest() []any {
	return []any{&c.Seq, &c.HeaderSignature, &c.ServiceID, &c.CreatedAt, &c.DataChangeID, &c.BudgetAttempts, &c.BudgetEveryTry, &c.TraceParent}
}

// KeyDest takes the number, the id and the service.
func (c *BatchCols) KeyDest() []any { return []any{&c.Seq, &c.HeaderSignature, &c.ServiceID} }

// Key names the batch.
func (c *BatchCols) Key() batch.Key {
	return batch.Key{Service: batch.ServiceID(c.ServiceID), ID: batch.ID(c.HeaderSignature)}
}

// Ref names the batch, with its number and its order key.
func (c *BatchCols) Ref() store.Ref {
	return store.Ref{Key: c.Key(), Row: c.Seq, TraceParent: c.TraceParent, Created: FromMicro(c.CreatedAt)}
}

// Budget is the batch's own.
func (c *BatchCols) Budget() batch.Budget {
	return batch.Budget{Attempts: int(c.BudgetAttempts), EveryTry: c.BudgetEveryTry}
}

// Record is the application's view of the batch with this row.
func (c *BatchCols) Record(row store.Row) batch.Record {
	r := row.Record(c.Key())
	r.Budget, r.DataChangeID, r.CreatedAt, r.TraceParent = c.Budget(), c.DataChangeID, FromMicro(c.CreatedAt), c.TraceParent
	return r
}

// RowCols is a store.Row as the tables have it: columns that a statement does not read stay
// zero.
type RowCols struct {
	State, Version, Attempt, Spent, Failures                                  int64
	ClaimExpires, NotBefore, NextCheck, AskedAt, LastPost, SettlesAt, FinalAt int64
	DoubtAttempt, DoubtSince, ResendUntil, Resends                            int64
	Refused, Requeued, Settled                                                bool
	Kind                                                                      sql.NullString
	Message, Decision                                                         string
	Receipts                                                                  int64 // how many transaction_receipts there are
	Prepared                                                                  []byte
	ClaimedBy                                                                 string
	Quarantined                                                               bool
	ClaimTTL, MovedAt, Rollbacks, SeenAttempt                                 int64
	SeenEndpoint                                                              string
}

// Dest takes the columns of an open row, in the order of both drivers.
func (c *RowCols) Dest() []any {
	return []any{
		&c.State, &c.Version, &c.Attempt, &c.Spent, &c.Failures, &c.ClaimExpires, &c.NotBefore, &c.NextCheck, &c.AskedAt,
		&c.LastPost, &c.SettlesAt, &c.DoubtAttempt, &c.DoubtSince, &c.ResendUntil, &c.Resends, &c.Refused, &c.Requeued,
		&c.Kind, &c.Message, &c.Decision, &c.Receipts, &c.Prepared, &c.ClaimedBy,
		&c.ClaimTTL, &c.MovedAt, &c.Rollbacks, &c.SeenAttempt, &c.SeenEndpoint,
	}
}

// OutcomeDest takes the columns of ColsOutcome.
func (c *RowCols) OutcomeDest() []any {
	return []any{
		&c.State, &c.Version, &c.Attempt, &c.Spent, &c.Failures, &c.AskedAt, &c.LastPost, &c.SettlesAt, &c.FinalAt,
		&c.Requeued, &c.Kind, &c.Message, &c.Receipts, &c.Settled, &c.Quarantined,
	}
}

// Row is the row in the columns, without its receipts.
func (c *RowCols) Row() store.Row {
	r := store.Row{
		State: batch.State(c.State), Version: c.Version, Attempt: int(c.Attempt), Spent: int(c.Spent), Failures: int(c.Failures),
		ClaimExpires: FromMicro(c.ClaimExpires), NotBefore: FromMicro(c.NotBefore),
		NextCheck: FromMicro(c.NextCheck), AskedAt: FromMicro(c.AskedAt), LastPost: FromMicro(c.LastPost),
		SettlesAt: FromMicro(c.SettlesAt), FinalAt: FromMicro(c.FinalAt), DoubtAttempt: int(c.DoubtAttempt),
		DoubtSince: FromMicro(c.DoubtSince), ResendUntil: FromMicro(c.ResendUntil), Resends: int(c.Resends),
		Refused: c.Refused, Requeued: c.Requeued, OrdersSettled: c.Settled, Decision: c.Decision,
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

// ErrorCols are the columns of an error; the first is nil for no error.
func ErrorCols(e *batch.SubmissionError) (kind any, message string) {
	if e == nil {
		return nil, ""
	}
	return string(e.Kind), e.Message
}

// Stored is a batch as a call has it: with its row in the database, and with the row that is to
// be there.
type Stored struct {
	BatchCols
	Was, Now store.Row
	Had      int64 // how many receipts are in the database
}

// Record is the application's view.
func (s *Stored) Record() batch.Record { return s.BatchCols.Record(s.Now) }

// SameReceipts reports whether two rows have the same receipts.
func SameReceipts(a, b []batch.Receipt) bool {
	return slices.EqualFunc(a, b, func(a, b batch.Receipt) bool {
		return a.TransactionID == b.TransactionID && a.Valid == b.Valid && a.Message == b.Message && string(a.Data) == string(b.Data)
	})
}

type receiptCols struct {
	seq int64
	batch.Receipt
}

func (c *receiptCols) dest() []any {
	return []any{&c.seq, &c.TransactionID, &c.Valid, &c.Message, &c.Data}
}

// Receipts are the receipts of the batches of these numbers.
func Receipts(ctx context.Context, t Tx, seqs []int64) (map[int64][]batch.Receipt, error) {
	if len(seqs) == 0 {
		return nil, nil //nolint:nilnil // none is asked for
	}
	rows, err := Query(ctx, t, (*receiptCols).dest, sqlReceipts, t.Ints(seqs))
	if err != nil {
		return nil, err
	}
	found := make(map[int64][]batch.Receipt, len(seqs))
	for _, c := range rows {
		if len(c.Data) == 0 {
			c.Data = nil
		}
		found[c.seq] = append(found[c.seq], c.Receipt)
	}
	return found, nil
}

// LoadReceipts reads the receipts of rows that have some.
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

// foundCols are a batch and its row as one statement reads them.
type foundCols struct {
	BatchCols
	RowCols
	footprint []byte
	clock     int64
}

func (c *foundCols) recordDest() []any {
	return append(append(c.BatchCols.Dest(), c.RowCols.Dest()...), &c.FinalAt, &c.Quarantined)
}

func (c *foundCols) lookDest() []any {
	return append(c.recordDest(), &c.Settled, &c.footprint, &c.clock)
}

func (c *foundCols) outcomeDest() []any { return append(c.BatchCols.Dest(), c.OutcomeDest()...) }

// records returns the records that a statement finds.
func records(ctx context.Context, t Tx, dest func(*foundCols) []any, statement string, args ...any) ([]batch.Record, error) {
	rows, err := Query(ctx, t, dest, statement, args...)
	if err != nil {
		return nil, err
	}
	return withReceipts(ctx, t, rows)
}

// withReceipts returns the records of rows.
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
	}
	return found, nil
}
