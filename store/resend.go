package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Resend is a ledger's declaration about sending a batch again: the traits ResendHarmlessFor and
// LateArrival of dlt.Traits.
type Resend struct {
	HarmlessFor time.Duration
	LateArrival time.Duration
}

// Allows reports whether a claim of ttl may send a batch again, if a resend of it stays harmless
// for left: the POST may start when the claim ends, and take LateArrival to arrive. Every part of
// the library asks here whether a batch in doubt may be sent again
// (docs/design.md#how-a-claim-works).
func (r Resend) Allows(left, ttl time.Duration) bool {
	return left >= r.LateArrival && left-r.LateArrival >= ttl // compared so, because the sum could overflow
}

// Resendable reports whether a claim taken now can be posted without a chance to take effect
// twice: no attempt is unresolved, or a resend stays harmless for as long as its POST may take
// to arrive (docs/design.md#how-a-claim-works).
func (r Row) Resendable(now time.Time, ttl time.Duration, rule Resend) bool {
	return r.DoubtAttempt == 0 || rule.Allows(r.ResendUntil.Sub(now), ttl)
}

// pastResend reports whether a row is ready to be claimed, and its batch may no longer be sent
// again.
func (r *LaneRow) pastResend(now time.Time, ttl time.Duration, rule Resend) bool {
	return r.Row.isReady(now) && !r.Row.Resendable(now, ttl, rule)
}

// backToMonitor gives a row whose batch may no longer be sent again back to the monitor, as in
// doubt.
func (r Row) backToMonitor(now time.Time) Row {
	r.State = batch.Submitting
	r.Version++
	if r.LastPost.IsZero() {
		r.LastPost = now
	}
	r.ClaimExpires = r.LastPost
	r.NotBefore, r.NextCheck = time.Time{}, now
	return r
}
