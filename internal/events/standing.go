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
	pauses    map[health.Pause]pause        // by ledger, service and All
	halted    map[batch.ServiceID]time.Time // since when
	held      map[batch.ServiceID]time.Time // since when the present Run refuses to serve them
	warnings  []store.Warning
	warned    map[string]time.Time // since when each of them stands, by its name
	trouble   error
	troubleAt time.Time
}

// pause is when nothing was posted any more, and the last reason.
type pause struct {
	since   time.Time
	because error
}

// clear forgets all but the last trouble: it is about a Run that is over.
func (s *standing) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses, s.halted, s.held, s.warnings, s.warned = nil, nil, nil, nil, nil
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
func (s *standing) mark(set *map[batch.ServiceID]time.Time, service batch.ServiceID, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !on {
		delete(*set, service)
		return
	}
	if *set == nil {
		*set = map[batch.ServiceID]time.Time{}
	}
	if (*set)[service].IsZero() {
		(*set)[service] = time.Now()
	}
}

// paused begins a pause, or gives it another reason. What is not p's is not touched: each ledger,
// and each service, has a pause of its own.
func (s *standing) paused(p health.Pause, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pauses == nil {
		s.pauses = map[health.Pause]pause{}
	}
	now := s.pauses[p]
	if now.because = why; now.since.IsZero() {
		now.since = time.Now()
	}
	s.pauses[p] = now
}

func (s *standing) resumed(p health.Pause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pauses, p)
}

// warns replaces the store's earlier warnings, and returns the warnings that are new.
func (s *standing) warns(all []store.Warning) (fresh []store.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := make(map[string]time.Time, len(all))
	for _, w := range all {
		if since[w.Name] = s.warned[w.Name]; since[w.Name].IsZero() {
			since[w.Name], fresh = time.Now(), append(fresh, w)
		}
	}
	s.warnings, s.warned = all, since
	return fresh
}

// look returns the present health, as far as it is known here.
func (s *standing) look(now time.Time) health.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h health.Health
	for p, is := range s.pauses {
		p.Since, p.Because = is.since, is.because
		h.Pauses = append(h.Pauses, p)
	}
	slices.SortFunc(h.Pauses, health.Pause.Compare)
	h.HaltedServices = slices.Sorted(maps.Keys(s.halted))
	h.HeldServices = slices.Sorted(maps.Keys(s.held))
	h.HaltedSince, h.HeldSince, h.WarningsSince = earliest(s.halted), earliest(s.held), earliest(s.warned)
	for _, w := range s.warnings {
		h.Warnings = append(h.Warnings, w.Err)
	}
	if s.trouble != nil && now.Sub(s.troubleAt) < health.Memory {
		h.Trouble, h.TroubleAt = s.trouble, s.troubleAt
	}
	return h
}

// earliest is the earliest of some times; zero without any.
func earliest[K comparable](times map[K]time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}
