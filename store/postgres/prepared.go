package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
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
	err = s.tx(ctx, op, func(ctx context.Context, t *session) (err error) {
		did, err = t.keepPrepared(ctx, kept)
		return err
	})
	if err != nil {
		return nil, err
	}
	return did, nil
}

func (t *session) keepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	seqs, err := sqlstore.Seqs(ctx, t, len(kept), func(i int) store.Ref { return kept[i].Ref })
	if err != nil {
		return nil, err
	}
	// The lock is a write, so that bytes kept earlier are as durable as bytes kept now.
	rows, err := sqlstore.Query(ctx, t, lockedDest, sqlAttemptedRows, ints(sqlstore.Known(seqs)))
	if err != nil {
		return nil, err
	}
	bySeq := make(map[int64]*stored, len(rows))
	for i := range rows {
		rows[i].unpack()
		bySeq[rows[i].Seq] = &rows[i]
	}
	did := make([]bool, len(kept))
	var set []*sqlstore.Stored
	for i, p := range kept {
		r := bySeq[seqs[i]]
		if r == nil || r.Key() != p.Key {
			continue
		}
		had := r.Now.Prepared != nil
		if r.Now, did[i] = r.Now.KeepPrepared(p.Version, p.Bytes); did[i] && !had {
			set = append(set, &r.Stored)
		}
	}
	if len(set) == 0 {
		return did, nil
	}
	var all []byte
	at, size := make([]int64, len(set)), make([]int64, len(set))
	for i, r := range set {
		at[i], size[i] = int64(len(all)+1), int64(len(r.Now.Prepared))
		all = append(all, r.Now.Prepared...)
	}
	c := columns(set)
	n, err := t.Exec(ctx, sqlKeepPrepared, c.ints(seqOf), c.ints(wasOf), all, ints(at), ints(size))
	if err == nil && n != int64(len(set)) {
		err = sqlstore.ErrMoved
	}
	if err != nil {
		return nil, err
	}
	return did, nil
}
