// Package inhand is the table of what this process has in hand: everything that it knows, beyond
// the database, about the batches that it has claimed or follows. There is one entry for each
// batch. The queuer, the submitter, the monitor and the recorder report events to the table, and
// its effects are carried out by them. Nothing in the table is needed for a promise: after a
// crash the database knows enough.
package inhand

import (
	"math"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Phase says where a batch stands, as far as this process knows.
type Phase uint8

// The phases.
const (
	// None: this process does not follow the batch.
	None Phase = iota
	// Claimed: this process has claimed the batch, and no attempt has ended yet.
	Claimed
	// Accepted: the ledger has accepted the batch, and the acceptance is not written yet. It
	// waits for the ledger's next word, so that acceptance and commit are one write.
	Accepted
	// Writing: an outcome is being written that is not the commit.
	Writing
	// Open: the store says Pending or Valid, and this process asks about the batch from memory.
	Open
	// Committing: the commit is known, and is being written or waits for the end of a live claim.
	Committing
	// Watched: the store says Committed, and the ledger may yet take that back. Of the row only
	// the prepared bytes are known, by which the commit was found.
	Watched
)

// followed reports whether the batch is asked about from memory.
func (p Phase) followed() bool { return p == Accepted || p == Open }

// Entry is everything this process knows about one batch.
type Entry struct {
	Phase Phase
	reading
	// Began is the beginning of the last POST, or a little earlier.
	Began time.Time
	// Live says that, when the batch was accepted, a stream reported events about its group.
	Live bool
	waiting
	// Ask is the time of the next question. Zero: the next event, or the store's check, causes
	// it.
	Ask time.Time
	// Check is when the row is due in the store.
	Check time.Time
	// Until ends phase Watched.
	Until time.Time
}

// reading is the row to ask about: in phase Accepted as it was claimed, in phase Open as it was
// written or read.
type reading struct {
	Row  store.InFlight
	Read time.Time // when the ages in Row were true
}

// Aged returns the row with its ages as they are now.
func (r *reading) Aged(now time.Time) store.InFlight {
	f, d := r.Row, now.Sub(r.Read)
	f.PostedAgo += d
	f.Age += d
	f.DoubtAgo += d
	f.ResendLeft = max(f.ResendLeft, math.MinInt64+d) - d // a row without a doubt has the least of all
	f.SettleLeft = max(f.SettleLeft, math.MinInt64+d) - d
	f.CheckIn -= d
	return f
}

// waiting is the outcome that is written at Due: in phase Accepted the acceptance, in other phases
// a commit that an event reported early, or that a live claim holds back. Without one, Due is
// zero.
type waiting struct {
	Unwritten store.Outcome
	Due       time.Time
}

// take takes the outcome, if there is one.
func (w *waiting) take() (o store.Outcome, ok bool) {
	o, ok = w.Unwritten, !w.Due.IsZero()
	*w = waiting{}
	return o, ok
}

// Rules are the settings of [Entry.Step].
type Rules struct {
	FirstPoll    time.Duration // from acceptance to the first question
	PollInterval time.Duration // after which any process asks
	// Hold is how long an acceptance waits at most; with 0 none waits.
	Hold time.Duration
}

// Facts are about the ledger and the table at the moment of an event.
type Facts struct {
	Live  bool      // a stream reports events about the batch's group
	Names bool      // that stream names commits by their ids
	Heard time.Time // when the stream last gave a reason to ask
	Full  bool      // the table follows as many batches as it may
	// Crowded: no more outcomes may wait.
	Crowded bool
	// Vanish is the ledger's trait.
	Vanish time.Duration
	// Quiet says that a node of the ledger may ignore a resend: the trait ResendQuiet.
	Quiet bool
}

// unseen reports whether no node has shown a resend yet.
func (f *Facts) unseen(row *store.InFlight) bool {
	return f.Quiet && row.Resends > 0 && row.Seen == ""
}

// Kind is the kind of an [Event].
type Kind uint8

// The kinds of events.
const (
	// IsClaimed: this process has claimed the batch.
	IsClaimed Kind = iota
	// Answered: an attempt has ended with an Outcome, after a request that took Took.
	Answered
	// Streamed: an event of the ledger reported the commit Outcome.
	Streamed
	// Found: a question gave an Outcome.
	Found
	// Same: the ledger's answer leaves the row as it is; the next question is to come after Next.
	// With Said the ledger has named the very state that the row is in.
	Same
	// Unasked: a question could not be asked, and is to come again after Next.
	Unasked
	// Left: the answer needs a read of the row with a lease, as a scan for due rows makes it.
	Left
	// Waited: a question about an acceptance that is not written found no commit.
	Waited
	// Seen: the row was read from the store, and is due again after Next.
	Seen
	// IsDue: the time Entry.Due has come.
	IsDue
	// Written: the store has answered about Outcome with Applied.
	Written
	// Lost: an outcome could not be written, and was given up.
	Lost
)

// Event is something that happened to a batch.
type Event struct {
	Kind    Kind
	Outcome store.Outcome
	Applied store.Applied
	Row     store.InFlight // of Seen
	Took    time.Duration  // of Answered
	// MayWait, of Answered, says that the acceptance may wait for the ledger's next word: a
	// crash meanwhile would cost time, and leave no doubt.
	MayWait bool
	Next    time.Duration // of Same, Unasked and Seen
	// Endpoint, of Waited, is the endpoint that shows the attempt as under way, if that is worth a
	// write.
	Endpoint string
	Said     bool // of Same
}

// Effects are the consequences of an event.
type Effects struct {
	write  [2]store.Outcome
	writes int
	// DueIn is the time until the store's row is due; Notes says that it is set.
	DueIn time.Duration
	Notes bool
	// PutOff: the store's check is put off by a PollInterval, since the ledger was just asked.
	PutOff bool
}

// Write returns the outcomes to write, in this order.
func (f *Effects) Write() []store.Outcome { return f.write[:f.writes] }

func (f *Effects) add(o store.Outcome) {
	f.write[f.writes] = o
	f.writes++
}

func (f *Effects) due(d time.Duration) { f.DueIn, f.Notes = d, true }

// sooner returns the sooner of a time until a row is due, negative for none, and this one's.
func (f *Effects) sooner(d time.Duration) time.Duration {
	if f.Notes && (d < 0 || f.DueIn < d) {
		return f.DueIn
	}
	return d
}

const (
	// earlyFor is how long a commit waits for the answer to the POST that it overtook.
	earlyFor = 20 * time.Millisecond
	// heldPause is how long a commit waits for a live claim to end before it is written again.
	heldPause = 250 * time.Millisecond
	// maxStreamedHold is how long an acceptance may wait for an event without a question.
	maxStreamedHold = time.Second
	// followFor is how long events cause questions about a batch; after that only the store's
	// checks do.
	followFor = 5 * time.Minute
)

// polls reports whether the first question comes so soon that it is worth asking from memory.
func (r Rules) polls() bool { return r.FirstPoll <= r.PollInterval/4 }

// Step lets an event change the entry, and returns the effects. It changes nothing else.
func (e *Entry) Step(ev *Event, now time.Time, f Facts, r Rules) (out Effects) {
	switch ev.Kind {
	case IsClaimed:
		if e.Phase == Accepted {
			e.flush(&out) // its claim has ended long ago, by the store's clock
		}
		*e = Entry{Phase: Claimed, waiting: e.waiting} // a commit that was reported early stays
	case Answered:
		e.answered(ev, now, f, r, &out)
	case Streamed:
		e.streamed(ev.Outcome, now, f, r, &out)
	case Found:
		// A commit becomes one write with a waiting acceptance; after any other outcome the
		// acceptance has waited in vain.
		if o := ev.Outcome; o.Finding == store.IsCommitted {
			e.commit(o, &out)
		} else {
			e.beginWrite(&out)
			out.add(o)
		}
	case Same:
		e.same(ev, now, f, r, &out)
	case Unasked:
		e.unasked(ev.Next, now, f, &out)
	case Left:
		e.left(now, &out)
	case Waited:
		if e.Phase == Accepted {
			e.Unwritten.Endpoint = ev.Endpoint
			e.flush(&out)
		}
	case Seen:
		e.seen(ev, now, f)
	case IsDue:
		e.flush(&out)
	case Written:
		e.written(ev, now, f, r, &out)
	case Lost:
		e.forget(&out) // the store's check finds out
	}
	return out
}

// answered takes the result of an attempt. An acceptance waits where the answer to the next
// question, or an event, comes soon: then a quick commit and the acceptance are one write.
func (e *Entry) answered(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	o := ev.Outcome
	e.beginWrite(out)
	early, streamed := e.take()
	if o.Finding != store.Accepted {
		if out.add(o); streamed {
			out.add(early)
			e.Phase = Committing
		}
		return
	}
	if streamed {
		out.add(join(o, early))
		e.Phase = Committing
		return
	}
	e.Began, e.Live = now.Add(-ev.Took), f.Live
	// A node may be lost before it has shown a resend; then nobody would know that the next resend
	// need not wait. So a question comes at once, and the acceptance is written with its answer.
	resent := f.Quiet && o.Was != nil && o.Was.Resends > 0
	asks := r.polls() && (!f.Live || resent) && !f.Full
	switch {
	case asks, f.Live && (!f.Full || f.Heard.Before(e.Began)):
		o.Check = r.PollInterval
	default:
		o.Check = r.FirstPoll
	}
	streams := f.Names && r.Hold <= maxStreamedHold
	if e.Phase == Committing || !ev.MayWait || r.Hold <= 0 || f.Crowded || !asks && (!streams || f.Full) {
		out.add(o)
		return
	}
	e.Phase, e.Unwritten, e.Due = Accepted, o, now.Add(r.Hold)
	e.Row, e.Read = store.InFlight{Ref: o.Ref}, now
	if was := o.Was; was != nil {
		e.Row.Version, e.Row.State, e.Row.Attempt, e.Row.Prepared = was.Version, was.State, was.Attempt, was.Prepared
		e.Row.Resends = was.Resends
	}
	if asks {
		e.Ask = now.Add(r.FirstPoll)
	}
}

// streamed takes a commit that an event reported. The ledger reports it once. If the POST is not
// answered yet, or the answer is being written, the commit waits a moment for that.
func (e *Entry) streamed(o store.Outcome, now time.Time, f Facts, r Rules, out *Effects) {
	switch e.Phase {
	case Accepted, Open:
		e.commit(o, out)
	case None, Claimed, Writing:
		switch {
		case !e.Due.IsZero(): // it waits already
		case r.Hold <= 0 || f.Crowded:
			e.commit(o, out)
		default:
			e.Unwritten, e.Due = o, now.Add(min(earlyFor, r.Hold))
		}
	}
}

// beginWrite begins to write an outcome that is not the commit, after the acceptance, if that
// still waits.
func (e *Entry) beginWrite(out *Effects) {
	if e.Phase == Accepted {
		e.flush(out)
	}
	if e.Phase != Committing {
		e.Phase, e.Ask = Writing, time.Time{}
	}
}

// commit adds a commit to the effects. An acceptance that waits is written with it, under the
// claim's version; a commit that came without a version gets the version of the row, where that is
// known.
func (e *Entry) commit(o store.Outcome, out *Effects) {
	switch {
	case e.Phase == Accepted:
		o = join(e.Unwritten, o)
		e.take()
	case e.Phase == Open && o.Was == nil:
		o.Ref, o.Version, o.Was, o.Prepared = e.Row.Ref, e.Row.Version, e.Row.Was, e.Row.Prepared
	}
	out.add(o)
	e.Phase, e.Ask = Committing, time.Time{}
}

// join returns the acceptance, turned into the commit of the same batch: the submitter's outcome
// knows the claim's version.
func join(accepted, committed store.Outcome) store.Outcome {
	accepted.Finding, accepted.Receipts, accepted.Query = store.IsCommitted, committed.Receipts, committed.Query
	accepted.Prepared = committed.Prepared
	return accepted
}

// same takes an answer that leaves the row as it is. With a live stream the next event causes the
// next question. The store's check is put off if the ledger has just confirmed the row's state,
// and only if the check is near: a write for each question would cost more than the poll that it
// saves.
func (e *Entry) same(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	switch {
	case e.Phase != Open:
	case f.Live && !f.unseen(&e.Row):
		e.Ask = time.Time{}
		if ev.Said && e.Check.Sub(now) <= r.PollInterval/2 {
			e.Check = now.Add(r.PollInterval)
			out.PutOff = true
		}
	default:
		e.again(ev.Next, now, out)
	}
}

// unasked makes a question come again.
func (e *Entry) unasked(next time.Duration, now time.Time, f Facts, out *Effects) {
	switch {
	case e.Phase == Accepted:
		e.flush(out)
	case e.Phase != Open:
	case f.Live:
		e.Ask = now.Add(next)
	default:
		e.again(next, now, out)
	}
}

// again asks after next, unless the store's check comes first.
func (e *Entry) again(next time.Duration, now time.Time, out *Effects) {
	if e.Ask = now.Add(next); !e.Ask.Before(e.Check) {
		e.left(now, out)
	}
}

// left leaves a row to the store's check.
func (e *Entry) left(now time.Time, out *Effects) {
	if e.Phase == Open {
		out.due(max(0, e.Check.Sub(now)))
		*e = Entry{}
	}
}

// seen takes a row from the store. It is followed only where events cause questions about it:
// without a stream the store's checks are enough.
func (e *Entry) seen(ev *Event, now time.Time, f Facts) {
	switch e.Phase {
	case None:
		if !f.Live || f.Full {
			return
		}
		e.Phase, e.Began = Open, now.Add(-ev.Row.PostedAgo)
	case Open:
	default:
		return
	}
	e.Row, e.Read, e.Check, e.Ask = ev.Row, now, now.Add(ev.Next), time.Time{}
	e.Row.AskedAgo = 0 // from now on it is asked about
}

// flush writes the unwritten outcome.
func (e *Entry) flush(out *Effects) {
	o, waits := e.take()
	if !waits {
		return
	}
	out.add(o)
	if e.Ask = (time.Time{}); e.Phase == Accepted {
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

// written takes the store's answer about an outcome.
func (e *Entry) written(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	row, o := ev.Applied.Row, ev.Outcome
	if ev.Applied.Result == store.Held {
		e.held(o, now, f, out)
		return
	}
	if e.Phase == Accepted { // the store has answered about another outcome
		e.flush(out)
	}
	switch {
	case ev.Applied.Result != store.Written:
		e.forget(out)
	case row.State == batch.Committed && f.Vanish > 0:
		*e = Entry{Phase: Watched, Until: now.Add(f.Vanish)}
		e.Row.Prepared = o.Prepared
	case row.Final(), row.State.Claimable():
		if row.State == batch.Committed {
			e.take() // the store knows
		}
		e.forget(out)
	case row.State == batch.Pending || row.State == batch.Valid:
		e.opened(ev, now, f, r, out)
	default: // in doubt, or Invalid and not settled
		e.forget(out)
		out.due(o.Check)
	}
}

// held takes a commit that a live claim holds back. If the claim is this process's, its answer
// and the commit become one write; else the commit waits for a while, again and again. Where it
// may not wait it is dropped: the monitor finds the commit once the claim has ended.
func (e *Entry) held(o store.Outcome, now time.Time, f Facts, out *Effects) {
	switch {
	case e.Phase == Accepted:
		e.commit(o, out)
	case f.Crowded:
		e.forget(out)
	default:
		e.Phase, e.Unwritten, e.Due, e.Ask = Committing, o, now.Add(heldPause), time.Time{}
	}
}

// opened follows a batch that the store says is Pending or Valid. An event that came since its
// POST began may have been about it: then one question follows soon. So it does where the
// stream went live after the acceptance.
func (e *Entry) opened(ev *Event, now time.Time, f Facts, r Rules, out *Effects) {
	o, fresh := ev.Outcome, ev.Outcome.Finding == store.Accepted
	at := ev.Applied.At
	if at.IsZero() || fresh {
		at = ev.Applied.Row.LastPost
	}
	row := ev.Applied.Row.InFlight(ev.Applied.Ref, o.Budget, at)
	known := fresh
	if old := e.Aged(now); !fresh && (old.State == batch.Pending || old.State == batch.Valid) {
		// The monitor's outcome knows neither budget nor ages.
		row.Budget, row.PostedAgo, row.Age, row.DoubtAgo = old.Budget, old.PostedAgo, old.Age, old.DoubtAgo
		if moved, at := ev.Applied.Row.MovedAt, ev.Applied.At; old.Was != nil && !moved.Equal(old.Was.MovedAt) && !at.IsZero() {
			row.Age = at.Sub(moved) // its deadline began anew, or was put off
		}
		row.ResendLeft, row.SettleLeft = old.ResendLeft, old.SettleLeft
		known = true
	}
	early, streamed := e.take()
	switch {
	case streamed:
		early.Ref, early.Version, early.Was = row.Ref, row.Version, row.Was
		out.add(early)
		e.Phase = Committing
	case e.Phase == Committing: // the commit is being written
		out.due(o.Check)
	case f.Live && known && (!f.Full || o.Check >= r.PollInterval):
		missed := !f.Heard.Before(e.Began) || fresh && (!e.Live || f.unseen(&row))
		e.Phase, e.Row, e.Read, e.Check, e.Ask = Open, row, now, now.Add(o.Check), time.Time{}
		if missed {
			e.Ask = now.Add(r.FirstPoll)
		}
		out.due(o.Check)
	case !f.Live && fresh && r.polls() && o.Check >= r.PollInterval:
		e.Phase, e.Row, e.Read, e.Check = Open, row, now, now.Add(r.PollInterval)
		e.Ask = now.Add(r.FirstPoll)
	default:
		*e = Entry{}
		out.due(o.Check)
	}
}
