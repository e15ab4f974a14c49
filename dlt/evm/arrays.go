package evm

import (
	"sync"
	"time"
)

// maxArray is how many requests go into one array at first. Nodes take a thousand and more,
// providers from 20 on, or 3.
const maxArray = 100

// arrayGrows is how long an endpoint has to take its arrays before they get twice as long.
const arrayGrows = time.Minute

// arrays says how many requests an endpoint takes in one array. A refused array is halved. The
// length grows again, because a refusal may come from a node that is gone, or may not be about the
// length.
type arrays struct {
	mu      sync.Mutex
	most    int // 0 is maxArray
	changed time.Time
}

func (a *arrays) length(now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.most > 0 && now.Sub(a.changed) >= arrayGrows {
		a.most, a.changed = 2*a.most, now
	}
	if a.most == 0 || a.most >= maxArray {
		a.most = 0
		return maxArray
	}
	return a.most
}

// refused notes that an array of n requests was refused.
func (a *arrays) refused(n int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most, a.changed = max(1, n/2), now
}
