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
	var update, insert, remove [inOutcomes + 1][]*sqlstore.Stored
	for _, s := range changed {
		from, to := placeOf(s.Was), placeOf(s.Now)
		if from == inAttempted && to == inAttempted {
			update[to] = append(update[to], s)
			continue
		}
		if to == inWaiting {
			if err := checkWaiting(s.Now); err != nil {
				return fmt.Errorf("batch %s: %w", s.Key(), err)
			}
		}
		remove[from] = append(remove[from], s)
		insert[to] = append(insert[to], s)
	}
	for _, step := range [...]struct {
		rows      []*sqlstore.Stored
		statement string
		args      func([]*sqlstore.Stored) []any
	}{
		{update[inAttempted], sqlUpdateAttempted, attemptedArgs},
		{remove[inWaiting], sqlDeleteWaiting, placeArgs},
		{remove[inAttempted], sqlDeleteAttempted, versionArgs},
		{remove[inOutcomes], sqlDeleteOutcomes, versionArgs},
		{insert[inAttempted], sqlInsertAttempted, attemptedArgs},
		{insert[inWaiting], sqlInsertWaiting, waitingArgs},
		{insert[inOutcomes], sqlInsertOutcomes, outcomeArgs},
	} {
		if len(step.rows) == 0 {
			continue
		}
		n, err := t.Exec(ctx, step.statement, step.args(step.rows)...)
		if err != nil {
			return err
		}
		if n != int64(len(step.rows)) {
			return fmt.Errorf("%w: %d rows written, want %d", sqlstore.ErrMoved, n, len(step.rows))
		}
	}
	return nil
}

// columns turns rows into arrays, a column each.
type columns []*sqlstore.Stored

func (c columns) ints(at func(s *sqlstore.Stored) int64) any {
	return intArray(len(c), func(i int) int64 { return at(c[i]) })
}

func (c columns) bools(at func(s *sqlstore.Stored) bool) any {
	return boolArray(len(c), func(i int) bool { return at(c[i]) })
}

func (c columns) texts(at func(s *sqlstore.Stored) string) any {
	return textArray(len(c), func(i int) string { return at(c[i]) })
}

func (c columns) kinds() any {
	return nullTextArray(len(c), func(i int) (string, bool) {
		if e := c[i].Now.Error; e != nil {
			return string(e.Kind), true
		}
		return "", false
	})
}

func (c columns) messages() any {
	return c.texts(func(s *sqlstore.Stored) string {
		if e := s.Now.Error; e != nil {
			return e.Message
		}
		return ""
	})
}

func seqOf(s *sqlstore.Stored) int64      { return s.Seq }
func wasOf(s *sqlstore.Stored) int64      { return s.Was.Version }
func serviceOf(s *sqlstore.Stored) string { return s.ServiceID }
func createdOf(s *sqlstore.Stored) int64  { return s.CreatedAt }
func receiptsOf(s *sqlstore.Stored) int64 { return s.Had }
func requeuedOf(s *sqlstore.Stored) bool  { return s.Now.Requeued }
func versionOf(s *sqlstore.Stored) int64  { return s.Now.Version }

func versionArgs(list []*sqlstore.Stored) []any {
	c := columns(list)
	return []any{c.ints(seqOf), c.ints(wasOf)}
}

func placeArgs(list []*sqlstore.Stored) []any {
	c := columns(list)
	return []any{c.ints(seqOf), c.ints(wasOf), c.texts(serviceOf), c.ints(createdOf)}
}

func waitingArgs(list []*sqlstore.Stored) []any {
	c := columns(list)
	return []any{c.ints(seqOf), c.ints(versionOf), c.bools(requeuedOf), c.texts(serviceOf), c.ints(createdOf)}
}

// attemptedArgs are in the order of changedRows.
func attemptedArgs(list []*sqlstore.Stored) []any {
	c := columns(list)
	return []any{
		c.ints(seqOf), c.ints(wasOf),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.State) }),
		c.ints(versionOf),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Attempt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Spent) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Failures) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.ClaimExpires) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.NotBefore) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.NextCheck) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.AskedAt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.LastPost) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.SettlesAt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.DoubtAttempt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.DoubtSince) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.ResendUntil) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Resends) }),
		c.bools(func(s *sqlstore.Stored) bool { return s.Now.Refused }),
		c.bools(requeuedOf), c.kinds(), c.messages(),
		c.texts(func(s *sqlstore.Stored) string { return s.Now.Decision }),
		c.ints(receiptsOf),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.DueAt(s.Now) }),
		c.texts(serviceOf), c.ints(createdOf),
		c.texts(func(s *sqlstore.Stored) string { return s.Now.ClaimedBy }),
		c.bools(func(s *sqlstore.Stored) bool { return s.Now.AtEnd }),
		c.ints(func(s *sqlstore.Stored) int64 { return s.Now.ClaimTTL.Microseconds() }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Attempt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.FirstClaimed) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Rollbacks) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.SeenAttempt) }),
		c.texts(func(s *sqlstore.Stored) string { return s.Now.SeenEndpoint }),
	}
}

func outcomeArgs(list []*sqlstore.Stored) []any {
	c := columns(list)
	return []any{
		c.ints(seqOf),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.State) }),
		c.ints(versionOf),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Attempt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Spent) }),
		c.ints(func(s *sqlstore.Stored) int64 { return int64(s.Now.Failures) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.AskedAt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.LastPost) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.SettlesAt) }),
		c.ints(func(s *sqlstore.Stored) int64 { return sqlstore.ToMicro(s.Now.FinalAt) }),
		c.bools(requeuedOf), c.kinds(), c.messages(), c.ints(receiptsOf),
		c.bools(func(s *sqlstore.Stored) bool { return s.Now.OrdersSettled }),
		c.bools(func(s *sqlstore.Stored) bool { return s.Now.Quarantined }),
	}
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
