package splinter

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt"
)

// absent remembers since when nodes answer that they do not run a service. A service that is
// starting is unavailable; a service that never comes is a misconfiguration
// (docs/ledgers/splinter.md#submitting).
type absent struct {
	patience time.Duration

	mu    sync.Mutex
	since map[string]time.Time
}

// kind returns the present meaning of a 404.
func (a *absent) kind(p place, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since == nil {
		a.since = make(map[string]time.Time)
	}
	key := p.node + " " + string(p.id)
	first, known := a.since[key]
	if !known {
		first = now
		a.since[key] = now
	}
	if now.Sub(first) > a.patience {
		return dlt.ErrMisconfigured
	}
	return dlt.ErrUnavailable
}

func (a *absent) clear(p place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, p.node+" "+string(p.id))
}
