package monitor

import (
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// quiets are the groups that are left alone for a while, after status requests that failed.
type quiets struct {
	first time.Duration // pause
	mu    sync.Mutex
	by    map[string]*quiet
}

type quiet struct {
	until time.Time
	pause *backoff.ExponentialBackOff
}

// left returns for how long a group is still left alone.
func (s *quiets) left(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.by[key]; q != nil {
		return max(0, time.Until(q.until))
	}
	return 0
}

// note notes how a status request of a group went, and reports whether it is the first failure
// since a success. The pause after a failure doubles, and is at least the ledger's RetryAfter, up
// to maxRetryAfter.
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
		q = &quiet{pause: loop.Backoff(s.first, 15*time.Second)}
		s.by[key] = q
	}
	pause := q.pause.NextBackOff()
	var e *dlt.Error
	if errors.As(err, &e) && e != nil {
		pause = max(pause, min(e.RetryAfter, maxRetryAfter))
	}
	q.until = time.Now().Add(pause)
	return first
}

// maxRetryAfter bounds the pause that a ledger may ask for.
const maxRetryAfter = 5 * time.Minute
