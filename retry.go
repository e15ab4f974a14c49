package dltbatch

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// RetryPolicy is the answer of Options.Retry for a service. For fields that are zero or make
// no sense the Options count.
type RetryPolicy struct {
	// Budget is for batches without a budget of their own.
	Budget batch.Budget
	// Delay follows the first failure that certainly had no effect. It doubles up to MaxDelay,
	// with jitter.
	Delay, MaxDelay time.Duration
	// QuickRetries is the number of retries within one claim; negative means none.
	// QuickRetryPause is the pause before the first. Retries that do not fit into the claim
	// are not made.
	QuickRetries    int
	QuickRetryPause time.Duration
}

// retry returns the complete policy of a service, with all defaults filled in.
func (o Options) retry(s batch.ServiceID) RetryPolicy {
	var p RetryPolicy
	if o.Retry != nil {
		if loop.Contain(func() error { p = o.Retry(s); return nil }) != nil {
			p = RetryPolicy{} // it panicked: use the defaults
		}
	}
	p.Budget = cmp.Or(p.Budget, o.Budget)
	p.QuickRetries = cmp.Or(p.QuickRetries, o.QuickRetries)
	p.QuickRetries = max(0, p.QuickRetries)
	p.Budget.Attempts = max(0, p.Budget.Attempts)
	p.Delay, p.MaxDelay, p.QuickRetryPause = max(0, p.Delay), max(0, p.MaxDelay), max(0, p.QuickRetryPause)
	p.Delay = cmp.Or(p.Delay, o.RetryDelay)
	p.MaxDelay = cmp.Or(p.MaxDelay, max(o.MaxRetryDelay, p.Delay))
	p.QuickRetryPause = cmp.Or(p.QuickRetryPause, o.QuickRetryPause)
	return p
}

func (o Options) budget(s batch.ServiceID) batch.Budget { return o.retry(s).Budget }

func (o Options) quick(s batch.ServiceID) (retries int, pause time.Duration) {
	p := o.retry(s)
	return p.QuickRetries, p.QuickRetryPause
}

// retryDelay returns how long a batch waits after its n-th certain failure in a row.
func (o Options) retryDelay(s batch.ServiceID, n int) time.Duration {
	p := o.retry(s)
	d := p.Delay
	most := min(p.MaxDelay, longestDelay)
	for i := 1; i < n && d < most; i++ {
		d *= 2
	}
	return jitter(min(d, most))
}

// longestDelay keeps a delay from an overflow by the doubling and the jitter, which would make it
// negative: the next try at once instead of never.
const longestDelay = 100 * 365 * 24 * time.Hour

// jitter spreads retries that began together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
