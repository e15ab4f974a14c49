package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// entries has all entries, each in a slot, and keeps the counts, the schedule and the streams up
// to date. The table's lock guards it.
type entries struct {
	rules      Rules
	keepFor    time.Duration // how long an entry is kept that nothing mentions
	wake       chan<- struct{}
	slots      map[batch.Key]*slot
	spareSlots []*slot
	counts     counts
	times      schedule
	streams    streams
	toWrite    []store.Outcome // for Run to write
	isRunning  bool            // whether Run runs; if not, nothing waits
	hasEnded   bool            // Run has ended
	sweptAt    time.Time
}

// slot is the entry of one batch, with its places in the other structures.
type slot struct {
	Entry
	key           batch.Key
	service       serviceFacts
	version       int64 // the newest version that this process has claimed or written
	claimVersion  int64 // the version of this process's last claim
	usedAt        time.Time
	stream        *Stream // the stream of the group in phase Open, if the ledger streams events
	streamIndex   int     // index in stream.openSlots
	scheduledAt   time.Time
	scheduleIndex int         // the place in the schedule; -1 if it has none
	askedAt       time.Time   // when the last question was asked
	scannedRow    *scannedRow // the row of the next question; nil means the entry's own row
}

const (
	// maxSpare bounds the slots that are kept for later entries.
	maxSpare = 1024
	// askTogether is the time within which questions that fall due are asked together.
	askTogether = 2 * time.Millisecond
)

// slot returns the slot of a batch, and makes one if there is none.
func (all *entries) slot(key batch.Key, about serviceFacts, now time.Time) *slot {
	s := all.slots[key]
	if s == nil {
		if last := len(all.spareSlots) - 1; last >= 0 {
			s, all.spareSlots = all.spareSlots[last], all.spareSlots[:last]
		} else {
			s = new(slot)
		}
		*s = slot{key: key, service: about, scheduleIndex: -1}
		all.slots[key] = s
	}
	s.usedAt = now
	return s
}

// applyEvent applies an event to the entry of a slot.
func (all *entries) applyEvent(s *slot, ev *Event, now time.Time) Effects {
	f := Facts{
		Full: all.counts.followed >= maxFollowed, Crowded: all.counts.withUnwritten >= maxWaiting || !all.isRunning, Vanish: s.service.vanishTime,
		ResendQuiet: s.service.isQuiet,
	}
	if by := all.streams.begun[s.service.group]; by != nil {
		f.StreamLive, f.StreamNamesIDs, f.HeardAt = by.isLive, by.isLive && by.namesIDs, by.lastReasonAt
	}
	was := s.Phase
	all.counts.add(&s.Entry, -1)
	out := s.Step(ev, now, f, all.rules)
	all.recount(s, was)
	return out
}

// setEntry replaces the entry of a slot.
func (all *entries) setEntry(s *slot, e Entry) {
	was := s.Phase
	all.counts.add(&s.Entry, -1)
	s.Entry = e
	all.recount(s, was)
}

// recount counts a slot's entry as it is now. The entry was in phase was, and has been taken out
// of the counts. A slot whose entry is empty is removed, and may be used for another batch.
func (all *entries) recount(s *slot, was Phase) {
	if s.Phase == Watched && was != Watched && all.counts.watched >= maxWatched {
		s.Entry = Entry{}
	}
	if s.scannedRow != nil && s.AskAt.IsZero() {
		s.AskAt = s.usedAt // asked about at once, in any state of the batch
	}
	all.counts.add(&s.Entry, 1)
	all.streams.join(s)
	if all.times.place(s) {
		loop.Poke(all.wake)
	}
	if s.Phase == None && s.WriteAt.IsZero() && s.scannedRow == nil {
		delete(all.slots, s.key)
		if len(all.spareSlots) < maxSpare {
			all.spareSlots = append(all.spareSlots, s)
		}
	}
}

// applyWrite applies the store's answer about an outcome.
func (all *entries) applyWrite(w *Recorded, about serviceFacts, now time.Time) (out Effects) {
	s := all.slot(w.Key, about, now)
	version := w.Version
	switch w.Applied.Result {
	case store.Written:
		version = w.Applied.Row.Version
	case store.Held: // a commit is news, whatever version the question was about
		version = 0
	}
	if s.isStale(version) {
		return out
	}
	if w.Applied.Result == store.Written {
		s.version = version
	}
	out = all.applyEvent(s, &Event{Kind: OutcomeWritten, Outcome: w.Outcome, Applied: w.Applied}, now)
	all.leaveToRun(&out)
	return out
}

// isStale reports whether news about a version is older than the entry. While an outcome is being
// written, news is stale only if a newer claim exists: any other answer ends the writing.
func (s *slot) isStale(version int64) bool {
	return version != 0 && version < s.version && (s.Phase != Writing || version < s.claimVersion)
}

// leaveToRun leaves outcomes for Run to write. The caller is the recorder, which would wait for
// itself.
func (all *entries) leaveToRun(out *Effects) {
	if out.writes > 0 {
		all.toWrite = append(all.toWrite, out.Write()...)
		loop.Poke(all.wake)
	}
}

// takeDue returns the questions and outcomes that are due, and the time until the next ones.
func (all *entries) takeDue(now time.Time) (questions []Question, waited []store.Outcome, next time.Duration) {
	waited, all.toWrite = all.toWrite, nil
	for len(all.times) > 0 {
		s := all.times[0]
		if wait := s.scheduledAt.Sub(now); wait > 0 && (len(questions) == 0 || wait >= askTogether || now.Sub(s.askedAt) < askTogether) {
			break // a batch that was just asked about and is due again soon is not asked about with each other question
		}
		if !s.WriteAt.IsZero() && !s.WriteAt.After(now) {
			out := all.applyEvent(s, &Event{Kind: WriteDue}, now)
			waited = append(waited, out.Write()...)
			continue
		}
		if s.AskAt.IsZero() { // only its WriteAt is near
			break
		}
		e := s.Entry
		if e.AskAt = (time.Time{}); e.Phase.isFollowed() || s.scannedRow != nil {
			questions = append(questions, s.question(now))
		}
		all.setEntry(s, e)
	}
	open, next := all.streams.due(now, all.keepFor) // keepFor, so that sweep is called in time
	for _, s := range open {
		e := s.Entry
		if e.AskAt = (time.Time{}); now.Sub(e.PostBegan) > maxFollowTime {
			e = Entry{} // no outcome waits in phase Open
		} else if !s.askedAt.Equal(now) {
			questions = append(questions, s.question(now))
		}
		all.setEntry(s, e)
	}
	all.sweep(now)
	if len(all.times) > 0 {
		next = min(next, all.times[0].scheduledAt.Sub(now))
	}
	return questions, waited, next
}

// question makes a question about a slot's batch.
func (s *slot) question(now time.Time) Question {
	s.askedAt = now
	if r := s.scannedRow; r != nil {
		s.scannedRow = nil
		r.unanswered--
		return Question{Row: r.row, RowAskedAt: r.askedAt, KnownFor: now.Sub(r.since), scannedRow: r}
	}
	return Question{Row: s.Aged(now), KnownFor: now.Sub(s.ReadAt), Unwritten: s.Phase == Accepted}
}

// askNow makes the questions about batches that were planned for the time at due now, and reports
// whether there were any. A batch may have been asked about meanwhile, or need no question any
// more.
func (all *entries) askNow(keys []batch.Key, at, now time.Time) (came bool) {
	for _, key := range keys {
		if s := all.slots[key]; s != nil && s.AskAt.Equal(at) {
			e := s.Entry
			e.AskAt = now
			all.setEntry(s, e)
			came = true
		}
	}
	return came
}

// sweep removes entries that nothing has mentioned for a while, because their outcomes were given
// up, or other processes ended the batches.
func (all *entries) sweep(now time.Time) {
	if now.Sub(all.sweptAt) < all.keepFor {
		return
	}
	all.sweptAt = now
	for _, s := range all.slots {
		if s.Phase != Watched && now.Sub(s.usedAt) > all.keepFor {
			out := all.applyEvent(s, &Event{Kind: OutcomeLost}, now)
			all.leaveToRun(&out)
		}
	}
}

// stop returns all outcomes that wait. Nothing waits from now on.
func (all *entries) stop(now time.Time) (waited []store.Outcome) {
	all.isRunning, all.hasEnded = false, true
	waited, all.toWrite = all.toWrite, nil
	for _, s := range all.times.slotsInOrder() {
		out := all.applyEvent(s, &Event{Kind: WriteDue}, now)
		waited = append(waited, out.Write()...)
	}
	return waited
}
