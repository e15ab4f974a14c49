package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Finals is [store.BatchStore].Finals.
func (s *Store) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	ids, want := sqlstore.Want(keys)
	err = s.read(ctx, "find final batches", func(ctx context.Context, t *session) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for some := range slices.Chunk(ids, store.MaxKeys) {
			hashes := make([]string, len(some))
			for i, id := range some {
				hashes[i] = hex.EncodeToString(idHash(id))
			}
			list, err := json.Marshal(hashes)
			if err != nil {
				return err
			}
			found, err := t.records(ctx, sqlFinals, string(list))
			if err != nil {
				return err
			}
			for _, r := range found {
				if want.Take(r.Key) && r.Final() {
					final = append(final, r)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return final, want.Missing(), nil
}
