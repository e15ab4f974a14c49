package queuer

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// footprintSets lends sets of footprints, so that Select allocates little more than its answer. It
// is not a sync.Pool, because after each garbage collection a set would grow anew while the
// claiming transaction waits. It keeps as many sets as were ever used at once.
type footprintSets struct {
	mu        sync.Mutex
	spareSets []*batch.Footprints
}

// take returns an empty set.
func (s *footprintSets) take() *batch.Footprints {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.spareSets) - 1; last >= 0 {
		x := s.spareSets[last]
		s.spareSets = s.spareSets[:last]
		return x
	}
	return new(batch.Footprints)
}

// put takes a set back.
func (s *footprintSets) put(x *batch.Footprints) {
	x.Reset()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spareSets = append(s.spareSets, x)
}
