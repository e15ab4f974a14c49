package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// Save writes all rows in which Now differs from Was to their tables, each by compare-and-set on
// the version that was read. If another transaction has changed a row since, the error is
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
		rows      rowArrays
	}{
		{statement: sqlUpdateAttempted}, {statement: sqlDeleteWaiting}, {statement: sqlDeleteAttempted}, {statement: sqlDeleteOutcomes},
		{statement: sqlInsertWaiting}, {statement: sqlInsertAttempted}, {statement: sqlInsertOutcomes},
	}
	const update, remove, insert = 0, 0, 3 // an element of steps is one of these plus the row's place
	for _, s := range changed {
		from, to := tableOf(s.Was), tableOf(s.Now)
		if from == attemptedTable && to == attemptedTable {
			steps[update].rows.addRow(len(changed)).addAttempted(s)
			continue
		}
		gone := steps[remove+from].rows.addRow(len(changed))
		if gone.addInts(s.Seq, s.Was.Version); from == waitingTable {
			gone.addTexts(s.ServiceID).addInts(s.CreatedAt)
		}
		switch made := steps[insert+to].rows.addRow(len(changed)); to {
		case waitingTable: // such a row was never attempted, and has only these columns
			made.addInts(s.Seq, s.Now.Version).addBools(s.Now.Requeued).addTexts(s.ServiceID).addInts(s.CreatedAt)
		case attemptedTable:
			made.addAttempted(s)
		default:
			made.addFinal(s)
		}
	}
	for _, step := range steps {
		if step.rows.n == 0 {
			continue
		}
		n, err := t.Exec(ctx, step.statement, step.rows.args()...)
		if err != nil {
			return err
		}
		if n != step.rows.n {
			return fmt.Errorf("%w: %d rows written, want %d", sqlstore.ErrMoved, n, step.rows.n)
		}
	}
	for _, s := range changed {
		t.noteWrite(s.Key(), s.Seq, s.Now.Version)
	}
	return nil
}

// addAttempted adds a row with the columns of changedRows.
func (a *rowArrays) addAttempted(s *sqlstore.Stored) {
	r := &s.Now
	a.addInts(s.Seq, s.Was.Version, int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures),
		sqlstore.ToMicro(r.ClaimExpires), sqlstore.ToMicro(r.NotBefore), sqlstore.ToMicro(r.NextCheck), sqlstore.ToMicro(r.AskedAt),
		sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt), int64(r.DoubtAttempt), sqlstore.ToMicro(r.DoubtSince),
		sqlstore.ToMicro(r.ResendUntil), int64(r.Resends)).addBools(r.Refused, r.Requeued)
	a.addError(r.Error).addTexts(r.Decision).addInts(s.Had, sqlstore.DueAt(s.Now)).addTexts(r.ClaimedBy)
	a.addInts(r.ClaimTTL.Microseconds(), sqlstore.ToMicro(r.MovedAt), int64(r.Rollbacks), int64(r.SeenAttempt))
	a.addTexts(r.SeenEndpoint, s.ServiceID).addInts(s.CreatedAt).addBools(r.Withdrawn)
}

// addFinal adds a row with the columns of sqlInsertOutcomes.
func (a *rowArrays) addFinal(s *sqlstore.Stored) {
	r := &s.Now
	a.addInts(s.Seq, int64(r.State), r.Version, int64(r.Attempt), int64(r.Spent), int64(r.Failures), sqlstore.ToMicro(r.AskedAt),
		sqlstore.ToMicro(r.LastPost), sqlstore.ToMicro(r.SettlesAt), sqlstore.ToMicro(r.FinalAt)).addBools(r.Requeued)
	a.addError(r.Error).addInts(s.Had).addBools(r.OrdersSettled, r.Quarantined)
}

// addError adds the two columns of an error.
func (a *rowArrays) addError(e *batch.SubmissionError) *rowArrays {
	if e == nil {
		return a.addNull().addTexts("")
	}
	return a.addTexts(string(e.Kind), e.Message)
}

// saveReceipts replaces the receipts of rows whose receipts have changed.
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
