package wire

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Unclear counts the submissions in a row that an endpoint has left in doubt, for each batch. A
// refusal in words that nobody knows may be this one node's: another endpoint may take the batch.
// The zero value is ready for use. Its method may be called concurrently.
type Unclear struct {
	mu sync.Mutex
	by map[batch.Key]int
}

const (
	// unclearMost is how many in a row are the endpoint's.
	unclearMost = 3
	maxUnclear  = 10_000
)

// Again notes the end of a submission of a batch, and reports whether the endpoint has now left it
// in doubt so often that another endpoint should have it. Then the count begins anew. Any other
// end begins it anew, too, except where nothing was sent.
func (u *Unclear) Again(key batch.Key, err error) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch dlt.Kind(err) {
	case batch.KindDoubt:
	case batch.KindUnavailable, batch.KindBusy:
		return false
	default:
		delete(u.by, key)
		return false
	}
	if u.by == nil || len(u.by) >= maxUnclear {
		u.by = map[batch.Key]int{}
	}
	if u.by[key]++; u.by[key] < unclearMost {
		return false
	}
	delete(u.by, key)
	return true
}
