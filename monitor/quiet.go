package monitor

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// quiet is a group that is left alone for a while, after status requests that failed.
type quiet struct {
	until time.Time
	pause *backoff.ExponentialBackOff
}

// quietFor returns for how long a group is still left alone.
func (m *Monitor) quietFor(key string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.quiet[key]; q != nil {
		return max(0, time.Until(q.until))
	}
	return 0
}

// answered notes how a status request of a group went, and reports whether it is the first
// failure since a success. The pause after a failure doubles, and is at least the ledger's
// RetryAfter, up to maxRetryAfter.
func (m *Monitor) answered(key string, err error) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.quiet[key]
	if err == nil {
		delete(m.quiet, key)
		return false
	}
	if q == nil {
		first = true
		q = &quiet{pause: loop.Backoff(m.o.Rules.PollInterval, 15*time.Second)}
		m.quiet[key] = q
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
