package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// AsOf returns the row as it counts at now. It is the only rule about stored times that cannot be
// true, because the database's clock was ahead when they were written and was put right since. A
// time that must have passed, such as that of the last POST, shows that if it is more than
// [ClockSlack] ahead of now. Then no time of the row counts for longer than the rule that has set
// it:
//
//   - A claim lasts for its ClaimTTL at most, from now on. It is not over at once, because its
//     process may still be posting.
//   - LastPost, AskedAt and MovedAt are now.
//   - NotBefore is over. Reason: a claim does not write the rows that it skips, so a wait that
//     began anew would never end.
//   - How long a doubt has lasted is unknown. A resend is not harmless any more, unless it is
//     harmless for ever. A doubt that began ahead of now began at an unknown time, which is longer
//     ago than any log reaches; any other doubt began earlier by the time that the clock was
//     ahead.
//
// [PendingQuery].Ahead bounds NextCheck, and [Outcome].Settle bounds SettlesAt, since the row does
// not know these rules. All methods of a row use AsOf. A store writes the result back when a
// monitor asks about the row ([Row.Leased]), so that the times go on from there. A step of the
// clock that no time of the row shows changes nothing here.
func (r Row) AsOf(now time.Time) Row {
	if !r.Ahead(now) {
		return r
	}
	ahead := r.latestPastTime().Sub(now)
	posting := r.State == batch.Submitting && !r.isEndRecorded()
	if r.NotBefore.After(now) { // also under a live claim, since a claim does not change NotBefore
		r.NotBefore = now
	}
	if r.State.Claimable() {
		r.NextCheck = timeUpTo(r.NextCheck, now)
	}
	if begun := r.claimStart(); posting && begun.After(now) {
		r.ClaimExpires = r.ClaimExpires.Add(-begun.Sub(now))
		r.NextCheck = r.ClaimExpires
	}
	r.AskedAt, r.MovedAt, r.LastPost = timeUpTo(r.AskedAt, now), timeUpTo(r.MovedAt, now), timeUpTo(r.LastPost, now)
	switch {
	case r.State == batch.Submitting && !posting:
		r.ClaimExpires = r.LastPost
	case posting && r.isEndRecorded(): // the claim's end is not recorded, and must not look recorded
		r.LastPost = r.LastPost.Add(-time.Microsecond)
	}
	if r.DoubtAttempt == 0 {
		return r
	}
	forEver := r.isHarmlessForEver()
	if r.DoubtSince.After(now) {
		r.DoubtSince = longAgo()
	} else {
		r.DoubtSince = r.DoubtSince.Add(-ahead)
	}
	if !forEver {
		r.ResendUntil = r.DoubtSince
	}
	return r
}

// ClockSlack is the time by which a stored time that has passed may be ahead of now without a step
// of the clock. Reason: transactions that overlap read the clock at different times.
const ClockSlack = 5 * time.Second

// Ahead reports whether a time of the row shows that the clock was ahead of now. If so, [Row.AsOf]
// changes the row.
func (r Row) Ahead(now time.Time) bool { return r.latestPastTime().Sub(now) > ClockSlack }

// isClaimAhead reports whether the row has a live claim that lasts for longer than a claim that
// begins now.
func (r Row) isClaimAhead(now time.Time) bool {
	return r.Live(now) && r.claimStart().Sub(now) > ClockSlack
}

// latestPastTime returns the latest of the row's times that have passed by their meaning.
func (r Row) latestPastTime() time.Time {
	latest := r.LastPost
	for _, t := range [...]time.Time{r.AskedAt, r.MovedAt, r.DoubtSince} {
		if t.After(latest) {
			latest = t
		}
	}
	if r.State == batch.Submitting && !r.isEndRecorded() {
		if t := r.claimStart(); t.After(latest) {
			latest = t
		}
	}
	if r.State.Claimable() {
		if t := r.waitStart(); t.After(latest) {
			latest = t
		}
	}
	return latest
}

// unknownTTL bounds how long a claim lasts if the row does not know the claim's duration.
const unknownTTL = time.Hour

// claimStart returns when the claim began, or an earlier time.
func (r Row) claimStart() time.Time {
	if r.ClaimTTL <= 0 {
		return r.ClaimExpires.Add(-unknownTTL)
	}
	// ClaimTTL is truncated to the microsecond.
	return r.ClaimExpires.Add(-r.ClaimTTL).Truncate(time.Microsecond)
}

// waitStart returns when a claimable row began to wait for its NotBefore. That is NextCheck after
// an attempt, and LastPost after a requeue. A NextCheck later than NotBefore was set by the claim
// before the wait.
func (r Row) waitStart() time.Time {
	if r.NextCheck.After(r.NotBefore) || r.NextCheck.Before(r.LastPost) {
		return r.LastPost
	}
	return r.NextCheck
}

// longAgo returns a time before every other time of a row. It is not the zero time, which means
// "no time".
func longAgo() time.Time { return time.UnixMicro(1).UTC() }

// timeUpTo returns t, or now if t is later than now.
func timeUpTo(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

// isHarmlessForEver reports whether there are attempts in doubt whose bytes may be sent again for
// ever.
func (r Row) isHarmlessForEver() bool {
	const atLeast = 100 * 365 * 24 * time.Hour // dlt.Forever, as far as a time can be in the future
	return r.DoubtAttempt != 0 && r.ResendUntil.Sub(r.DoubtSince) > atLeast
}
