package store

import (
	"bytes"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Row is the part of a stored batch that changes. Its methods are the rules of
// docs/design.md#states-of-a-batch as pure functions: they return the row as it becomes. now is
// always the database's clock.
type Row struct {
	State   batch.State
	Version int64
	Attempt int
	Spent   int
	// Failures counts certain failures in a row; acceptance ends the row.
	Failures int

	ClaimExpires time.Time
	NotBefore    time.Time
	NextCheck    time.Time // when the monitor asks next
	AskedAt      time.Time // when it asked last
	LastPost     time.Time
	SettlesAt    time.Time
	FinalAt      time.Time // zero while the row is open

	// DoubtAttempt is the first attempt whose outcome is not known, 0 if there is none.
	// Every attempt is unresolved from its claim on, so that a crash needs no writing.
	DoubtAttempt int
	DoubtSince   time.Time
	ResendUntil  time.Time
	// Resends counts the POSTs since then that may have been taken, its own excluded.
	Resends int

	Refused  bool // Error is a refusal that waits for the doubt to be resolved
	Requeued bool
	// AtEnd says that the row, which was attempted, was put back at the end of its lane
	// and has not been claimed since: it waits like one that never was.
	AtEnd bool
	// Quarantined says that a policy set the batch aside. Only a row that is final as
	// Invalid or Rejected has it.
	Quarantined bool
	// ClaimedBy names the instance of the last claim, at most [batch.MaxInstanceLen]
	// bytes; it ends with the row's being final.
	ClaimedBy string
	// ClaimTTL is how long the last claim was given; 0 where that is not known. It is
	// whole microseconds, and ends with the row's being final.
	ClaimTTL time.Duration
	// FirstClaimed is when the batch was first claimed since it was added or requeued;
	// zero where it was not, or where that is not known. It ends with the row's being final.
	FirstClaimed time.Time
	// Rollbacks counts executions in a row that the ledger took back.
	Rollbacks int
	// SeenAttempt is the attempt that an endpoint of the ledger has shown as being under
	// way; it counts only while it equals Attempt. 0 is none.
	SeenAttempt int
	// SeenEndpoint is which endpoint that was, at most [MaxEndpointLen] bytes.
	SeenEndpoint string
	// OrdersSettled says that what the batch was made of goes its own ways: see
	// [OrderEngine].SettleOrders. Only a final row has it.
	OrdersSettled bool

	Error    *batch.SubmissionError
	Decision string
	Receipts []batch.Receipt

	// Prepared is what [Row.KeepPrepared] kept, nil for none. It stays through all
	// attempts and ends with the row's being final. It must not be changed.
	Prepared []byte
}

// MaxEndpointLen bounds [Row].SeenEndpoint, in bytes.
const MaxEndpointLen = 200

// NewRow is the row of a batch that was just added.
func NewRow() Row { return Row{State: batch.Queued, Version: 1} }

// Final reports whether the outcome is settled.
func (r Row) Final() bool { return !r.FinalAt.IsZero() }

// Live reports whether a submitter may be posting the batch.
func (r Row) Live(now time.Time) bool {
	return r.State == batch.Submitting && r.ClaimExpires.After(now)
}

// Monitored reports whether the monitor owns the row.
func (r Row) Monitored(now time.Time) bool {
	switch r.State {
	case batch.Submitting:
		return !r.Live(now)
	case batch.Pending, batch.Valid:
		return true
	case batch.Invalid:
		return !r.Final()
	}
	return false
}

// Attempted reports whether the batch was ever claimed: while it is under way it counts as
// earlier in its lane than any that became visible after that. One that was put at the
// end does not, until it is claimed again.
func (r Row) Attempted() bool { return r.Attempt > 0 && !r.AtEnd }

// Ready reports whether the row may be claimed now.
func (r Row) Ready(now time.Time) bool {
	return r.State.Claimable() && !r.NotBefore.After(now)
}

// Resendable reports whether a claim taken now can be posted without a chance that
// it takes effect twice: no attempt is unresolved, or a resend stays harmless for
// as long as its POST may take to arrive (docs/design.md#how-a-claim-works).
func (r Row) Resendable(now time.Time, ttl time.Duration, rule Resend) bool {
	return r.DoubtAttempt == 0 || rule.Allows(r.ResendUntil.Sub(now), ttl)
}

// Claim counts an attempt before anything is sent. The caller has checked Ready
// and Resendable.
func (r Row) Claim(now time.Time, ttl time.Duration, rule Resend) Row {
	r.State = batch.Submitting
	r.Version++
	r.Attempt++
	r.AtEnd = false
	r.ClaimExpires = now.Add(ttl)
	r.ClaimTTL = ttl.Truncate(time.Microsecond)
	if r.FirstClaimed.IsZero() {
		r.FirstClaimed = now
	}
	r.NextCheck = r.ClaimExpires
	if r.DoubtAttempt == 0 {
		r.DoubtAttempt, r.DoubtSince, r.Resends = r.Attempt, now, 0
	} else {
		r.Resends++
	}
	r.ResendUntil = r.DoubtSince.Add(rule.HarmlessFor)
	return r
}

// Return hands a row that can no longer be sent again back to the monitor, as in doubt.
func (r Row) Return(now time.Time) Row {
	r.State = batch.Submitting
	r.Version++
	if r.LastPost.IsZero() {
		r.LastPost = now
	}
	r.ClaimExpires = r.LastPost
	r.NotBefore, r.NextCheck = time.Time{}, now
	return r
}

// Leased is the row while one monitor asks about it. A lease of 0 is none.
func (r Row) Leased(now time.Time, lease time.Duration) Row {
	if lease != 0 {
		r.AskedAt, r.NextCheck = now, now.Add(lease)
	}
	return r
}

// posted is when the last POST that may have had an effect ended, at the latest.
func (r Row) posted() time.Time {
	if r.State == batch.Submitting {
		return r.ClaimExpires
	}
	return r.LastPost
}

// Settles reports whether a verdict against the batch that names an attempt, or none
// (0), is about the last attempt that may have been taken. A verdict about an earlier one
// says nothing of what became of the last.
func (f InFlight) Settles(named int) bool {
	return named == 0 || named == f.Attempt || (named == f.DoubtAttempt && f.Resends == 0)
}

// age is how long ago the batch was first claimed, or last posted where that is not known.
func (r Row) age(now time.Time) time.Duration {
	if r.FirstClaimed.IsZero() {
		return now.Sub(r.posted())
	}
	return now.Sub(r.FirstClaimed)
}

// seen is the endpoint that has shown the attempt in hand as being under way. What was
// kept of an earlier attempt says nothing of this one.
func (r Row) seen() string {
	if r.SeenAttempt != r.Attempt {
		return ""
	}
	return r.SeenEndpoint
}

// InFlight is what the monitor sees of the row.
func (r Row) InFlight(ref Ref, budget batch.Budget, now time.Time) InFlight {
	return InFlight{
		Ref: ref, Version: r.Version, State: r.State, Attempt: r.Attempt, Spent: r.Spent, Budget: budget,
		PostedAgo: now.Sub(r.posted()), DoubtAgo: now.Sub(r.DoubtSince), Resends: r.Resends, ResendLeft: r.ResendUntil.Sub(now),
		SettleLeft: r.SettlesAt.Sub(now), DoubtAttempt: r.DoubtAttempt, Failures: r.Failures,
		Ended:   r.State != batch.Submitting || r.ClaimExpires.Equal(r.LastPost),
		Refused: r.Refused, Requeued: r.Requeued, Undecided: r.Decision != "", Prepared: bytes.Clone(r.Prepared),
		CheckIn: r.NextCheck.Sub(now), ClaimTTL: r.ClaimTTL, Seen: r.seen(), Age: r.age(now), Rollbacks: r.Rollbacks,
		Was: &r,
	}
}

// Record is what the application sees of the row. The caller fills in what is not in it.
func (r Row) Record(key batch.Key) batch.Record {
	rec := batch.Record{
		Key: key, State: r.State, Version: r.Version, Attempt: r.Attempt, Spent: r.Spent,
		FinalAt: r.FinalAt, NotBefore: r.NotBefore, LastPost: r.LastPost, SettlesAt: r.SettlesAt,
		DoubtSince: r.DoubtSince, ResendUntil: r.ResendUntil,
		Error: r.Error, Decision: r.Decision, Receipts: r.Receipts, ClaimedBy: r.ClaimedBy, Quarantined: r.Quarantined,
	}
	if r.State == batch.Submitting {
		rec.ClaimExpires = r.ClaimExpires
	}
	return rec
}
