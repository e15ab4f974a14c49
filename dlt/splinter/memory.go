package splinter

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// maxHalf is the number of ids in each half of a twoHalves. A forgotten id costs a query, and
// never leads to a wrong answer.
const maxHalf = 50_000

// twoHalves is a map that forgets its older half when it is full. It is not for concurrent use.
type twoHalves[K comparable, V any] struct{ newHalf, oldHalf map[K]V }

func (h *twoHalves[K, V]) get(k K) (V, bool) {
	if v, ok := h.newHalf[k]; ok {
		return v, true
	}
	v, ok := h.oldHalf[k]
	return v, ok
}

func (h *twoHalves[K, V]) put(k K, v V) {
	if h.newHalf == nil || len(h.newHalf) >= maxHalf {
		h.oldHalf, h.newHalf = h.newHalf, make(map[K]V)
	}
	h.newHalf[k] = v
}

func (h *twoHalves[K, V]) remove(k K) {
	delete(h.newHalf, k)
	delete(h.oldHalf, k)
}

// sentTransactions records the batch of each transaction that this process sent.
type sentTransactions struct {
	mu       sync.Mutex
	batchIDs twoHalves[sentKey, batch.ID]
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
		if other, known := s.batchIDs.get(key); known && other != k.ID {
			s.batchIDs.put(key, "") // in two batches: the transaction's event does not name the committed one
			continue
		}
		s.batchIDs.put(key, k.ID)
	}
}

// batchOf returns the batch of a transaction; "" if that is not certain.
func (s *sentTransactions) batchOf(service batch.ServiceID, transaction string) batch.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := s.batchIDs.get(sentKey{service, transaction})
	return id
}

// validSince records since when each batch was Valid in every answer to this process.
type validSince struct {
	mu           sync.Mutex
	firstValidAt twoHalves[batch.Key, time.Time]
}

// noteValid records answers that came at the time now.
func (v *validSince) noteValid(service batch.ServiceID, statuses []batch.Status, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range statuses {
		key := batch.Key{Service: service, ID: s.ID}
		if s.Reported != batch.ReportedValid {
			v.firstValidAt.remove(key)
		} else if _, known := v.firstValidAt.get(key); !known {
			v.firstValidAt.put(key, now)
		}
	}
}

// timeValid returns how long ago the batch was first Valid; 0 if it is not.
func (v *validSince) timeValid(service batch.ServiceID, id batch.ID, now time.Time) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	at, known := v.firstValidAt.get(batch.Key{Service: service, ID: id})
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
	mu         sync.Mutex
	lastTimeOf twoHalves[batch.Key, time.Time]
}

// claimTurn reports whether the last time was at least every ago. If so, it records now.
func (s *lastTimes) claimTurn(k batch.Key, every time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, known := s.lastTimeOf.get(k); known && now.Sub(at) < every {
		return false
	}
	s.lastTimeOf.put(k, now)
	return true
}

func (s *lastTimes) forget(k batch.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastTimeOf.remove(k)
}
