package sqlstore

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Witnesses is [store.Store].Witnesses.
func (s *Store) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	return readResult(ctx, s.driver.Read, "find witnesses", func(ctx context.Context, t Tx) ([]batch.ID, error) {
		seqs, err := Seqs(ctx, t, 1, func(int) store.Ref { return ref })
		if err != nil || seqs[0] == 0 {
			return nil, err
		}
		return Query[batch.ID](ctx, t, s.driver.Witnesses, seqs[0], string(ref.Key.ID), string(ref.Key.Service),
			t.Ints([]int64{int64(batch.Committed), int64(batch.Invalid)}), int64(store.WitnessReach), int64(max(limit, 0)))
	})
}
