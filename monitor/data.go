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
	f store.InFlight
	k Known
	t dlt.Traits
	r Rules
}

// nextQuestion returns the time until the next question. It doubles from FirstPoll to PollInterval
// as the batch gets older.
func (d *data) nextQuestion() time.Duration {
	unseen := d.f.Resends > 0 && d.t.ResendQuiet > 0 && d.f.Seen == "" // see [shownBy]
	if d.r.Streamed && !unseen && (d.f.State == batch.Pending || d.f.State == batch.Valid) {
		return d.r.PollInterval
	}
	return min(max(d.f.PostedAgo, d.r.FirstPoll), d.r.PollInterval)
}

// forgotten reports whether the node that a resend would go to has shown this attempt, or another
// batch that was under way with it, and now has no trace of it. The node has then forgotten the
// bytes, and does not ignore a resend; docs/resend.md has the proof. An answer of another node, or
// about an earlier attempt, does not show that.
func (d *data) forgotten() bool {
	st := d.k.Status
	return d.k.Forgotten || d.f.Seen != "" && st.Reported == batch.ReportedUnknown && st.Endpoint == d.f.Seen
}

// sendsBehindAccepted reports whether batches of the lane are sent behind accepted ones.
func (d *data) sendsBehindAccepted() bool { return d.r.Reliant && d.t.KeepsOrder }

// passable reports whether other batches may be sent behind this one, as the store shows it.
func (d *data) passable() bool {
	return d.sendsBehindAccepted() && (d.f.State == batch.Pending || d.f.State == batch.Valid)
}

// earlierOnly reports whether the row is in doubt about attempts before its last.
func (d *data) earlierOnly() bool {
	return d.f.State == batch.Submitting && d.f.DoubtAttempt != 0 && d.f.DoubtAttempt < d.f.Attempt
}

// maybeEarlier reports whether a verdict may be about an earlier attempt, from before a requeue or
// a failure, while the last attempt may still arrive
// (docs/ledgers/splinter.md#the-same-bytes-again: it is executed again).
func (d *data) maybeEarlier() bool {
	return d.f.State == batch.Submitting && d.f.Attempt > 1 && d.k.Status.Attempt != d.f.Attempt && d.lateArrivalLeft() > 0
}

// lateArrivalLeft returns for how long the last attempt may still take effect, if its end is not
// known.
func (d *data) lateArrivalLeft() time.Duration { return d.t.LateArrival - d.endedAgo() }

// endedAgo returns the least time since the last POST ended. The database's clock may have jumped,
// so this process's own clock counts, too. If it is not known how the claim ended, its request may
// have run for the claimer's whole TTL.
func (d *data) endedAgo() time.Duration {
	seen := d.k.Seen
	if !d.f.Ended {
		ttl := d.f.ClaimTTL
		if ttl == 0 {
			ttl = d.r.TTL
		}
		seen -= ttl
	}
	return min(d.f.PostedAgo, seen)
}

// resendLeft returns for how long a resend stays harmless. If this process has known the row for
// longer than the row is old by the database's clock, that clock has stepped back, and less time
// is left.
func (d *data) resendLeft() time.Duration {
	const forEver = 100 * 365 * 24 * time.Hour // longer than any resend stays harmless
	back := d.k.Seen - d.f.PostedAgo
	if back <= 0 || d.f.ResendLeft <= 0 || d.f.ResendLeft > forEver {
		return d.f.ResendLeft
	}
	return d.f.ResendLeft - back
}

// spendable reports whether an attempt may still help to end the batch: it is withdrawn, or it was
// not refused and has an attempt left. Whether a resend is harmless is decided by [store.Resend].
func (d *data) spendable() bool {
	return !d.f.Refused && (d.f.Withdrawn || !d.f.Budget.Exhausted(d.f.Spent))
}

// rolledBack reports whether the ledger has taken the execution of the attempt back: it has
// executed the attempt, and has shown that for longer than Traits.Stale without a commit. The
// database's clock may have jumped, so this process's own clock counts, too.
func (d *data) rolledBack() bool {
	st := d.k.Status
	return d.f.State == batch.Valid && st != nil && st.Reported == batch.ReportedValid && d.t.Stale > 0 && d.endedAgo() > d.t.Stale
}
