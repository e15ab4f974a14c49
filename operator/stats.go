package operator

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// Stats returns the counts of open batches and orders, with their age, and the instances. A Runner
// makes the counts for all processes, at most every 15 s (docs/design.md#counting-what-is-open).
func (d *Desk) Stats(ctx context.Context) (store.Stats, error) {
	s, err := texts.Stats(ctx, d.store)
	if err != nil {
		return s, fmt.Errorf("stats: %w", err)
	}
	return s, nil
}

// RefreshStats counts open batches and orders if the kept counts are old enough and no other
// process is counting. It reports whether it counted.
func (d *Desk) RefreshStats(ctx context.Context, q store.RefreshQuery) (bool, error) {
	did, err := texts.Refresh(ctx, d.store, q)
	if err != nil {
		return did, fmt.Errorf("count open batches: %w", err)
	}
	return did, nil
}
