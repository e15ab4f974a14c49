package dltbatch

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// RetryPolicy says how often the Runner tries a batch again, and after which pauses. A field that
// is zero has its default: in Options.Retry the one that it names, in an answer of Options.RetryOf
// that of Options.Retry.
type RetryPolicy struct {
	// Budget limits the attempts of batches without a budget of their own ([batch.Budget]). A
	// batch that uses it up is Rejected, with the reason, once no attempt is in doubt.
	// Defaults to unlimited. With Budget.EveryTry, attempts at a busy or unreachable ledger
	// count too: an outage may then use up the budgets of all waiting batches.
	Budget batch.Budget
	// Delay is how long a batch waits after a failure that certainly had no effect. It
	// doubles up to MaxDelay, with jitter. Defaults to 1 s. The lane waits too, so a longer
	// delay spares a ledger that is often busy, and slows the lane. Where a batch is sent again
	// because the ledger has no trace of it, or says that it is void, at least so much time lies
	// between two POSTs from the second one on.
	Delay time.Duration
	// MaxDelay limits Delay. Defaults to 15 s. After a long outage a lane goes on within this
	// time.
	MaxDelay time.Duration
	// QuickRetries is how often a busy or unreachable ledger is tried again at once, within one
	// claim. Defaults to 3; negative means never. They hide short failures from the lane without
	// a write. Each takes one of the Pool's places while it waits.
	QuickRetries int
	// QuickRetryPause is the pause before the first quick retry; it doubles. Defaults to 250 ms.
	// The first must fit into ClaimTTL beside a request; a later one is left out where it does not
	// fit.
	QuickRetryPause time.Duration
}

// fillFrom fills the zero fields of p from other. If MaxDelay would be less than Delay, it becomes
// Delay.
func (p RetryPolicy) fillFrom(other RetryPolicy) RetryPolicy {
	p.Budget = cmp.Or(p.Budget, other.Budget)
	p.QuickRetries = cmp.Or(p.QuickRetries, other.QuickRetries)
	p.QuickRetryPause = cmp.Or(p.QuickRetryPause, other.QuickRetryPause)
	p.Delay = cmp.Or(p.Delay, other.Delay)
	p.MaxDelay = cmp.Or(p.MaxDelay, max(other.MaxDelay, p.Delay))
	return p
}

// defaultRetry has the defaults of Options.Retry.
var defaultRetry = RetryPolicy{Delay: time.Second, MaxDelay: 15 * time.Second, QuickRetries: 3, QuickRetryPause: 250 * time.Millisecond}

// retryOf returns the complete policy of a service.
func (o Options) retryOf(s batch.ServiceID) RetryPolicy {
	var p RetryPolicy
	if o.RetryOf != nil {
		if loop.Contain(func() error { p = o.RetryOf(s); return nil }) != nil {
			p = RetryPolicy{} // it panicked: use the defaults
		}
	}
	// Negative values count as zero.
	p.Budget.Attempts = max(0, p.Budget.Attempts)
	p.Delay, p.MaxDelay, p.QuickRetryPause = max(0, p.Delay), max(0, p.MaxDelay), max(0, p.QuickRetryPause)
	p = p.fillFrom(o.Retry)
	p.QuickRetries = max(0, p.QuickRetries)
	return p
}

func (o Options) budget(s batch.ServiceID) batch.Budget { return o.retryOf(s).Budget }

func (o Options) quickRetry(s batch.ServiceID) (retries int, pause time.Duration) {
	p := o.retryOf(s)
	return p.QuickRetries, p.QuickRetryPause
}

// retryDelay returns how long a batch waits after its n-th certain failure in a row, or after its
// n-th attempt if the ledger says that this attempt failed.
func (o Options) retryDelay(s batch.ServiceID, n int) time.Duration {
	p := o.retryOf(s)
	d := p.Delay
	most := min(p.MaxDelay, maxRetryDelay)
	for i := 1; i < n && d < most; i++ {
		d *= 2
	}
	return jitter(min(d, most))
}

// maxRetryDelay bounds a delay before the doubling and the jitter, which could otherwise overflow
// to a negative duration, and the batch would be tried again at once instead of never.
const maxRetryDelay = 100 * 365 * 24 * time.Hour

// jitter returns d changed by up to a fifth, so that retries which began together spread out.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
