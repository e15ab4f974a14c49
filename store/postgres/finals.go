package postgres

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Finals is [store.BatchStore].Finals.
func (s *Store) Finals(ctx context.Context, keys []batch.Key) ([]batch.Record, []batch.Key, error) {
	var final []batch.Record
	var missing []batch.Key
	err := s.tx(ctx, "find final batches", func(ctx context.Context, t *session) error {
		ids, want := sqlstore.Want(keys) // anew each time: a found record is taken out of want
		final = nil
		for some := range slices.Chunk(ids, store.MaxKeys) {
			found, err := t.recordsAs(ctx, outcomeDest, s.sql(sqlFinals), idHashes(some))
			if err != nil {
				return err
			}
			for _, r := range found {
				if want.Take(r.Key) && r.Final() {
					final = append(final, r)
				}
			}
		}
		missing = want.Missing()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return final, missing, nil
}
