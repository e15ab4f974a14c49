package dltbatch

import (
	"context"
	"fmt"

	"github.com/dltbatch/dltbatch/store"
)

// Stats returns the counts of open batches and orders, with their age, and the instances, as the
// database keeps them: one running Runner of the cluster counts for all, every 15 s at most. This
// Runner need not run. The error wraps [store.ErrUnsupported] where the store lacks
// [store.CanCountOpen] or [store.CanKeepTexts].
func (r *Runner) Stats(ctx context.Context) (store.Stats, error) {
	s, err := r.engine.Stats(ctx)
	if err != nil {
		return s, fmt.Errorf("stats: %w", err)
	}
	return s, nil
}
