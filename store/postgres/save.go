package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// save writes all rows that differ from the database's, each by compare-and-set on the version
// that was read, to the tables they belong in. If another transaction was faster the error is
// errMoved.
func (t *session) save(ctx context.Context, all []*stored) error {
	var changed []*stored
	for _, s := range all {
		if s.now.Version != s.was.Version {
			changed = append(changed, s)
		}
	}
	slices.SortFunc(changed, func(a, b *stored) int { return cmp.Compare(a.seq, b.seq) })
	if err := t.saveReceipts(ctx, changed); err != nil {
		return err
	}
	var update, insert, remove [inOutcomes + 1][]*stored
	for _, s := range changed {
		from, to := placeOf(s.was), placeOf(s.now)
		if from == inAttempted && to == inAttempted {
			update[to] = append(update[to], s)
			continue
		}
		if to == inWaiting {
			if err := checkWaiting(s.now); err != nil {
				return fmt.Errorf("batch %s: %w", s.key(), err)
			}
		}
		remove[from] = append(remove[from], s)
		insert[to] = append(insert[to], s)
	}
	for _, step := range [...]struct {
		rows      []*stored
		statement string
		args      func([]*stored) []any
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
		n, err := t.exec(ctx, step.statement, step.args(step.rows)...)
		if err != nil {
			return err
		}
		if n != int64(len(step.rows)) {
			return fmt.Errorf("%w: %d rows written, want %d", errMoved, n, len(step.rows))
		}
	}
	return nil
}

// columns turns rows into arrays, a column each.
type columns []*stored

func (c columns) ints(at func(s *stored) int64) any {
	return intArray(len(c), func(i int) int64 { return at(c[i]) })
}

func (c columns) bools(at func(s *stored) bool) any {
	return boolArray(len(c), func(i int) bool { return at(c[i]) })
}

func (c columns) texts(at func(s *stored) string) any {
	return textArray(len(c), func(i int) string { return at(c[i]) })
}

func (c columns) kinds() any {
	return nullTextArray(len(c), func(i int) (string, bool) {
		if e := c[i].now.Error; e != nil {
			return string(e.Kind), true
		}
		return "", false
	})
}

func (c columns) messages() any {
	return c.texts(func(s *stored) string {
		if e := s.now.Error; e != nil {
			return e.Message
		}
		return ""
	})
}

func seqOf(s *stored) int64      { return s.seq }
func wasOf(s *stored) int64      { return s.was.Version }
func serviceOf(s *stored) string { return s.serviceID }
func createdOf(s *stored) int64  { return s.createdAt }
func receiptsOf(s *stored) int64 { return int64(s.inDatabase) }
func requeuedOf(s *stored) bool  { return s.now.Requeued }
func versionOf(s *stored) int64  { return s.now.Version }

func versionArgs(list []*stored) []any {
	c := columns(list)
	return []any{c.ints(seqOf), c.ints(wasOf)}
}

func placeArgs(list []*stored) []any {
	c := columns(list)
	return []any{c.ints(seqOf), c.ints(wasOf), c.texts(serviceOf), c.ints(createdOf)}
}

func waitingArgs(list []*stored) []any {
	c := columns(list)
	return []any{c.ints(seqOf), c.ints(versionOf), c.bools(requeuedOf), c.texts(serviceOf), c.ints(createdOf)}
}

// attemptedArgs are in the order of changedRows.
func attemptedArgs(list []*stored) []any {
	c := columns(list)
	return []any{
		c.ints(seqOf), c.ints(wasOf),
		c.ints(func(s *stored) int64 { return int64(s.now.State) }),
		c.ints(versionOf),
		c.ints(func(s *stored) int64 { return int64(s.now.Attempt) }),
		c.ints(func(s *stored) int64 { return int64(s.now.Spent) }),
		c.ints(func(s *stored) int64 { return int64(s.now.Failures) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.ClaimExpires) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.NotBefore) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.NextCheck) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.AskedAt) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.LastPost) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.SettlesAt) }),
		c.ints(func(s *stored) int64 { return int64(s.now.DoubtAttempt) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.DoubtSince) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.ResendUntil) }),
		c.ints(func(s *stored) int64 { return int64(s.now.Resends) }),
		c.bools(func(s *stored) bool { return s.now.Refused }),
		c.bools(requeuedOf), c.kinds(), c.messages(),
		c.texts(func(s *stored) string { return s.now.Decision }),
		c.ints(receiptsOf),
		c.ints(func(s *stored) int64 { return sqlstore.DueAt(s.now) }),
		c.texts(serviceOf), c.ints(createdOf),
		c.texts(func(s *stored) string { return s.now.ClaimedBy }),
		c.bools(func(s *stored) bool { return s.now.AtEnd }),
		c.ints(func(s *stored) int64 { return s.now.ClaimTTL.Microseconds() }),
		c.ints(func(s *stored) int64 { return int64(s.now.Attempt) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.FirstClaimed) }),
		c.ints(func(s *stored) int64 { return int64(s.now.Rollbacks) }),
		c.ints(func(s *stored) int64 { return int64(s.now.SeenAttempt) }),
		c.texts(func(s *stored) string { return s.now.SeenEndpoint }),
	}
}

func outcomeArgs(list []*stored) []any {
	c := columns(list)
	return []any{
		c.ints(seqOf),
		c.ints(func(s *stored) int64 { return int64(s.now.State) }),
		c.ints(versionOf),
		c.ints(func(s *stored) int64 { return int64(s.now.Attempt) }),
		c.ints(func(s *stored) int64 { return int64(s.now.Spent) }),
		c.ints(func(s *stored) int64 { return int64(s.now.Failures) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.AskedAt) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.LastPost) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.SettlesAt) }),
		c.ints(func(s *stored) int64 { return sqlstore.ToMicro(s.now.FinalAt) }),
		c.bools(requeuedOf), c.kinds(), c.messages(), c.ints(receiptsOf),
		c.bools(func(s *stored) bool { return s.now.OrdersSettled }),
		c.bools(func(s *stored) bool { return s.now.Quarantined }),
	}
}

// saveReceipts replaces the receipts that differ from the database's.
func (t *session) saveReceipts(ctx context.Context, changed []*stored) error {
	var remove, seqs []int64
	var list []batch.Receipt
	var positions []int64
	for _, s := range changed {
		same := slices.EqualFunc(s.was.Receipts, s.now.Receipts, func(a, b batch.Receipt) bool {
			return a.TransactionID == b.TransactionID && a.Valid == b.Valid && a.Message == b.Message && string(a.Data) == string(b.Data)
		})
		if same {
			continue
		}
		if s.inDatabase > 0 {
			remove = append(remove, s.seq)
		}
		for i, r := range s.now.Receipts {
			seqs, positions, list = append(seqs, s.seq), append(positions, int64(i)), append(list, r)
		}
		s.inDatabase = len(s.now.Receipts)
	}
	if len(remove) > 0 {
		if _, err := t.exec(ctx, sqlDeleteReceipts, ints(remove)); err != nil {
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
	_, err := t.exec(ctx, sqlInsertReceipts, ints(seqs), ints(positions),
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
