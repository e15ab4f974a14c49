package queuer

import "github.com/dltbatch/dltbatch/batch"

// DefaultQueued is how many waiting batches of a lane [Parallel] looks at.
const DefaultQueued = 1000

// Parallel lets everything of a lane leave that no earlier open batch conflicts
// with (docs/ledgers/sawtooth.md#addresses-and-conflicts: an output of one and an input or
// output of the other are prefixes of one another), and that depends on none by
// name. The next of what conflicts leaves only when the one before is final, as
// with [Serial]; a batch that must wait holds up what conflicts with it in turn,
// so nothing is overtaken for ever. A batch without a footprint conflicts with
// everything.
//
// It is right where a ledger keeps batches to what they declare, as Sawtooth does.
// Scabbard does not compare what a transaction touches with what it declares
// (docs/ledgers/splinter.md#order): there Serial is the safe choice.
//
// The zero value is ready. It must not be copied after its first use, and may be
// used by several goroutines and for several Runners at once.
type Parallel struct {
	// Queued is how many waiting batches of a lane are looked at. More find more that
	// may leave, and make every claim read more. Defaults to [DefaultQueued].
	Queued int

	sets scratch
}

// Window returns Queued or its default.
func (s *Parallel) Window() int {
	if s.Queued <= 0 {
		return DefaultQueued
	}
	return s.Queued
}

// Select picks every ready batch that nothing before it conflicts with, each as a
// run of its own. Its time grows with the number of entries in the footprints.
func (s *Parallel) Select(lane batch.Lane) []batch.Run {
	before := s.sets.take()
	defer s.sets.put(before)
	// What is under way is in the way wherever it stands: a batch that an operator
	// sends again has its old place, and others may have gone ahead since.
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
			break // nothing passes it
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
