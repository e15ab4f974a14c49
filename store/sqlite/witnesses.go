package sqlite

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Witnesses is [store.WitnessReader].Witnesses.
func (s *Store) Witnesses(ctx context.Context, ref store.Ref, limit int) (found []batch.ID, err error) {
	err = s.read(ctx, "find witnesses", func(ctx context.Context, t *session) error {
		seqs, err := sqlstore.Seqs(ctx, t, 1, func(int) store.Ref { return ref })
		if err != nil {
			return err
		}
		var doubt struct {
			CreatedAt  int64 `db:"created_at"`
			DoubtSince int64 `db:"doubt_since"`
		}
		err = t.get(ctx, &doubt, sqlDoubt, seqs[0], string(ref.Key.ID), string(ref.Key.Service))
		if noRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		// The first statement's finding stays true: a witness was final before that time or it
		// was not.
		return t.sel(ctx, &found, sqlWitnesses, string(ref.Key.Service), doubt.CreatedAt, store.WitnessReach,
			int64(batch.Committed), int64(batch.Invalid), doubt.DoubtSince, max(limit, 0))
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
