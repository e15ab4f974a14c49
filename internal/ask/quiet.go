package ask

import (
	"maps"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// quiets are the groups and rows that are left alone for a while, after status requests that
// failed.
type quiets struct {
	first time.Duration // pause
	mu    sync.Mutex
	by    map[string]*quiet
	most  int // by is searched for pauses that are long over when it has grown to this
}

// minQuiets is how many keys are never searched.
const minQuiets = 1024

type quiet struct {
	until time.Time
	pause *backoff.ExponentialBackOff
}

// left returns for how long a group or row is still left alone.
func (s *quiets) left(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.by[key]; q != nil {
		return max(0, time.Until(q.until))
	}
	return 0
}

// note notes how a status request of a group or row went, and reports whether it is the first
// failure since a success. The pause after a failure doubles, and is at least the ledger's
// RetryAfter, up to maxRetryAfter.
func (s *quiets) note(key string, err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.by[key]
	if err == nil {
		delete(s.by, key)
		return false
	}
	if q == nil {
		first = true
		s.shrink(time.Now())
		q = &quiet{pause: loop.Backoff(s.first, 15*time.Second)}
		s.by[key] = q
	}
	q.until = time.Now().Add(max(q.pause.NextBackOff(), min(dlt.RetryAfter(err), maxRetryAfter)))
	return first
}

// maxRetryAfter bounds the pause that a ledger may ask for.
const maxRetryAfter = 5 * time.Minute

// shrink forgets keys that nobody has asked about for long, each time that the map has doubled.
func (s *quiets) shrink(now time.Time) {
	if len(s.by) < max(s.most, minQuiets) {
		return
	}
	maps.DeleteFunc(s.by, func(_ string, q *quiet) bool { return now.Sub(q.until) > maxRetryAfter })
	s.most = 2 * len(s.by)
}
