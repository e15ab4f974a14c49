package postgres

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Witnesses is [store.WitnessReader].Witnesses.
func (s *Store) Witnesses(ctx context.Context, ref store.Ref, limit int) (found []batch.ID, err error) {
	decided := ints([]int64{int64(batch.Committed), int64(batch.Invalid)})
	err = s.tx(ctx, "find witnesses", func(ctx context.Context, t *session) error {
		seqs, err := sqlstore.Seqs(ctx, t, 1, func(int) store.Ref { return ref })
		if err != nil || seqs[0] == 0 {
			return err
		}
		found, err = sqlstore.Query(ctx, t, sqlstore.Value[batch.ID], sqlWitnesses, seqs[0], string(ref.Key.ID), string(ref.Key.Service),
			decided, int64(store.WitnessReach), int64(max(limit, 0)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
