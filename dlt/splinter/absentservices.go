package splinter

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
)

// absentServices remembers since when nodes have answered that they do not run a service. A
// service that is starting counts as unavailable, and one that does not start in time as a
// misconfiguration (docs/ledgers/splinter.md#submitting).
type absentServices struct {
	maxStartTime time.Duration

	mu            sync.Mutex
	firstAbsentAt map[string]time.Time
}

// kindOf404 returns the kind of error for a 404 about a service at this time.
func (a *absentServices) kindOf404(p location, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.firstAbsentAt == nil {
		a.firstAbsentAt = make(map[string]time.Time)
	}
	key := p.node + " " + string(p.id)
	first, known := a.firstAbsentAt[key]
	if !known {
		first = now
		a.firstAbsentAt[key] = now
	}
	if now.Sub(first) > a.maxStartTime {
		return dlt.ErrMisconfigured
	}
	return dlt.ErrUnavailable
}

func (a *absentServices) clear(p location) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.firstAbsentAt, p.node+" "+string(p.id))
}
