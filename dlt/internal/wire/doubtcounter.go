package wire

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// DoubtCounter counts the submissions in a row that an endpoint has left in doubt, for each batch.
// A refusal in words that nobody knows may be this one node's: another endpoint may take the
// batch. The zero value is ready for use. Its method may be called concurrently.
type DoubtCounter struct {
	mu     sync.Mutex
	counts map[batch.Key]int
}

const (
	// maxDoubtsInRow is how many in a row are the endpoint's.
	maxDoubtsInRow    = 3
	maxCountedBatches = 10_000
)

// Add notes the end of a submission of a batch, and reports whether the endpoint has now left it
// in doubt so often that another endpoint should have it. Then the count begins anew. Any other
// end begins it anew, too, except where nothing was sent.
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
