package dltbatch

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
)

// Health returns how this Runner is doing. It does no I/O.
func (r *Runner) Health() health.Health {
	return r.engine.Health()
}

// news collects the data for a Runner's Health.
type news struct {
	mu        sync.Mutex
	paused    time.Time // since when everything is
	because   error
	services  map[batch.ServiceID]struct{}
	halted    map[batch.ServiceID]struct{}
	held      map[batch.ServiceID]struct{} // the present Run refuses to serve them
	warnings  []store.Warning
	trouble   error
	troubleAt time.Time
}

func (h *news) stopped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused, h.because, h.services, h.halted, h.held, h.warnings = time.Time{}, nil, nil, nil, nil, nil
}

func (h *news) troubled(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble, h.troubleAt = err, time.Now()
}

// mark puts a service into one of the sets, or takes it out.
func (h *news) mark(set *map[batch.ServiceID]struct{}, s batch.ServiceID, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !on {
		delete(*set, s)
		return
	}
	if *set == nil {
		*set = map[batch.ServiceID]struct{}{}
	}
	(*set)[s] = struct{}{}
}

func (h *news) pause(s batch.ServiceID, all, paused bool, why error) {
	if !all {
		h.mark(&h.services, s, paused)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.because = why
	switch {
	case !paused:
		h.paused = time.Time{}
	case h.paused.IsZero():
		h.paused = time.Now()
	}
}

// warned replaces the store's earlier warnings, and returns the warnings that are new.
func (h *news) warned(all []store.Warning) (fresh []store.Warning) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := make(map[string]bool, len(h.warnings))
	for _, w := range h.warnings {
		known[w.Name] = true
	}
	for _, w := range all {
		if !known[w.Name] {
			fresh = append(fresh, w)
		}
	}
	h.warnings = all
	return fresh
}

// look returns the present health.
func (h *news) look(now time.Time) health.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := health.Health{Paused: !h.paused.IsZero(), PausedSince: h.paused, PausedBecause: h.because}
	all.PausedServices = slices.Sorted(maps.Keys(h.services))
	all.HaltedServices = slices.Sorted(maps.Keys(h.halted))
	all.HeldServices = slices.Sorted(maps.Keys(h.held))
	for _, w := range h.warnings {
		all.Warnings = append(all.Warnings, w.Err)
	}
	if h.trouble != nil && now.Sub(h.troubleAt) < health.Memory {
		all.Trouble, all.TroubleAt = h.trouble, h.troubleAt
	}
	return all
}
