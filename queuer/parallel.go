package queuer

import "github.com/dltbatch/dltbatch/batch"

// DefaultQueued is how many waiting batches of a lane [Parallel] looks at.
const DefaultQueued = 1000

// Parallel lets every batch of a lane leave that conflicts with no earlier open batch
// (docs/ledgers/sawtooth.md#addresses-and-conflicts: an output of one and an input or output
// of the other are prefixes of one another), and depends on no batch by name. Of batches that
// conflict, the next leaves only when the one before is final, as with [Serial]. A batch that
// must wait holds up the later batches that conflict with it, so no batch is overtaken for
// ever. A batch without a footprint conflicts with every batch. [batch.Footprints] decides what
// conflicts.
//
// Parallel is right where a ledger confines batches to the state that they declare, as
// Sawtooth does. Scabbard does not compare a transaction's accesses with its declaration
// (docs/ledgers/splinter.md#order): use Serial there.
//
// It looks at queued waiting batches of a lane: a larger number finds more batches that may leave,
// and makes every claim read more. 0 is [DefaultQueued]. The strategy may be used by several
// goroutines and for several Runners at once.
func Parallel(queued int) Strategy {
	if queued <= 0 {
		queued = DefaultQueued
	}
	sets := new(footprintSets)
	return markBuiltin(Strategy{
		Name: nameParallel, Window: queued, Select: func(lane batch.Lane) []batch.Run { return selectParallel(sets, lane) },
		builtin: builtin{sets: sets},
	})
}

// selectParallel picks every ready batch that conflicts with no batch before it, each as a run of
// its own. Its time grows with the number of entries in the footprints.
func selectParallel(sets *footprintSets, lane batch.Lane) []batch.Run {
	before := sets.take()
	defer sets.put(before)
	// A batch under way blocks others wherever it stands: a batch that an operator requeued has
	// its old place, and other batches may have been sent since.
	for _, b := range lane.Batches {
		if !b.State.Claimable() {
			before.Add(b.Footprint)
		}
	}
	picked := make([]int, 0, len(lane.Batches))
	for p, b := range lane.Batches {
		if !b.State.Claimable() {
			continue
		}
		if !before.Add(b.Footprint) && b.Ready {
			picked = append(picked, p)
		}
		if b.Footprint.Empty() {
			break // no batch may pass a batch without a footprint
		}
	}
	if len(picked) == 0 {
		return nil
	}
	runs := make([]batch.Run, len(picked))
	for i := range picked {
		runs[i] = picked[i : i+1 : i+1]
	}
	return runs
}
