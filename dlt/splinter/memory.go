package splinter

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// maxMemory is the number of ids in each of two halves. A forgotten id costs a query, never a
// wrong answer.
const maxMemory = 50_000

// halves is a map that forgets its oldest half when it is full. Not for concurrent use.
type halves[K comparable, V any] struct{ new, old map[K]V }

func (h *halves[K, V]) get(k K) (V, bool) {
	if v, ok := h.new[k]; ok {
		return v, true
	}
	v, ok := h.old[k]
	return v, ok
}

func (h *halves[K, V]) put(k K, v V) {
	if h.new == nil || len(h.new) >= maxMemory {
		h.old, h.new = h.new, make(map[K]V)
	}
	h.new[k] = v
}

func (h *halves[K, V]) remove(k K) {
	delete(h.new, k)
	delete(h.old, k)
}

// sent records the batch of each transaction that this process sent.
type sent struct {
	mu  sync.Mutex
	ids halves[sentKey, batch.ID]
}

type sentKey struct {
	service     batch.ServiceID
	transaction string
}

func (s *sent) add(k batch.Key, transactions []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range transactions {
		key := sentKey{k.Service, t}
		if other, known := s.ids.get(key); known && other != k.ID {
			s.ids.put(key, "") // in two batches: its event does not name the committed one
			continue
		}
		s.ids.put(key, k.ID)
	}
}

// batch returns "" if nothing is certain.
func (s *sent) batch(service batch.ServiceID, transaction string) batch.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := s.ids.get(sentKey{service, transaction})
	return id
}

// validSince records since when batches are Valid in every answer to this process.
type validSince struct {
	mu    sync.Mutex
	since halves[batch.Key, time.Time]
}

// note records the answers of a time.
func (v *validSince) note(service batch.ServiceID, statuses []batch.Status, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range statuses {
		key := batch.Key{Service: service, ID: s.ID}
		if s.Reported != batch.ReportedValid {
			v.since.remove(key)
		} else if _, known := v.since.get(key); !known {
			v.since.put(key, now)
		}
	}
}

// age returns how long ago Valid was first answered; 0 if it was not.
func (v *validSince) age(service batch.ServiceID, id batch.ID, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, known := v.since.get(batch.Key{Service: service, ID: id})
	if !known {
		return 0
	}
	return now.Sub(at)
}

// idSet is a set of ids that are done.
type idSet struct {
	mu  sync.Mutex
	ids halves[sentKey, struct{}]
}

func (s *idSet) has(service batch.ServiceID, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.ids.get(sentKey{service, id})
	return ok
}

func (s *idSet) add(service batch.ServiceID, ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.ids.put(sentKey{service, id}, struct{}{})
	}
}

// seldom records when something was last done about a batch.
type seldom struct {
	mu   sync.Mutex
	last halves[batch.Key, time.Time]
}

// due reports whether it is time again, and then records it as done.
func (s *seldom) due(k batch.Key, every time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, known := s.last.get(k); known && now.Sub(at) < every {
		return false
	}
	s.last.put(k, now)
	return true
}

func (s *seldom) forget(k batch.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.remove(k)
}
