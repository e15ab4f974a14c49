package sqlstore

import (
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Count is one number of a lane: the count of its attempted batches in a state, or, where
// State is 0, of its waiting batches.
type Count struct {
	Service string `db:"service_id"`
	State   int64  `db:"state"`
	N       int64  `db:"n"`
}

// Counts combines the numbers of lanes, in the order of lanes. It keeps lanes without batches
// where keep is true.
func Counts(lanes []batch.ServiceID, found []Count, keep bool) []store.LaneCounts {
	at := make(map[string]int, len(lanes))
	counts := make([]store.LaneCounts, len(lanes))
	for i, service := range lanes {
		at[string(service)] = i
		counts[i] = store.LaneCounts{Service: service, Attempted: map[batch.State]int{}}
	}
	for _, c := range found {
		if l := &counts[at[c.Service]]; c.State == 0 {
			l.Waiting = int(c.N)
		} else {
			l.Attempted[batch.State(c.State)] = int(c.N)
		}
	}
	if keep {
		return counts
	}
	return slices.DeleteFunc(counts, func(c store.LaneCounts) bool { return c.Waiting == 0 && len(c.Attempted) == 0 })
}
