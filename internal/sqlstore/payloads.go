package sqlstore

import (
	"bytes"
	"context"

	"github.com/dltbatch/dltbatch/store"
)

type payloadCols struct {
	BatchCols
	Payload []byte `db:"serialized_batch"`
}

// Payloads is [store.Store].Payloads. The key must match as well as the number, since a number may
// have been used again.
func (s *Store) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	if len(refs) == 0 {
		return [][]byte{}, nil
	}
	return readResult(ctx, s.driver.Delivering, "load payloads", func(ctx context.Context, t Tx) ([][]byte, error) {
		seqs, err := Seqs(ctx, t, len(refs), func(i int) store.Ref { return refs[i] })
		if err != nil {
			return nil, err
		}
		bySeq := make(map[int64]payloadCols, len(seqs))
		err = Each(ctx, t, func(p *payloadCols) error {
			bySeq[p.Seq] = *p
			return nil
		}, s.driver.Payloads, t.Ints(seqs))
		if err != nil {
			return nil, err
		}
		payloads, used := make([][]byte, len(refs)), make(map[int64]bool, len(seqs))
		for i, seq := range seqs {
			p, ok := bySeq[seq]
			if !ok || p.Key() != refs[i].Key {
				continue
			}
			if payloads[i] = p.Payload; used[seq] { // a repeated ref gets a copy of its own
				payloads[i] = bytes.Clone(p.Payload)
			}
			used[seq] = true
		}
		return payloads, nil
	})
}
