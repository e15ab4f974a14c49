package operator

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// Stats returns the counts of open batches and orders, with their age, and the instances. A
// running Runner counts for all, every 15 s at most (docs/design.md#counting-what-is-open).
func (d *Desk) Stats(ctx context.Context) (store.Stats, error) {
	s, err := texts.Stats(ctx, d.store)
	if err != nil {
		return s, fmt.Errorf("stats: %w", err)
	}
	return s, nil
}

// RefreshStats counts open batches and orders, where the kept counts are old enough and nobody
// else counts; true says that it did.
func (d *Desk) RefreshStats(ctx context.Context, q store.RefreshQuery) (bool, error) {
	did, err := texts.Refresh(ctx, d.store, q)
	if err != nil {
		return did, fmt.Errorf("count open batches: %w", err)
	}
	return did, nil
}
