package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Save writes all rows that differ from the database's, each by compare-and-set on the version
// that was read, to the tables they belong in. If another transaction was faster the error is
// sqlstore.ErrMoved.
func (t *session) Save(ctx context.Context, all []*sqlstore.Stored) error {
	var changed []*sqlstore.Stored
	for _, s := range all {
		if s.Now.Version != s.Was.Version {
			changed = append(changed, s)
		}
	}
	slices.SortFunc(changed, func(a, b *sqlstore.Stored) int { return cmp.Compare(a.Seq, b.Seq) })
	if err := t.saveReceipts(ctx, changed); err != nil {
		return err
	}
	if void := sqlstore.Voided(changed); len(void) > 0 {
		if err := t.SetPrepared(ctx, void); err != nil {
			return err
		}
	}
	steps := [...]struct {
		statement string
		rows      [][]any
	}{
		{statement: sqlUpdateAttempted}, {statement: sqlDeleteWaiting}, {statement: sqlDeleteAttempted}, {statement: sqlDeleteOutcomes},
		{statement: sqlInsertWaiting}, {statement: sqlInsertAttempted}, {statement: sqlInsertOutcomes},
	}
	const update, remove, insert = 0, 0, 3 // and the place of a row
	for _, s := range changed {
		from, to := placeOf(s.Was), placeOf(s.Now)
		add := func(step place, row ...any) { steps[step].rows = append(steps[step].rows, row) }
		open := func() []any {
			return slices.Concat([]any{s.Seq, s.Was.Version}, sqlstore.OpenCols(&s.Now, s.Had, sqlstore.DueAt(s.Now)), []any{s.ServiceID, s.CreatedAt})
		}
		switch {
		case from == inAttempted && to == inAttempted:
			add(update, open()...)
			continue
		case from == inWaiting:
			add(remove+from, s.Seq, s.Was.Version, s.ServiceID, s.CreatedAt)
		default:
			add(remove+from, s.Seq, s.Was.Version)
		}
		switch to {
		case inWaiting: // it was never attempted, and these are all that such a row has
			add(insert+to, s.Seq, s.Now.Version, s.Now.Requeued, s.ServiceID, s.CreatedAt)
		case inAttempted:
			add(insert+to, open()...)
		default:
			add(insert+to, sqlstore.FinalCols(s.Seq, &s.Now, s.Had)...)
		}
	}
	for _, step := range steps {
		n, err := t.ExecAll(ctx, step.statement, step.rows)
		if err != nil {
			return err
		}
		if n != int64(len(step.rows)) {
			return fmt.Errorf("%w: %d rows written, want %d", sqlstore.ErrMoved, n, len(step.rows))
		}
	}
	return nil
}

// saveReceipts replaces the receipts that differ from the database's.
func (t *session) saveReceipts(ctx context.Context, changed []*sqlstore.Stored) error {
	var remove, seqs []int64
	var list []batch.Receipt
	var positions []int64
	for _, s := range changed {
		if sqlstore.SameReceipts(s.Was.Receipts, s.Now.Receipts) {
			continue
		}
		if s.Had > 0 {
			remove = append(remove, s.Seq)
		}
		for i, r := range s.Now.Receipts {
			seqs, positions, list = append(seqs, s.Seq), append(positions, int64(i)), append(list, r)
		}
		s.Had = int64(len(s.Now.Receipts))
	}
	if len(remove) > 0 {
		if _, err := t.Exec(ctx, sqlDeleteReceipts, ints(remove)); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	var data []byte
	at, size := make([]int64, len(list)), make([]int64, len(list))
	for i, r := range list {
		at[i], size[i] = int64(len(data)+1), int64(len(r.Data))
		data = append(data, r.Data...)
	}
	_, err := t.Exec(ctx, sqlInsertReceipts, ints(seqs), ints(positions),
		textArray(len(list), func(i int) string { return list[i].TransactionID }),
		boolArray(len(list), func(i int) bool { return list[i].Valid }),
		textArray(len(list), func(i int) string { return list[i].Message }),
		ints(at), notNil(data), ints(size))
	return err
}

// notNil returns empty bytes for nil, which would be sent as NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
