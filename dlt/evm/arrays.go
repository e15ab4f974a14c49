package evm

import (
	"sync"
	"time"
)

// maxArrayLength is how many requests go into one array at first. Nodes accept a thousand and
// more; the limits of providers begin at 20, and at 3 for some.
const maxArrayLength = 100

// arrayGrowsAfter is how long an endpoint must accept its arrays before their length is doubled.
const arrayGrowsAfter = time.Minute

// arrayLengthLimit says how many requests an endpoint takes in one array. A refused array is
// halved. The length grows again, because a refusal may come from a node that is gone, or may not
// be about the length.
type arrayLengthLimit struct {
	mu        sync.Mutex
	maxLength int // 0 is maxArrayLength
	changedAt time.Time
}

func (a *arrayLengthLimit) length(now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.maxLength > 0 && now.Sub(a.changedAt) >= arrayGrowsAfter {
		a.maxLength, a.changedAt = 2*a.maxLength, now
	}
	if a.maxLength == 0 || a.maxLength >= maxArrayLength {
		a.maxLength = 0
		return maxArrayLength
	}
	return a.maxLength
}

// noteRefused notes that an array of n requests was refused.
func (a *arrayLengthLimit) noteRefused(n int, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.maxLength, a.changedAt = max(1, n/2), now
}
