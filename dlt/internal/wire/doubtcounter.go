package wire

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// DoubtCounter counts, for each batch, the submissions in a row that an endpoint has left in
// doubt. A refusal with an unknown text may be this one node's: another endpoint may accept the
// batch. The zero value is ready for use. Its method may be called concurrently.
type DoubtCounter struct {
	mu     sync.Mutex
	counts map[batch.Key]int
}

const (
	// maxDoubtsInRow is how many doubts in a row count as the endpoint's fault.
	maxDoubtsInRow    = 3
	maxCountedBatches = 10_000
)

// Add notes the end of a submission of a batch. It reports whether the endpoint has now left the
// batch in doubt so often that another endpoint should get it; the count then starts again. Any
// other end starts it again, too, unless nothing was sent.
func (u *DoubtCounter) Add(key batch.Key, err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch dlt.Kind(err) {
	case batch.KindDoubt:
	case batch.KindUnavailable, batch.KindBusy:
		return false
	default:
		delete(u.counts, key)
		return false
	}
	if u.counts == nil || len(u.counts) >= maxCountedBatches {
		u.counts = map[batch.Key]int{}
	}
	if u.counts[key]++; u.counts[key] < maxDoubtsInRow {
		return false
	}
	delete(u.counts, key)
	return true
}
