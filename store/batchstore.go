package store

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// BatchStore has the methods of a [Store] that an application may call itself, in addition to a
// Runner's.
type BatchStore interface {
	Add(ctx context.Context, batches ...batch.Batch) error
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error)
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
	Counts(ctx context.Context, q CountsQuery) ([]LaneCounts, error)
	Prune(ctx context.Context, q PruneQuery) (Pruned, error)
}
