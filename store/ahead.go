package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// aheadReach is the number of later batches that one Ahead looks at.
const aheadReach = 100

// Ahead looks for a batch that may have gone ahead of key: the first one behind key in its lane
// that is in one of the states; "" if none of the next hundred is. On a ledger that keeps the order of submission, a POST
// or execution of key that happens only now comes after that batch: certainly where the batch
// is Committed, Pending or Valid, perhaps where it is Submitting.
func Ahead(ctx context.Context, s interface {
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	Lister
}, key batch.Key, in ...batch.State) (batch.ID, error) {
	rec, err := s.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("what is ahead of %s: %w", key, err)
	}
	next, _, err := s.List(ctx, ListQuery{Service: &key.Service, Limit: aheadReach, After: CursorAfter(rec.CreatedAt, string(key.ID))})
	if err != nil {
		return "", fmt.Errorf("what is ahead of %s: %w", key, err)
	}
	for _, b := range next {
		if slices.Contains(in, b.State) {
			return b.ID, nil
		}
	}
	return "", nil
}
