package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// entries holds the entries, each in its slot, and keeps the counts, the schedule and the streams
// true to them. It is used under the table's lock.
type entries struct {
	rules   Rules
	keep    time.Duration // how long an entry is kept that nobody mentions
	wake    chan<- struct{}
	slots   map[batch.Key]*slot
	spare   []*slot
	counts  counts
	times   schedule
	streams streams
	left    []store.Outcome // for Run to write
	running bool            // Run keeps the times; else nothing waits
	ended   bool            // Run has ended
	swept   time.Time
}

// slot is the place for one batch.
type slot struct {
	Entry
	key     batch.Key
	about   about
	version int64 // the newest that this process has claimed or written
	claim   int64 // of this process's last claim
	used    time.Time
	stream  *Stream // in phase Open, where the ledger streams events
	place   int     // in stream.open
	at      time.Time
	index   int       // in the schedule; -1: nothing is scheduled
	asked   time.Time // the last question
	scanned *scanned  // what the next question is about; nil: the entry's own row
}

const (
	// maxSpare bounds the memory that is kept for later entries.
	maxSpare = 1024
	// grain is the time within which questions that fall due close together are one.
	grain = 2 * time.Millisecond
)

// slot returns the place of a batch.
func (all *entries) slot(key batch.Key, about about, now time.Time) *slot {
	s := all.slots[key]
	if s == nil {
		if last := len(all.spare) - 1; last >= 0 {
			s, all.spare = all.spare[last], all.spare[:last]
		} else {
			s = new(slot)
		}
		*s = slot{key: key, about: about, index: -1}
		all.slots[key] = s
	}
	s.used = now
	return s
}

// step lets an event happen.
func (all *entries) step(s *slot, ev *Event, now time.Time) Effects {
	f := Facts{
		Full: all.counts.followed >= maxFollowed, Crowded: all.counts.waiting >= maxWaiting || !all.running, Vanish: s.about.vanish,
		Quiet: s.about.quiet,
	}
	if by := all.streams.begun[s.about.group]; by != nil {
		f.Live, f.Names, f.Heard = by.live, by.live && by.names, by.heard
	}
	was := s.Phase
	all.counts.add(&s.Entry, -1)
	out := s.Step(ev, now, f, all.rules)
	all.settle(s, was)
	return out
}

// set replaces the entry of a slot.
func (all *entries) set(s *slot, e Entry) {
	was := s.Phase
	all.counts.add(&s.Entry, -1)
	s.Entry = e
	all.settle(s, was)
}

// settle counts a slot's entry, which was in phase was and has left the counts, as it is now. A
// slot whose entry says nothing any more is dropped, and may become another batch's.
func (all *entries) settle(s *slot, was Phase) {
	if s.Phase == Watched && was != Watched && all.counts.watched >= maxWatched {
		s.Entry = Entry{}
	}
	if s.scanned != nil && s.Ask.IsZero() {
		s.Ask = s.used // at once, in any state of the batch
	}
	all.counts.add(&s.Entry, 1)
	all.streams.join(s)
	if all.times.plan(s) {
		loop.Poke(all.wake)
	}
	if s.Phase == None && s.Due.IsZero() && s.scanned == nil {
		delete(all.slots, s.key)
		if len(all.spare) < maxSpare {
			all.spare = append(all.spare, s)
		}
	}
}

// written takes the store's answer about an outcome.
func (all *entries) written(w *Recorded, about about, now time.Time) (out Effects) {
	s := all.slot(w.Key, about, now)
	version := w.Version
	switch w.Applied.Result {
	case store.Written:
		version = w.Applied.Row.Version
	case store.Held: // a commit is news, whichever version the question was about
		version = 0
	}
	if s.late(version) {
		return out
	}
	if w.Applied.Result == store.Written {
		s.version = version
	}
	out = all.step(s, &Event{Kind: Written, Outcome: w.Outcome, Applied: w.Applied}, now)
	all.leave(&out)
	return out
}

// late reports whether news about a version is older than the entry. While an outcome is being
// written, only a newer claim makes news late: any other answer ends the writing.
func (s *slot) late(version int64) bool {
	return version != 0 && version < s.version && (s.Phase != Writing || version < s.claim)
}

// leave leaves outcomes for Run to write: the recorder, which reports, would wait for itself.
func (all *entries) leave(out *Effects) {
	if out.writes > 0 {
		all.left = append(all.left, out.Write()...)
		loop.Poke(all.wake)
	}
}

// due returns the questions and outcomes whose time has come, and the time until the next.
func (all *entries) due(now time.Time) (questions []Question, waited []store.Outcome, next time.Duration) {
	waited, all.left = all.left, nil
	for len(all.times) > 0 {
		s := all.times[0]
		if wait := s.at.Sub(now); wait > 0 && (len(questions) == 0 || wait >= grain || now.Sub(s.asked) < grain) {
			break // a batch just asked about, and due again soon, does not come along with each other question
		}
		if !s.Due.IsZero() && !s.Due.After(now) {
			out := all.step(s, &Event{Kind: IsDue}, now)
			waited = append(waited, out.Write()...)
			continue
		}
		if s.Ask.IsZero() { // only its Due is near
			break
		}
		e := s.Entry
		if e.Ask = (time.Time{}); e.Phase.followed() || s.scanned != nil {
			questions = append(questions, s.question(now))
		}
		all.set(s, e)
	}
	open, next := all.streams.due(now, all.keep) // keep is for the sweep
	for _, s := range open {
		e := s.Entry
		if e.Ask = (time.Time{}); now.Sub(e.Began) > followFor {
			e = Entry{} // nothing waits in phase Open
		} else if !s.asked.Equal(now) {
			questions = append(questions, s.question(now))
		}
		all.set(s, e)
	}
	all.sweep(now)
	if len(all.times) > 0 {
		next = min(next, all.times[0].at.Sub(now))
	}
	return questions, waited, next
}

// question makes a question about a slot's batch.
func (s *slot) question(now time.Time) Question {
	s.asked = now
	if r := s.scanned; r != nil {
		s.scanned = nil
		r.left--
		return Question{Row: r.row, Then: r.then, Seen: now.Sub(r.since), scanned: r}
	}
	return Question{Row: s.Aged(now), Seen: now.Sub(s.Read), Unwritten: s.Phase == Accepted}
}

// hasten lets the questions about batches come now that were to come at a time, and reports
// whether there were any: a batch may have been asked about meanwhile, or need no answer now.
func (all *entries) hasten(keys []batch.Key, at, now time.Time) (came bool) {
	for _, key := range keys {
		if s := all.slots[key]; s != nil && s.Ask.Equal(at) {
			e := s.Entry
			e.Ask = now
			all.set(s, e)
			came = true
		}
	}
	return came
}

// sweep forgets entries that nobody mentioned for a while: outcomes were given up, or other
// processes ended the batches.
func (all *entries) sweep(now time.Time) {
	if now.Sub(all.swept) < all.keep {
		return
	}
	all.swept = now
	for _, s := range all.slots {
		if s.Phase != Watched && now.Sub(s.used) > all.keep {
			out := all.step(s, &Event{Kind: Lost}, now)
			all.leave(&out)
		}
	}
}

// stop returns everything that waits; nothing waits from now on.
func (all *entries) stop(now time.Time) (waited []store.Outcome) {
	all.running, all.ended = false, true
	waited, all.left = all.left, nil
	for _, s := range all.times.waiting() {
		out := all.step(s, &Event{Kind: IsDue}, now)
		waited = append(waited, out.Write()...)
	}
	return waited
}
