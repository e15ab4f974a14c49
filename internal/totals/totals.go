// Package totals sums the counts of several stores.
package totals

import (
	"cmp"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Sum adds the counts of shards, of which there must be one at least. At and Age are those of the
// earliest count; if one shard was not counted yet, At is zero, as for one schema. AllPaused is
// true if every shard is paused. Took, By, Earlier, RisingSince and Schema are left out, because
// each is about one schema.
func Sum(list []store.Stats) store.Stats {
	all := store.Stats{}
	all.At, all.AllPaused = list[0].At, true
	all.Open, all.Orders = map[batch.State]int{}, map[string]int{}
	sizes := map[string]store.Size{}
	for _, one := range list {
		if one.At.Before(all.At) {
			all.At = one.At
		}
		all.Age = max(all.Age, one.Age)
		for state, n := range one.Open {
			all.Open[state] += n
		}
		for state, n := range one.Orders {
			all.Orders[state] += n
		}
		all.Oldest = earlier(all.Oldest, one.Oldest)
		all.OldestDoubt = earlier(all.OldestDoubt, one.OldestDoubt)
		all.OldestOrder = earlier(all.OldestOrder, one.OldestOrder)
		all.RefusedOrders += one.RefusedOrders
		all.OldestRefused = earlier(all.OldestRefused, one.OldestRefused)
		all.Lanes += one.Lanes
		all.InDoubt += one.InDoubt
		all.Undecided += one.Undecided
		all.Quarantined += one.Quarantined
		all.Paused += one.Paused
		all.Halted += one.Halted
		all.AllPaused = all.AllPaused && one.AllPaused
		all.OldestLanes = append(all.OldestLanes, one.OldestLanes...)
		all.Instances = append(all.Instances, one.Instances...)
		for _, size := range one.Sizes {
			was := sizes[size.Name]
			sizes[size.Name] = store.Size{Name: size.Name, Bytes: was.Bytes + size.Bytes, Dead: was.Dead + size.Dead}
		}
	}
	slices.SortStableFunc(all.OldestLanes, func(a, b store.LaneAge) int { return a.Oldest.Compare(b.Oldest) })
	all.OldestLanes = all.OldestLanes[:min(len(all.OldestLanes), store.OldestLanes)]
	for _, size := range sizes {
		all.Sizes = append(all.Sizes, size)
	}
	slices.SortFunc(all.Sizes, func(a, b store.Size) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// earlier returns the earlier of two times. A zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
