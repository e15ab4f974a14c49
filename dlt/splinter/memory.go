package splinter

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// halfSize is the number of ids in each half of a twoHalves. A forgotten id costs a query, and
// never leads to a wrong answer.
const halfSize = 50_000

// twoHalves is a map that forgets its older half when it is full. It is not for concurrent use.
type twoHalves[K comparable, V any] struct{ new, old map[K]V }

func (h *twoHalves[K, V]) get(k K) (V, bool) {
	if v, ok := h.new[k]; ok {
		return v, true
	}
	v, ok := h.old[k]
	return v, ok
}

func (h *twoHalves[K, V]) put(k K, v V) {
	if h.new == nil || len(h.new) >= halfSize {
		h.old, h.new = h.new, make(map[K]V)
	}
	h.new[k] = v
}

func (h *twoHalves[K, V]) remove(k K) {
	delete(h.new, k)
	delete(h.old, k)
}

// sentTransactions records the batch of each transaction that this process sent.
type sentTransactions struct {
	mu  sync.Mutex
	ids twoHalves[sentKey, batch.ID]
}

type sentKey struct {
	service     batch.ServiceID
	transaction string
}

func (s *sentTransactions) add(k batch.Key, transactions []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range transactions {
		key := sentKey{k.Service, t}
		if other, known := s.ids.get(key); known && other != k.ID {
			s.ids.put(key, "") // in two batches: the transaction's event does not name the committed one
			continue
		}
		s.ids.put(key, k.ID)
	}
}

// batch returns the batch of a transaction; "" if that is not certain.
func (s *sentTransactions) batch(service batch.ServiceID, transaction string) batch.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := s.ids.get(sentKey{service, transaction})
	return id
}

// validSince records since when each batch was Valid in every answer to this process.
type validSince struct {
	mu    sync.Mutex
	since twoHalves[batch.Key, time.Time]
}

// note records answers that came at the time now.
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

// age returns how long ago the batch was first Valid; 0 if it is not.
func (v *validSince) age(service batch.ServiceID, id batch.ID, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, known := v.since.get(batch.Key{Service: service, ID: id})
	if !known {
		return 0
	}
	return now.Sub(at)
}

// idSet is a set of transaction ids of services.
type idSet struct {
	mu  sync.Mutex
	ids twoHalves[sentKey, struct{}]
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

// lastTimes records, for each batch, when something was last done.
type lastTimes struct {
	mu   sync.Mutex
	last twoHalves[batch.Key, time.Time]
}

// claimTurn reports whether the last time was at least every ago. If so, it records now.
func (s *lastTimes) claimTurn(k batch.Key, every time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, known := s.last.get(k); known && now.Sub(at) < every {
		return false
	}
	s.last.put(k, now)
	return true
}

func (s *lastTimes) forget(k batch.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.remove(k)
}
