package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

type payloadCols struct {
	sqlstore.BatchCols
	payload []byte
}

// Payloads is [store.Store].Payloads.
func (s *Store) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	if len(refs) == 0 {
		return [][]byte{}, nil
	}
	var payloads [][]byte
	err := s.txAs(ctx, "load payloads", beginKept, func(ctx context.Context, t *session) error {
		payloads = make([][]byte, len(refs))
		seqs, err := sqlstore.Seqs(ctx, t, len(refs), func(i int) store.Ref { return refs[i] })
		if err != nil {
			return err
		}
		rows, err := sqlstore.Query(ctx, t, func(p *payloadCols) []any {
			return append(p.KeyDest(), &p.payload)
		}, sqlPayloads, ints(seqs))
		if err != nil {
			return err
		}
		bySeq := make(map[int64]*payloadCols, len(rows))
		for i := range rows {
			bySeq[rows[i].Seq] = &rows[i]
		}
		used := make(map[int64]bool, len(rows))
		for i, seq := range seqs {
			p := bySeq[seq]
			if p == nil || p.Key() != refs[i].Key {
				continue
			}
			payloads[i] = p.payload
			if used[seq] { // a repeated ref gets bytes of its own
				payloads[i] = append([]byte(nil), p.payload...)
			}
			used[seq] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return payloads, nil
}
