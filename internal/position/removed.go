package position

import (
	"math"
	"sync"
	"time"
)

// Removed remembers where Prune begins to look for old rows, of one kind. In front of that place,
// in the index by age, are the rows removed before; while somebody holds a snapshot they stay
// there, dead, and a read from the beginning passes over all of them.
//
// Live rows in front of that place wait for the next read of everything: rows that
// were in quarantine, not settled or locked, and rows with an earlier time from a clock that
// stepped back.
type Removed struct {
	mu           sync.Mutex
	lastTime     int64     // the time of the row removed last
	removedCount int       // by this store
	allReadAt    time.Time // the time of the last read of everything
}

const (
	// cheapRemoved is how many dead entries in front cost too little to matter.
	cheapRemoved = 2000
	// allReadInterval is the time between two reads of everything, if more dead entries may be in
	// front.
	allReadInterval = 5 * time.Minute
)

// From returns the time from which the next read of rows as old as until begins.
func (o *Removed) From(until int64, now time.Time) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removedCount < cheapRemoved || now.Sub(o.allReadAt) >= allReadInterval || o.lastTime > until {
		o.allReadAt = now
		return math.MinInt64
	}
	return o.lastTime
}

// forget makes the next read begin at the beginning.
func (o *Removed) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.allReadAt = time.Time{}
}

// Found records that a read has found n rows, and that the last of them has the time at.
func (o *Removed) Found(n int, at int64) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removedCount += n
	o.lastTime = at
}
