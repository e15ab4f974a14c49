package events

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
)

// standing keeps the conditions that last since an event, for Health.
type standing struct {
	mu        sync.Mutex
	paused    time.Time // since when everything is
	because   error
	services  map[batch.ServiceID]struct{} // that are paused
	halted    map[batch.ServiceID]struct{}
	held      map[batch.ServiceID]struct{} // the present Run refuses to serve them
	warnings  []store.Warning
	trouble   error
	troubleAt time.Time
}

// clear forgets all but the last trouble: it is about a Run that is over.
func (s *standing) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused, s.because, s.services, s.halted, s.held, s.warnings = time.Time{}, nil, nil, nil, nil, nil
}

func (s *standing) troubled(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble, s.troubleAt = err, time.Now()
}

func (s *standing) halt(service batch.ServiceID)              { s.mark(&s.halted, service, true) }
func (s *standing) released(service batch.ServiceID)          { s.mark(&s.halted, service, false) }
func (s *standing) unserved(service batch.ServiceID, is bool) { s.mark(&s.held, service, is) }

// mark puts a service into one of the sets, or takes it out.
func (s *standing) mark(set *map[batch.ServiceID]struct{}, service batch.ServiceID, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		delete(*set, service)
		return
	}
	if *set == nil {
		*set = map[batch.ServiceID]struct{}{}
	}
	(*set)[service] = struct{}{}
}

func (s *standing) pause(service batch.ServiceID, all, paused bool, why error) {
	if !all {
		s.mark(&s.services, service, paused)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.because = why
	switch {
	case !paused:
		s.paused = time.Time{}
	case s.paused.IsZero():
		s.paused = time.Now()
	}
}

// warned replaces the store's earlier warnings, and returns the warnings that are new.
func (s *standing) warned(all []store.Warning) (fresh []store.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[string]bool, len(s.warnings))
	for _, w := range s.warnings {
		known[w.Name] = true
	}
	for _, w := range all {
		if !known[w.Name] {
			fresh = append(fresh, w)
		}
	}
	s.warnings = all
	return fresh
}

// look returns the present health, as far as it is known here.
func (s *standing) look(now time.Time) health.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := health.Health{Paused: !s.paused.IsZero(), PausedSince: s.paused, PausedBecause: s.because}
	h.PausedServices = slices.Sorted(maps.Keys(s.services))
	h.HaltedServices = slices.Sorted(maps.Keys(s.halted))
	h.HeldServices = slices.Sorted(maps.Keys(s.held))
	for _, w := range s.warnings {
		h.Warnings = append(h.Warnings, w.Err)
	}
	if s.trouble != nil && now.Sub(s.troubleAt) < health.Memory {
		h.Trouble, h.TroubleAt = s.trouble, s.troubleAt
	}
	return h
}
