package store

import (
	"bytes"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Row is the part of a stored batch that changes. Its methods are the rules of
// docs/design.md#states-of-a-batch as pure functions: they return the next row. now is always
// the database's clock.
type Row struct {
	State   batch.State
	Version int64
	Attempt int
	Spent   int
	// Failures counts certain failures in a row; acceptance and doubt reset it.
	Failures int

	ClaimExpires time.Time
	NotBefore    time.Time
	NextCheck    time.Time // when the monitor asks about the batch next
	AskedAt      time.Time // when the monitor asked about the batch last
	LastPost     time.Time
	SettlesAt    time.Time
	FinalAt      time.Time // zero while the row is open

	// DoubtAttempt is the first attempt whose outcome is not known, 0 without a doubt. Every
	// attempt is unresolved from its claim on, so that a crash needs no write.
	DoubtAttempt int
	DoubtSince   time.Time
	ResendUntil  time.Time
	// Resends counts the later POSTs that may have been taken. It does not count the POST of
	// DoubtAttempt.
	Resends int

	Refused  bool // Error is a refusal, which waits for the doubt to be resolved
	Requeued bool
	// Withdrawn is true if a person has withdrawn the batch ([Row.Withdraw]): the ledger is asked
	// to keep it from taking effect. Once all doubt is resolved without an effect it is Rejected.
	// It is cleared when the row becomes final.
	Withdrawn bool
	// Quarantined is true if a policy set the batch aside. Only rows that are final as Invalid or
	// Rejected have it.
	Quarantined bool
	// ClaimedBy is the name of the instance that made the last claim, at most
	// [batch.MaxInstanceLen] bytes. It is cleared when the row becomes final.
	ClaimedBy string
	// ClaimTTL is the duration of the last claim, truncated to microseconds; 0 where that is
	// not known. It is cleared when the row becomes final.
	ClaimTTL time.Duration
	// MovedAt is when the batch last moved towards a final state: its first claim since it was
	// added, requeued or decided about, or later the first time that the ledger took it. Nothing
	// else moves it, so that every endless loop of attempts calls a person. It is zero if there
	// was no such claim, or if that is not known, and it is cleared when the row becomes final. A
	// [PutOff] of the deadline sets a later MovedAt.
	MovedAt time.Time
	// Rollbacks counts executions in a row that the ledger took back.
	Rollbacks int
	// SeenAttempt is the attempt that an endpoint of the ledger reported as under way, or as
	// executed and taken back. It counts only while it equals Attempt; 0 means that no endpoint
	// did.
	SeenAttempt int
	// SeenEndpoint is the endpoint that reported SeenAttempt as under way, at most
	// [MaxEndpointLen] bytes, or [TakenBack] for an attempt that is counted in Rollbacks.
	SeenEndpoint string
	// OrdersSettled is true if the batch was made of orders (auto-batching), and these may join
	// other batches. Only a final row has it.
	OrdersSettled bool

	Error    *batch.SubmissionError
	Decision string
	Receipts []batch.Receipt

	// Prepared are the bytes that [Row.KeepPrepared] kept, nil for none. They stay through all
	// attempts until the row becomes final or an [IsVoid] ends them. They must not be changed.
	Prepared []byte
}

// MaxEndpointLen bounds [Row].SeenEndpoint, in bytes.
const MaxEndpointLen = 200

// TakenBack is the [Row].SeenEndpoint of an attempt that the ledger executed and took back. Every
// endpoint is a URL, and this text is not.
const TakenBack = "taken back"

// NewRow returns the row of a batch that was just added.
func NewRow() Row { return Row{State: batch.Queued, Version: 1} }

// Final reports whether the batch's state is final.
func (r Row) Final() bool { return !r.FinalAt.IsZero() }

// Prunable reports whether Prune may remove the batch once it is old enough. A batch in quarantine
// must stay until a person has acted, and a batch with unsettled orders until the builder of
// batches has seen how it ended.
func (r Row) Prunable(unsettled bool) bool { return r.Final() && !r.Quarantined && !unsettled }

// Live reports whether a submitter may be posting the batch. A claim with a recorded doubt is
// over, even if the database's clock was put back before the end of the claim.
func (r Row) Live(now time.Time) bool {
	return r.State == batch.Submitting && r.ClaimExpires.After(now) && !r.isEndRecorded()
}

// isEndRecorded reports whether the end of the last attempt is recorded as a doubt.
func (r Row) isEndRecorded() bool { return r.ClaimExpires.Equal(r.LastPost) }

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

// Attempted reports whether the batch was claimed. While an attempted batch is open it counts as
// earlier in its lane than any batch that became visible after its claim.
func (r Row) Attempted() bool { return r.Attempt > 0 }

// isReady reports whether the row may be claimed now.
func (r Row) isReady(now time.Time) bool {
	return r.State.Claimable() && !r.NotBefore.After(now)
}

// lastAttemptFailed is [batch.LaneBatch].Failed. A ledger that says that it is busy, that it
// cannot take the batch yet, or that an attempt had no effect, is up and has the batches that it
// accepted.
func (r Row) lastAttemptFailed() bool {
	if r.State != batch.Delayed || r.Error == nil {
		return r.State == batch.Delayed
	}
	k := r.Error.Kind
	return k != batch.KindBusy && k != batch.KindNotYet && k != batch.KindFailed
}

// Claim counts an attempt before anything is sent. The caller has checked that the row is due
// and Resendable.
func (r Row) Claim(now time.Time, ttl time.Duration, rule Resend) Row {
	r.State = batch.Submitting
	r.Version++
	r.Attempt++
	r.ClaimExpires = now.Add(ttl)
	r.ClaimTTL = ttl.Truncate(time.Microsecond)
	if r.MovedAt.IsZero() {
		r.MovedAt = now
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

// Leased returns the row while one monitor asks about it. Nobody renews a lease: when it ends, any
// monitor may ask. A lease puts the times of the row right ([Row.AsOf]) under a new version, so
// that no earlier outcome brings the wrong times back; a live claim keeps its version. A lease of
// 0 changes nothing.
func (r Row) Leased(now time.Time, lease time.Duration) Row {
	if lease == 0 {
		return r
	}
	ahead := r.Ahead(now)
	r = r.AsOf(now)
	if r.AskedAt = now; r.Monitored(now) {
		if ahead {
			r.Version++
		}
		r.NextCheck = now.Add(lease)
	}
	return r
}

// lastPostEnd returns the latest time at which the last POST that may have had an effect can have
// ended.
func (r Row) lastPostEnd() time.Time {
	if r.State == batch.Submitting {
		return r.ClaimExpires
	}
	return r.LastPost
}

// AboutLast reports whether a verdict against the batch is about the last attempt that may have
// been taken. named is the attempt that the verdict names; 0 if it names none. A verdict about an
// earlier attempt says nothing about the last one.
func (f InFlight) AboutLast(named int) bool {
	return named == 0 || named == f.Attempt || (named == f.DoubtAttempt && f.Resends == 0)
}

// age returns the time since the batch moved last, or since its last POST if that is not known.
func (r Row) age(now time.Time) time.Duration {
	if r.MovedAt.IsZero() {
		return now.Sub(r.lastPostEnd())
	}
	return now.Sub(r.MovedAt)
}

// seenEndpoint returns the endpoint that reported the present attempt as under way. An endpoint
// kept for an earlier attempt does not count.
func (r Row) seenEndpoint() string {
	if r.SeenAttempt != r.Attempt || r.SeenEndpoint == TakenBack {
		return ""
	}
	return r.SeenEndpoint
}

// isRollbackCounted reports whether the present attempt is counted in Rollbacks.
func (r Row) isRollbackCounted() bool {
	return r.SeenAttempt == r.Attempt && r.SeenEndpoint == TakenBack
}

// InFlight returns the monitor's view of the row.
func (r Row) InFlight(ref Ref, budget batch.Budget, now time.Time) InFlight {
	r = r.AsOf(now)
	return InFlight{
		Ref: ref, Version: r.Version, State: r.State, Attempt: r.Attempt, Spent: r.Spent, Budget: budget,
		PostedAgo: now.Sub(r.lastPostEnd()), DoubtAgo: now.Sub(r.DoubtSince), Resends: r.Resends, ResendLeft: r.ResendUntil.Sub(now),
		SettleLeft: r.SettlesAt.Sub(now), DoubtAttempt: r.DoubtAttempt, Failures: r.Failures,
		Ended:   r.State != batch.Submitting || r.isEndRecorded(),
		Refused: r.Refused, Requeued: r.Requeued, Withdrawn: r.Withdrawn, Called: r.Called(), Undecided: r.Undecided(), Prepared: bytes.Clone(r.Prepared),
		CheckIn: r.NextCheck.Sub(now), ClaimTTL: r.ClaimTTL, Seen: r.seenEndpoint(), Age: r.age(now), Rollbacks: r.Rollbacks, RolledBack: r.isRollbackCounted(),
		Was: &r,
	}
}

// Record returns the application's view of the row. The caller fills in the fields that a row
// lacks.
func (r Row) Record(key batch.Key) batch.Record {
	rec := batch.Record{
		Key: key, State: r.State, Version: r.Version, Attempt: r.Attempt, Spent: r.Spent,
		FinalAt: r.FinalAt, NotBefore: r.NotBefore, LastPost: r.LastPost, SettlesAt: r.SettlesAt,
		DoubtSince: r.DoubtSince, ResendUntil: r.ResendUntil,
		Error: r.Error, Decision: r.Decision, Receipts: r.Receipts, ClaimedBy: r.ClaimedBy, Quarantined: r.Quarantined, Withdrawn: r.Withdrawn,
	}
	if r.State == batch.Submitting {
		rec.ClaimExpires = r.ClaimExpires
	}
	return rec
}

// SettleOrders marks the row of a batch whose orders are settled. It returns false where the
// batch is not final, has moved on or is marked already.
func (r Row) SettleOrders(version int64) (Row, bool) {
	if !r.Final() || r.Version != version || r.OrdersSettled {
		return r, false
	}
	r.OrdersSettled = true
	r.Version++
	return r, true
}
