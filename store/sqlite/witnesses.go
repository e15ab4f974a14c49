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
		type doubt struct{ at, since int64 }
		in, err := sqlstore.Query(ctx, t, func(d *doubt) []any { return []any{&d.at, &d.since} }, sqlDoubt, seqs[0], string(ref.Key.ID), string(ref.Key.Service))
		if err != nil || len(in) == 0 {
			return err
		}
		// The first statement's finding stays true: a witness was final before that time or it
		// was not.
		found, err = sqlstore.Query(ctx, t, sqlstore.Value[batch.ID], sqlWitnesses, string(ref.Key.Service), in[0].at, store.WitnessReach,
			int64(batch.Committed), int64(batch.Invalid), in[0].since, max(limit, 0))
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}
