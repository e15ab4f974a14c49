package position

import (
	"math"
	"sync"
	"time"
)

// RemovedRows remembers where Prune begins to look for old rows of one kind. Before that place, in
// the index by age, are the rows that were removed earlier. While a transaction holds an old
// snapshot their dead entries stay, and a read from the beginning would read over all of them.
//
// Live rows before that place are found by the next read from the beginning: rows that were in
// quarantine, not settled or locked, and rows with an earlier time from a clock that stepped back.
type RemovedRows struct {
	mu              sync.Mutex
	lastRemovedTime int64     // the time of the row that was removed last
	removedCount    int       // the number of rows that this store has removed
	allReadAt       time.Time // the time of the last read from the beginning
}

const (
	// cheapRemoved is how many dead entries cost too little to matter.
	cheapRemoved = 2000
	// allReadInterval is the time between two reads from the beginning, if there may be more dead
	// entries than that.
	allReadInterval = 5 * time.Minute
)

// From returns the time from which the next read of rows begins. The read looks for rows that are
// not later than until.
func (o *RemovedRows) From(until int64, now time.Time) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removedCount < cheapRemoved || now.Sub(o.allReadAt) >= allReadInterval || o.lastRemovedTime > until {
		o.allReadAt = now
		return math.MinInt64
	}
	return o.lastRemovedTime
}

// forget makes the next read begin at the beginning.
func (o *RemovedRows) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.allReadAt = time.Time{}
}

// Found records that a read has found n rows, and that the last of them has the time at.
func (o *RemovedRows) Found(n int, at int64) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.removedCount += n
	o.lastRemovedTime = at
}
