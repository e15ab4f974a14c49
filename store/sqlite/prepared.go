package sqlite

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/store"
)

// KeepPrepared is [store.Engine].KeepPrepared. Each call is one transaction.
func (s *Store) KeepPrepared(ctx context.Context, kept []store.Prepared) (did []bool, err error) {
	const op = "keep what was prepared"
	if err := store.ValidatePrepared(kept); err != nil {
		return nil, wrap(op, err)
	}
	if len(kept) == 0 {
		return nil, nil
	}
	err = s.write(ctx, op, func(ctx context.Context, t *session) (err error) {
		did, err = t.keepPrepared(ctx, kept)
		return err
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

func (t *session) keepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	did := make([]bool, len(kept))
	seqs := make([]int64, len(kept))
	for i, p := range kept {
		if seqs[i] = p.Row; p.Row != 0 {
			continue
		}
		if err := t.get(ctx, &seqs[i], sqlSeqByID, idHash(p.Key.ID), string(p.Key.ID)); err != nil && !noRows(err) {
			return nil, err
		}
	}
	open, err := t.loadOpen(ctx, seqs)
	if err != nil {
		return nil, err
	}
	for i, p := range kept {
		r := open[seqs[i]]
		if r == nil || r.Key() != p.Key {
			continue
		}
		had := r.Now.Prepared != nil
		if r.Now, did[i] = r.Now.KeepPrepared(p.Version, p.Bytes); !did[i] || had {
			continue
		}
		n, err := t.exec(ctx, sqlKeepPrepared, r.Now.Prepared, r.Seq, r.Now.Version)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows written, want 1", n)
		}
		if err != nil {
			return nil, fmt.Errorf("batch %s: %w", p.Key, err)
		}
	}
	return did, nil
}
