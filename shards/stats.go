package shards

import (
	"context"

	"github.com/dltbatch/dltbatch/internal/totals"
	"github.com/dltbatch/dltbatch/store"
)

// Stats is [dltbatch.Runner.Stats] of all shards, summed. At and Age are those of the oldest
// count, and AllPaused says that every shard is paused. Each process is among the Instances once
// for each shard. Took, By, Earlier and Schema are left out, because each is about one schema.
func (s *Set[DB, S]) Stats(ctx context.Context) (store.Stats, error) {
	list := make([]store.Stats, len(s.shards))
	err := s.forEach(ctx, func(ctx context.Context, one Shard[DB, S]) (err error) {
		list[one.Store.Shard().Number], err = one.Runner.Stats(ctx)
		return err
	})
	if err != nil {
		return store.Stats{}, err
	}
	return totals.Sum(list), nil
}
