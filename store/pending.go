package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// PendingQuery asks for due rows.
type PendingQuery struct {
	Limit int           // the largest number of rows; must be positive
	Lease time.Duration // how long the rows belong to the caller alone; 0 only reads, and writes nothing
	// Services, if it is not nil, selects all rows of these services that the monitor owns,
	// whether they are due or leased or not; a row with a live claim is never the monitor's. It is
	// for events that a ledger sends by itself. The cost grows with the batches in flight in these
	// services.
	Services []batch.ServiceID
	// Ahead makes a row due that has a next check further away than Ahead. Nobody sets a check so
	// far ahead, so the database's clock was put back, and the row would wait until the clock is
	// there again. 0 makes no row due. A query with a Lease and without Services also corrects
	// claims that were made while the clock was ahead ([Row.AsOf]); it does not return their rows.
	Ahead time.Duration
}

// Due reports whether a row is due at now, by the database's clock: the monitor owns it, or its
// claim is to be put right.
func (q PendingQuery) Due(r Row, now time.Time) bool {
	if !r.Monitored(now) {
		return q.Lease != 0 && r.isClaimAhead(now)
	}
	return !r.NextCheck.After(now) || q.Ahead > 0 && r.NextCheck.After(now.Add(q.Ahead))
}

// InFlight is a row that the monitor asks the ledger about. Ages and times left are durations
// on the database's clock.
type InFlight struct {
	Ref
	Version int64
	State   batch.State
	Attempt int
	Spent   int
	Budget  batch.Budget
	// PostedAgo is the time since the end of the last POST that may have had an effect. For an
	// attempt in doubt it is the time since its claim expired, which is later.
	PostedAgo time.Duration
	// Age is the time since the batch moved last ([Row].MovedAt); PostedAgo where that is not
	// known.
	Age time.Duration
	// AskedAgo is how long nobody had asked about the batch when this call selected it; 0 where
	// that is not known.
	AskedAgo time.Duration
	// Rollbacks counts executions in a row that the ledger took back. RolledBack says that the
	// last attempt is among them.
	Rollbacks  int
	RolledBack bool
	// Resends counts the POSTs after the first unresolved attempt.
	Resends int
	// ResendLeft is how long a resend stays harmless; negative when it no longer is.
	ResendLeft time.Duration
	// SettleLeft is how long an Invalid may still become Committed.
	SettleLeft time.Duration
	// DoubtAttempt is the first unresolved attempt, claimed DoubtAgo.
	DoubtAttempt int
	DoubtAgo     time.Duration
	Failures     int // certain failures in a row; a doubt sets the number to 0
	// Ended is true if the last POST certainly ended: the doubt was recorded. Otherwise the claim
	// has expired on the database's clock, and its request may still be under way if that clock
	// jumped.
	Ended bool
	// ClaimTTL is the duration of the last claim, as the claiming instance set it; 0 if it is not
	// known, because code from before this field made the claim.
	ClaimTTL time.Duration
	// Seen is the endpoint that reported this very attempt as under way; "" for none.
	Seen      string
	Refused   bool   // the row keeps a refusal, which becomes final once the doubt is resolved
	Withdrawn bool   // a person has withdrawn the batch: [Row].Withdrawn
	Requeued  bool   // verdicts about attempts before the requeue may still be reported
	Called    bool   // a person was called since the batch moved last: see [Row].Called
	Undecided bool   // a person was called about this attempt: see [Row].Undecided
	Prepared  []byte // the bytes that KeepPrepared kept; nil if none are kept
	Was       *Row   // the row for the outcome: [Outcome].Was
	// CheckIn is the time until the row is due again; with a Lease it is the Lease.
	CheckIn time.Duration
}

// Due says in which time from now to ask about a batch next.
type Due struct {
	Ref
	In time.Duration
}
