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

// conditions has the lasting conditions that events have shown, for Health.
type conditions struct {
	mu            sync.Mutex
	pauses        map[health.Pause]pauseReason    // pauses by ledger, service and All
	haltedLanes   map[batch.ServiceID]time.Time   // since when
	unservedLanes map[batch.ServiceID]pauseReason // services that the present Run refuses to serve, and why
	warnings      []store.Warning
	warnedSince   map[string]time.Time // since when each warning lasts, by its name
	trouble       error
	troubleAt     time.Time
}

// pauseReason is since when nothing is posted, or a service is not served, and the last reason.
type pauseReason struct {
	since time.Time
	err   error
}

// clearRun forgets all conditions except the last trouble, because they are about a Run that is
// over.
func (s *conditions) clearRun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pauses, s.haltedLanes, s.unservedLanes, s.warnings, s.warnedSince = nil, nil, nil, nil, nil
}

func (s *conditions) setTrouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble, s.troubleAt = err, time.Now()
}

func (s *conditions) setHalted(service batch.ServiceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.haltedLanes == nil {
		s.haltedLanes = map[batch.ServiceID]time.Time{}
	}
	if s.haltedLanes[service].IsZero() {
		s.haltedLanes[service] = time.Now()
	}
}

func (s *conditions) setReleased(service batch.ServiceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.haltedLanes, service)
}

// setUnserved says why the present Run refuses to serve a service; nil says that it serves it by
// now.
func (s *conditions) setUnserved(service batch.ServiceID, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why == nil {
		delete(s.unservedLanes, service)
		return
	}
	if s.unservedLanes == nil {
		s.unservedLanes = map[batch.ServiceID]pauseReason{}
	}
	now := s.unservedLanes[service]
	if now.err = why; now.since.IsZero() {
		now.since = time.Now()
	}
	s.unservedLanes[service] = now
}

// UnservedLanes returns the services that the present Run refuses to serve, as its row shows them.
func (r *Reporter) UnservedLanes(now time.Time) (all []store.Unserved) {
	r.conditions.mu.Lock()
	defer r.conditions.mu.Unlock()
	for _, service := range slices.Sorted(maps.Keys(r.conditions.unservedLanes)) {
		if len(all) == store.MaxUnserved {
			break
		}
		is := r.conditions.unservedLanes[service]
		all = append(all, store.Unserved{Service: service, Why: batch.Excerpt(is.err.Error(), 256), For: now.Sub(is.since)})
	}
	return all
}

// setPaused begins a pause, or gives it another reason. It changes no other pause: each ledger and
// each service has its own.
func (s *conditions) setPaused(p health.Pause, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pauses == nil {
		s.pauses = map[health.Pause]pauseReason{}
	}
	now := s.pauses[p]
	if now.err = why; now.since.IsZero() {
		now.since = time.Now()
	}
	s.pauses[p] = now
}

func (s *conditions) setResumed(p health.Pause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pauses, p)
}

// setWarnings replaces the store's earlier warnings, and returns the warnings that are new.
func (s *conditions) setWarnings(all []store.Warning) (fresh []store.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := make(map[string]time.Time, len(all))
	for _, w := range all {
		if since[w.Name] = s.warnedSince[w.Name]; since[w.Name].IsZero() {
			since[w.Name], fresh = time.Now(), append(fresh, w)
		}
	}
	s.warnings, s.warnedSince = all, since
	return fresh
}

// health returns the parts of Health that are known here.
func (s *conditions) health(now time.Time) health.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h health.Health
	for p, is := range s.pauses {
		p.Since, p.Because = is.since, is.err
		h.Pauses = append(h.Pauses, p)
	}
	slices.SortFunc(h.Pauses, health.Pause.Compare)
	h.HaltedServices = slices.Sorted(maps.Keys(s.haltedLanes))
	h.HeldServices = slices.Sorted(maps.Keys(s.unservedLanes))
	for _, is := range s.unservedLanes {
		if h.HeldSince.IsZero() || is.since.Before(h.HeldSince) {
			h.HeldSince = is.since
		}
	}
	h.HaltedSince, h.WarningsSince = earliest(s.haltedLanes), earliest(s.warnedSince)
	for _, w := range s.warnings {
		h.Warnings = append(h.Warnings, w.Err)
	}
	if s.trouble != nil && now.Sub(s.troubleAt) < health.FailureMemory {
		h.Trouble, h.TroubleAt = s.trouble, s.troubleAt
	}
	return h
}

// earliest returns the earliest of some times, or the zero time if there are none.
func earliest[K comparable](times map[K]time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}
