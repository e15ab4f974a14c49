package monitor

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// data has everything on which a verdict depends. Its methods return facts about the row, and
// decide nothing.
type data struct {
	inFlight store.InFlight
	known    Known
	traits   dlt.Traits
	rules    Rules
}

// nextQuestion returns the time until the next question. It doubles from FirstPoll to PollInterval
// as the batch gets older.
func (d *data) nextQuestion() time.Duration {
	unseen := d.inFlight.Resends > 0 && d.traits.ResendQuiet > 0 && d.inFlight.Seen == "" // see [shownBy]
	if d.rules.Streamed && !unseen && (d.inFlight.State == batch.Pending || d.inFlight.State == batch.Valid) {
		return d.rules.PollInterval
	}
	return min(max(d.inFlight.PostedAgo, d.rules.FirstPoll), d.rules.PollInterval)
}

// isForgotten reports whether the node that a resend would go to has shown this attempt, or
// another batch that was under way with it, and now has no trace of it. The node has then
// forgotten the bytes, and does not ignore a resend; docs/resend.md has the proof. An answer of
// another node, or about an earlier attempt, does not show that.
func (d *data) isForgotten() bool {
	st := d.known.Status
	return d.known.Forgotten || d.inFlight.Seen != "" && st.Reported == batch.ReportedUnknown && st.Endpoint == d.inFlight.Seen
}

// sendsBehindAccepted reports whether batches of the lane are sent behind accepted ones.
func (d *data) sendsBehindAccepted() bool { return d.rules.Reliant && d.traits.KeepsOrder }

// mayBePassed reports whether other batches may be sent behind this one, as the store shows it.
func (d *data) mayBePassed() bool {
	return d.sendsBehindAccepted() && (d.inFlight.State == batch.Pending || d.inFlight.State == batch.Valid)
}

// isOfEarlierOnly reports whether the row is in doubt about attempts before its last.
func (d *data) isOfEarlierOnly() bool {
	return d.inFlight.State == batch.Submitting && d.inFlight.DoubtAttempt != 0 && d.inFlight.DoubtAttempt < d.inFlight.Attempt
}

// maybeOfEarlier reports whether a verdict may be about an earlier attempt, from before a requeue
// or a failure, while the last attempt may still arrive
// (docs/ledgers/splinter.md#the-same-bytes-again: it is executed again).
func (d *data) maybeOfEarlier() bool {
	return d.inFlight.State == batch.Submitting && d.inFlight.Attempt > 1 && d.known.Status.Attempt != d.inFlight.Attempt && d.lateArrivalLeft() > 0
}

// lateArrivalLeft returns for how long the last attempt may still take effect, if its end is not
// known.
func (d *data) lateArrivalLeft() time.Duration { return d.traits.LateArrival - d.sinceClaimEnd() }

// sinceClaimEnd returns the least time since the last POST ended. The database's clock may have
// jumped, so this process's own clock counts, too. If it is not known how the claim ended, its
// request may have run for the claimer's whole TTL.
func (d *data) sinceClaimEnd() time.Duration {
	seen := d.known.Seen
	if !d.inFlight.Ended {
		ttl := d.inFlight.ClaimTTL
		if ttl == 0 {
			ttl = d.rules.TTL
		}
		seen -= ttl
	}
	return min(d.inFlight.PostedAgo, seen)
}

// resendLeft returns for how long a resend stays harmless. If this process has known the row for
// longer than the row is old by the database's clock, that clock has stepped back, and less time
// is left.
func (d *data) resendLeft() time.Duration {
	const forEver = 100 * 365 * 24 * time.Hour // longer than any resend stays harmless
	back := d.known.Seen - d.inFlight.PostedAgo
	if back <= 0 || d.inFlight.ResendLeft <= 0 || d.inFlight.ResendLeft > forEver {
		return d.inFlight.ResendLeft
	}
	return d.inFlight.ResendLeft - back
}

// hasSpendable reports whether an attempt may still help to end the batch: it is withdrawn, or it
// was not refused and has an attempt left. Whether a resend is harmless is decided by
// [store.Resend].
func (d *data) hasSpendable() bool {
	return !d.inFlight.Refused && (d.inFlight.Withdrawn || !d.inFlight.Budget.Exhausted(d.inFlight.Spent))
}

// wasRolledBack reports whether the ledger has taken the execution of the attempt back: it has
// executed the attempt, and has shown that for longer than Traits.Stale without a commit. The
// database's clock may have jumped, so this process's own clock counts, too.
func (d *data) wasRolledBack() bool {
	st := d.known.Status
	return d.inFlight.State == batch.Valid && st != nil && st.Reported == batch.ReportedValid && d.traits.Stale > 0 && d.sinceClaimEnd() > d.traits.Stale
}
