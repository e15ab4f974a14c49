// Package inhand is the table of the batches that this process has in hand: all that it knows,
// beyond the database, about the batches that it has claimed or follows. There is one entry for
// each batch. The queuer, the submitter, the monitor and the recorder report events to the table,
// and carry out the table's effects. No promise depends on the table: after a crash the database
// knows enough.
package inhand

import (
	"math"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Phase is the phase of a batch, as far as this process knows.
type Phase uint8

// The phases.
const (
	// None: this process does not follow the batch.
	None Phase = iota
	// Claimed: this process has claimed the batch, and no attempt has ended yet.
	Claimed
	// Accepted: the ledger has accepted the batch, and the acceptance is not written yet. It waits
	// for the ledger's next answer, so that acceptance and commit are one write.
	Accepted
	// Writing: an outcome other than the commit is being written.
	Writing
	// Open: the store says Pending or Valid, and this process asks about the batch from memory.
	Open
	// Committing: the commit is known, and is being written or waits for the end of a live claim.
	Committing
	// Watched: the store says Committed, and the ledger may still take the commit back. Of the row
	// only the prepared bytes are known, by which the commit was found.
	Watched
)

// isFollowed reports whether the batch is asked about from memory.
func (p Phase) isFollowed() bool { return p == Accepted || p == Open }

// Entry is everything this process knows about one batch.
type Entry struct {
	Phase Phase
	rowRead
	// PostBegan is when the last POST began, or a little earlier.
	PostBegan time.Time
	// StreamLive is true if a stream reported events about the batch's group when the batch was
	// accepted.
	StreamLive bool
	unwrittenOutcome
	// AskAt is the time of the next question. It is zero if the next event, or the store's check,
	// is to cause the question.
	AskAt time.Time
	// CheckAt is when the row is due in the store.
	CheckAt time.Time
	// WatchUntil is the end of phase Watched.
	WatchUntil time.Time
}

// rowRead is the row to ask about. In phase Accepted it is the row as claimed, in phase Open as
// written or read.
type rowRead struct {
	Row    store.InFlight
	ReadAt time.Time // when the ages in Row were true
}

// Aged returns the row with its ages at now.
func (r *rowRead) Aged(now time.Time) store.InFlight {
	f, d := r.Row, now.Sub(r.ReadAt)
	f.PostedAgo += d
	f.Age += d
	f.DoubtAgo += d
	f.ResendLeft = max(f.ResendLeft, math.MinInt64+d) - d // the least ResendLeft means that the row has no doubt
	f.SettleLeft = max(f.SettleLeft, math.MinInt64+d) - d
	f.CheckIn -= d
	return f
}

// unwrittenOutcome is an outcome that is written at WriteAt. In phase Accepted it is the
// acceptance, in other phases a commit that an event reported early or that a live claim holds
// back. WriteAt is zero if there is none.
type unwrittenOutcome struct {
	Unwritten store.Outcome
	WriteAt   time.Time
}

// takeUnwritten removes and returns the outcome, if there is one.
func (w *unwrittenOutcome) takeUnwritten() (o store.Outcome, ok bool) {
	o, ok = w.Unwritten, !w.WriteAt.IsZero()
	*w = unwrittenOutcome{}
	return o, ok
}

// Rules are the settings of [Entry.Step].
type Rules struct {
	FirstPoll    time.Duration // the time from acceptance to the first question
	PollInterval time.Duration // the time after which any process asks
	// MaxHold is the most time that an acceptance waits; 0 means that none waits.
	MaxHold time.Duration
}

// Facts are facts about the ledger and the table at the time of an event.
type Facts struct {
	StreamLive     bool      // whether a stream reports events about the batch's group
	StreamNamesIDs bool      // whether that stream names commits by their ids
	HeardAt        time.Time // when the stream last gave a reason to ask
	Full           bool      // whether the table follows as many batches as it may
	// Crowded is true if no more outcomes may wait.
	Crowded bool
	// Vanish is the trait of the ledger.
	Vanish time.Duration
	// ResendQuiet is true if a node of the ledger may ignore a resend: see the trait ResendQuiet.
	ResendQuiet bool
}

// isUnseen reports whether the batch was sent again, and no node has shown the resend yet.
func (f *Facts) isUnseen(row *store.InFlight) bool {
	return f.ResendQuiet && row.Resends > 0 && row.Seen == ""
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	// BatchClaimed: this process has claimed the batch.
	BatchClaimed EventKind = iota
	// AttemptEnded: an attempt has ended with an Outcome, after a request that took Took.
	AttemptEnded
	// CommitStreamed: an event of the ledger reported the commit Outcome.
	CommitStreamed
	// OutcomeFound: a question led to an Outcome.
	OutcomeFound
	// StateSame: the ledger's answer does not change the row; the next question is to come after
	// NextIn. With StateSaid the ledger has named the state that the row has.
	StateSame
	// NotAsked: a question could not be asked, and is to be repeated after NextIn.
	NotAsked
	// LeftToScan: the answer needs a read of the row with a lease, such as a scan for due rows
	// makes.
	LeftToScan
	// StillAccepted: a question about an acceptance that is not written found no commit.
	StillAccepted
	// RowRead: the row was read from the store, and is due again after NextIn.
	RowRead
	// WriteDue: the time Entry.WriteAt has come.
	WriteDue
	// OutcomeWritten: the store has answered about Outcome with Applied.
	OutcomeWritten
	// OutcomeLost: an outcome could not be written, and was given up.
	OutcomeLost
)

// Event is something that happened to a batch.
type Event struct {
	Kind    EventKind
	Outcome store.Outcome
	Applied store.Applied
	Row     store.InFlight // the row that was read, in RowRead
	Took    time.Duration  // duration of the request, in AttemptEnded
	// MayWait, of AttemptEnded, is true if the acceptance may wait for the ledger's next answer: a
	// crash meanwhile would cost time, and leave no doubt.
	MayWait bool
	NextIn  time.Duration // time until the next question, in StateSame, NotAsked and RowRead
	// Endpoint, of StillAccepted, is the endpoint that has shown the attempt as under way, if that
	// is worth a write.
	Endpoint  string
	StateSaid bool // whether the ledger named the row's own state, in StateSame
}

// Effects are the consequences of an event.
type Effects struct {
	write  [2]store.Outcome
	writes int
	// DueIn is the time until the store's row is due. HasDueIn is true if DueIn is set.
	DueIn    time.Duration
	HasDueIn bool
	// PutOffCheck is true if the store's check is to be put off by a PollInterval, because the
	// ledger was just asked.
	PutOffCheck bool
}

// Write returns the outcomes to write, in this order.
func (f *Effects) Write() []store.Outcome { return f.write[:f.writes] }

func (f *Effects) addWrite(o store.Outcome) {
	f.write[f.writes] = o
	f.writes++
}

func (f *Effects) setDueIn(d time.Duration) { f.DueIn, f.HasDueIn = d, true }

// soonerDue returns the smaller of d and DueIn. A negative d means none.
func (f *Effects) soonerDue(d time.Duration) time.Duration {
	if f.HasDueIn && (d < 0 || f.DueIn < d) {
		return f.DueIn
	}
	return d
}

const (
	// earlyCommitHold is how long a commit waits for the answer to its POST, if the commit came
	// first.
	earlyCommitHold = 20 * time.Millisecond
	// heldCommitPause is how long a commit that a live claim holds back waits before it is written
	// again.
	heldCommitPause = 250 * time.Millisecond
	// maxStreamedHold is how long an acceptance may wait for an event without a question.
	maxStreamedHold = time.Second
	// maxFollowTime is how long events cause questions about a batch. After that only the store's
	// checks cause questions.
	maxFollowTime = 5 * time.Minute
)

// canPoll reports whether the first question is so early that it is worth asking from memory.
func (r Rules) canPoll() bool { return r.FirstPoll <= r.PollInterval/4 }

// Step applies an event to the entry, and returns the effects. It changes nothing else.
func (e *Entry) Step(ev *Event, now time.Time, f Facts, r Rules) (out Effects) {
	switch ev.Kind {
	case BatchClaimed:
		if e.Phase == Accepted {
			e.flush(&out) // the batch's claim has ended long ago, by the store's clock
		}
		*e = Entry{Phase: Claimed, unwrittenOutcome: e.unwrittenOutcome} // a commit that was reported early stays
	case AttemptEnded:
		e.onAnswered(ev, now, f, r, &out)
	case CommitStreamed:
		e.onStreamed(ev.Outcome, now, f, r, &out)
	case OutcomeFound:
		// A commit becomes one write with a waiting acceptance. Any other outcome is written after
		// the acceptance.
		if o := ev.Outcome; o.Finding == store.IsCommitted {
			e.writeCommit(o, &out)
		} else {
			e.startWrite(&out)
			out.addWrite(o)
		}
	case StateSame:
		e.onSame(ev, now, f, r, &out)
	case NotAsked:
		e.onNotAsked(ev.NextIn, now, f, &out)
	case LeftToScan:
		e.onLeft(now, &out)
	case StillAccepted:
		if e.Phase == Accepted {
			e.Unwritten.Endpoint = ev.Endpoint
			e.flush(&out)
		}
	case RowRead:
		e.onRowRead(ev, now, f)
	case WriteDue:
		e.flush(&out)
	case OutcomeWritten:
		e.onWritten(ev, now, f, r, &out)
	case OutcomeLost:
		e.forget(&out) // the store's check finds out
	}
	return out
}

// onAnswered applies the result of an attempt. An acceptance waits if the answer to the next
// question, or an event, comes soon: then a quick commit and the acceptance are one write.
func (e *Entry) onAnswered(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	o := ev.Outcome
	e.startWrite(out)
	early, streamed := e.takeUnwritten()
	if o.Finding != store.Accepted {
		if out.addWrite(o); streamed {
			out.addWrite(early)
			e.Phase = Committing
		}
		return
	}
	if streamed {
		out.addWrite(asCommit(o, early))
		e.Phase = Committing
		return
	}
	e.PostBegan, e.StreamLive = now.Add(-ev.Took), f.StreamLive
	// A node may be lost before it has shown a resend. Then it would stay unknown that the next
	// resend need not wait. So a question is asked at once, and the acceptance is written with its
	// answer.
	resent := f.ResendQuiet && o.Was != nil && o.Was.Resends > 0
	asks := r.canPoll() && (!f.StreamLive || resent) && !f.Full
	switch {
	case asks, f.StreamLive && (!f.Full || f.HeardAt.Before(e.PostBegan)):
		o.Check = r.PollInterval
	default:
		o.Check = r.FirstPoll
	}
	streams := f.StreamNamesIDs && r.MaxHold <= maxStreamedHold
	if e.Phase == Committing || !ev.MayWait || r.MaxHold <= 0 || f.Crowded || !asks && (!streams || f.Full) {
		out.addWrite(o)
		return
	}
	e.Phase, e.Unwritten, e.WriteAt = Accepted, o, now.Add(r.MaxHold)
	e.Row, e.ReadAt = store.InFlight{Ref: o.Ref}, now
	if was := o.Was; was != nil {
		e.Row.Version, e.Row.State, e.Row.Attempt, e.Row.Prepared = was.Version, was.State, was.Attempt, was.Prepared
		e.Row.Resends = was.Resends
	}
	if asks {
		e.AskAt = now.Add(r.FirstPoll)
	}
}

// onStreamed applies a commit that an event reported. The ledger reports a commit once. If the
// POST is not answered yet, or the answer is being written, the commit waits a moment for that.
func (e *Entry) onStreamed(o store.Outcome, now time.Time, f Facts, r Rules, out *Effects) {
	switch e.Phase {
	case Accepted, Open:
		e.writeCommit(o, out)
	case None, Claimed, Writing:
		switch {
		case !e.WriteAt.IsZero(): // the commit waits already
		case r.MaxHold <= 0 || f.Crowded:
			e.writeCommit(o, out)
		default:
			e.Unwritten, e.WriteAt = o, now.Add(min(earlyCommitHold, r.MaxHold))
		}
	}
}

// startWrite begins to write an outcome other than the commit. An acceptance that waits is written
// first.
func (e *Entry) startWrite(out *Effects) {
	if e.Phase == Accepted {
		e.flush(out)
	}
	if e.Phase != Committing {
		e.Phase, e.AskAt = Writing, time.Time{}
	}
}

// writeCommit adds a commit to the effects. An acceptance that waits is written with the commit,
// at the claim's version. A commit that has no version gets the version of the row, if that is
// known.
func (e *Entry) writeCommit(o store.Outcome, out *Effects) {
	switch {
	case e.Phase == Accepted:
		o = asCommit(e.Unwritten, o)
		e.takeUnwritten()
	case e.Phase == Open && o.Was == nil:
		o.Ref, o.Version, o.Was, o.Prepared = e.Row.Ref, e.Row.Version, e.Row.Was, e.Row.Prepared
	}
	out.addWrite(o)
	e.Phase, e.AskAt = Committing, time.Time{}
}

// asCommit returns the acceptance, turned into the commit of the same batch: the submitter's
// outcome knows the claim's version.
func asCommit(accepted, committed store.Outcome) store.Outcome {
	accepted.Finding, accepted.Receipts, accepted.Query = store.IsCommitted, committed.Receipts, committed.Query
	accepted.Prepared = committed.Prepared
	return accepted
}

// onSame applies an answer that does not change the row. With a live stream the next event causes
// the next question. The store's check is put off if the ledger has just confirmed the row's
// state, and only if the check is near: a write for each question would cost more than the poll
// that it saves.
func (e *Entry) onSame(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	switch {
	case e.Phase != Open:
	case f.StreamLive && !f.isUnseen(&e.Row):
		e.AskAt = time.Time{}
		if ev.StateSaid && e.CheckAt.Sub(now) <= r.PollInterval/2 {
			e.CheckAt = now.Add(r.PollInterval)
			out.PutOffCheck = true
		}
	default:
		e.askAfter(ev.NextIn, now, out)
	}
}

// onNotAsked plans a question again.
func (e *Entry) onNotAsked(next time.Duration, now time.Time, f Facts, out *Effects) {
	switch {
	case e.Phase == Accepted:
		e.flush(out)
	case e.Phase != Open:
	case f.StreamLive:
		e.AskAt = now.Add(next)
	default:
		e.askAfter(next, now, out)
	}
}

// askAfter plans a question after next, unless the store's check is earlier.
func (e *Entry) askAfter(next time.Duration, now time.Time, out *Effects) {
	if e.AskAt = now.Add(next); !e.AskAt.Before(e.CheckAt) {
		e.onLeft(now, out)
	}
}

// onLeft leaves a row to the store's check.
func (e *Entry) onLeft(now time.Time, out *Effects) {
	if e.Phase == Open {
		out.setDueIn(max(0, e.CheckAt.Sub(now)))
		*e = Entry{}
	}
}

// onRowRead applies a row that was read from the store. The row is followed only if events cause
// questions about it: without a stream the store's checks are enough.
func (e *Entry) onRowRead(ev *Event, now time.Time, f Facts) {
	switch e.Phase {
	case None:
		if !f.StreamLive || f.Full {
			return
		}
		e.Phase, e.PostBegan = Open, now.Add(-ev.Row.PostedAgo)
	case Open:
	default:
		return
	}
	e.Row, e.ReadAt, e.CheckAt, e.AskAt = ev.Row, now, now.Add(ev.NextIn), time.Time{}
	e.Row.AskedAgo = 0 // counted from now on
}

// flush writes the unwritten outcome.
func (e *Entry) flush(out *Effects) {
	o, waits := e.takeUnwritten()
	if !waits {
		return
	}
	out.addWrite(o)
	if e.AskAt = (time.Time{}); e.Phase == Accepted {
		e.Phase = Writing
	} else {
		e.Phase = Committing
	}
}

// forget writes the unwritten outcome, and follows the batch no longer.
func (e *Entry) forget(out *Effects) {
	e.flush(out)
	*e = Entry{}
}

// onWritten applies the store's answer about an outcome.
func (e *Entry) onWritten(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	row, o := ev.Applied.Row, ev.Outcome
	if ev.Applied.Result == store.Held {
		e.onHeld(o, now, f, out)
		return
	}
	if e.Phase == Accepted { // the store has answered about another outcome
		e.flush(out)
	}
	switch {
	case ev.Applied.Result != store.Written:
		e.forget(out)
	case row.State == batch.Committed && f.Vanish > 0:
		*e = Entry{Phase: Watched, WatchUntil: now.Add(f.Vanish)}
		e.Row.Prepared = o.Prepared
	case row.Final(), row.State.Claimable():
		if row.State == batch.Committed {
			e.takeUnwritten() // the store has it already
		}
		e.forget(out)
	case row.State == batch.Pending || row.State == batch.Valid:
		e.follow(ev, now, f, r, out)
	default: // the batch is in doubt, or Invalid and not settled
		e.forget(out)
		out.setDueIn(o.Check)
	}
}

// onHeld applies a commit that a live claim holds back. If the claim is this process's, its answer
// and the commit become one write. Otherwise the commit waits and is tried again. If it may not
// wait it is dropped, and the monitor finds the commit once the claim has ended.
func (e *Entry) onHeld(o store.Outcome, now time.Time, f Facts, out *Effects) {
	switch {
	case e.Phase == Accepted:
		e.writeCommit(o, out)
	case f.Crowded:
		e.forget(out)
	default:
		e.Phase, e.Unwritten, e.WriteAt, e.AskAt = Committing, o, now.Add(heldCommitPause), time.Time{}
	}
}

// follow follows a batch that the store says is Pending or Valid. If an event came since the
// batch's POST began, or the stream became live after the acceptance, the event may have been
// about the batch, and one question follows soon.
func (e *Entry) follow(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	o, fresh := ev.Outcome, ev.Outcome.Finding == store.Accepted
	at := ev.Applied.At
	if at.IsZero() || fresh {
		at = ev.Applied.Row.LastPost
	}
	row := ev.Applied.Row.InFlight(ev.Applied.Ref, o.Budget, at)
	known := fresh
	if old := e.Aged(now); !fresh && (old.State == batch.Pending || old.State == batch.Valid) {
		// The monitor's outcome has neither budget nor ages.
		row.Budget, row.PostedAgo, row.Age, row.DoubtAgo = old.Budget, old.PostedAgo, old.Age, old.DoubtAgo
		if moved, at := ev.Applied.Row.MovedAt, ev.Applied.At; old.Was != nil && !moved.Equal(old.Was.MovedAt) && !at.IsZero() {
			row.Age = at.Sub(moved) // the deadline began again, or was put off
		}
		row.ResendLeft, row.SettleLeft = old.ResendLeft, old.SettleLeft
		known = true
	}
	early, streamed := e.takeUnwritten()
	switch {
	case streamed:
		early.Ref, early.Version, early.Was = row.Ref, row.Version, row.Was
		out.addWrite(early)
		e.Phase = Committing
	case e.Phase == Committing: // the commit is being written
		out.setDueIn(o.Check)
	case f.StreamLive && known && (!f.Full || o.Check >= r.PollInterval):
		missed := !f.HeardAt.Before(e.PostBegan) || fresh && (!e.StreamLive || f.isUnseen(&row))
		e.Phase, e.Row, e.ReadAt, e.CheckAt, e.AskAt = Open, row, now, now.Add(o.Check), time.Time{}
		if missed {
			e.AskAt = now.Add(r.FirstPoll)
		}
		out.setDueIn(o.Check)
	case !f.StreamLive && fresh && r.canPoll() && o.Check >= r.PollInterval:
		e.Phase, e.Row, e.ReadAt, e.CheckAt = Open, row, now, now.Add(r.PollInterval)
		e.AskAt = now.Add(r.FirstPoll)
	default:
		*e = Entry{}
		out.setDueIn(o.Check)
	}
}
