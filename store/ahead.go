package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// aheadReach is the number of later batches that one Ahead looks at.
const aheadReach = 100

// Ahead looks for a batch that has gone ahead of key: the first of the next hundred behind key in
// its lane about which is says so; "" if there is none. is must not call the store. On a ledger
// that keeps the order of submission, a POST or execution of key that happens only now comes after
// a batch that is Committed, and perhaps after one that is under way.
func Ahead(ctx context.Context, s interface {
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	List(ctx context.Context, q ListQuery) ([]batch.Record, Cursor, error)
}, key batch.Key, is func(batch.Record) bool) (batch.ID, error) {
	rec, err := s.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("batches ahead of %s: %w", key, err)
	}
	next, _, err := s.List(ctx, ListQuery{Service: &key.Service, Limit: aheadReach, After: CursorAfter(rec.CreatedAt, string(key.ID))})
	if err != nil {
		return "", fmt.Errorf("batches ahead of %s: %w", key, err)
	}
	if i := slices.IndexFunc(next, is); i >= 0 {
		return next[i].ID, nil
	}
	return "", nil
}
