package ask

import (
	"maps"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// askPauses has the groups and rows that the monitor leaves alone for a while, after status
// requests that failed.
type askPauses struct {
	firstPause time.Duration // the pause after the first failure
	mu         sync.Mutex
	byKey      map[string]*askPause
	shrinkAt   int // with so many keys, the keys whose pause ended long ago are forgotten
}

// minAskPauses is the number of keys up to which none is forgotten.
const minAskPauses = 1024

type askPause struct {
	until time.Time
	pause *backoff.ExponentialBackOff
}

// remaining returns the rest of the pause of a group or row.
func (s *askPauses) remaining(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byKey[key]; q != nil {
		return max(0, time.Until(q.until))
	}
	return 0
}

// noteResult records the result of a status request about a group or row, and reports whether it
// is the first failure since a success. The pause doubles with each failure, and is at least the
// ledger's RetryAfter, up to maxRetryAfter.
func (s *askPauses) noteResult(key string, err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byKey[key]
	if err == nil {
		delete(s.byKey, key)
		return false
	}
	if q == nil {
		first = true
		s.shrink(time.Now())
		q = &askPause{pause: loop.NewPauses(s.firstPause, 15*time.Second)}
		s.byKey[key] = q
	}
	q.until = time.Now().Add(max(q.pause.NextBackOff(), min(dlt.RetryAfter(err), maxRetryAfter)))
	return first
}

// maxRetryAfter bounds the pause that a ledger may ask for.
const maxRetryAfter = 5 * time.Minute

// shrink forgets keys that were last asked about long ago, each time that the map has doubled.
func (s *askPauses) shrink(now time.Time) {
	if len(s.byKey) < max(s.shrinkAt, minAskPauses) {
		return
	}
	maps.DeleteFunc(s.byKey, func(_ string, q *askPause) bool { return now.Sub(q.until) > maxRetryAfter })
	s.shrinkAt = 2 * len(s.byKey)
}
