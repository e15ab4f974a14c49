package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// KeepPrepared is [store.Store].KeepPrepared. Each call is one transaction.
func (s *Store) KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	const op = "keep prepared bytes"
	if err := store.ValidatePrepared(kept); err != nil {
		return nil, s.driver.Wrap(op, err)
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return readResult(ctx, s.driver.Write, op, func(ctx context.Context, t Tx) ([]bool, error) {
		did := make([]bool, len(kept))
		rows, _, err := lockAttempted(ctx, t, len(kept), func(i int) store.Ref { return kept[i].Ref })
		if err != nil {
			return nil, err
		}
		var set []*Stored
		for i, p := range kept {
			r := rows[i]
			if r == nil {
				continue
			}
			had := len(r.Now.Prepared)
			if r.Now, did[i] = r.Now.KeepPrepared(p); len(r.Now.Prepared) != had && !slices.Contains(set, r) {
				set = append(set, r)
			}
		}
		if len(set) == 0 {
			return did, nil
		}
		return did, t.SetPrepared(ctx, set)
	})
}

// Checked is [store.Store].Checked. It does not change a row that the monitor no longer owns.
func (s *Store) Checked(ctx context.Context, due []store.Due) error {
	if len(due) == 0 {
		return nil
	}
	return s.driver.Write(ctx, "set next checks", func(ctx context.Context, t Tx) error {
		rows, now, err := lockAttempted(ctx, t, len(due), func(i int) store.Ref { return due[i].Ref })
		if err != nil {
			return err
		}
		var set [][]any
		for i, d := range due {
			r := rows[i]
			if r == nil || !r.Now.Monitored(now) {
				continue
			}
			r.Now.NextCheck = now.Add(d.In)
			set = append(set, []any{r.Seq, r.Was.Version, ToMicro(r.Now.NextCheck), DueAt(r.Now)})
		}
		if len(set) == 0 {
			return nil
		}
		_, err = t.ExecAll(ctx, s.driver.SetChecks, set)
		return err
	})
}

// lockAttempted locks and reads the attempted rows of n batches, in the order of the batches. The
// element of a batch without an attempted row is nil.
func lockAttempted(ctx context.Context, t Tx, n int, ref func(i int) store.Ref) ([]*Stored, time.Time, error) {
	seqs, err := Seqs(ctx, t, n, ref)
	if err != nil {
		return nil, time.Time{}, err
	}
	found, now, err := t.Attempted(ctx, Known(seqs))
	if err != nil {
		return nil, time.Time{}, err
	}
	rows := make([]*Stored, n)
	for i := range n {
		if r := found[seqs[i]]; r != nil && r.Key() == ref(i).Key {
			rows[i] = r
		}
	}
	return rows, FromMicro(now), nil
}
