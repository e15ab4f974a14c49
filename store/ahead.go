package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// maxLaterBatches is the number of later batches that one call of [Ahead] looks at.
const maxLaterBatches = 100

// Ahead looks for a batch that has gone ahead of key. It returns the id of the first batch for
// which is returns true, among the next hundred behind key in its lane; "" if there is none. is
// must not call the store. On a ledger that keeps the order of submission, key comes after a batch
// that is Committed if key is posted or executed only now, and perhaps after a batch that is under
// way.
func Ahead(ctx context.Context, s interface {
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
}, key batch.Key, is func(batch.Record) bool) (batch.ID, error) {
	rec, err := s.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("batches ahead of %s: %w", key, err)
	}
	next, _, err := s.List(ctx, ListQuery{Service: &key.Service, Limit: maxLaterBatches, After: CursorAfter(rec.CreatedAt, string(key.ID))})
	if err != nil {
		return "", fmt.Errorf("batches ahead of %s: %w", key, err)
	}
	if i := slices.IndexFunc(next, is); i >= 0 {
		return next[i].ID, nil
	}
	return "", nil
}
