package inhand

import (
	"context"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// Options of a table; all must be set except Events. The functions are called without a lock,
// and may block, but not on the table; Written and Lost call neither Write nor WriteOne.
type Options struct {
	Rules
	TTL    time.Duration // of this process's claims
	Traits func(batch.ServiceID) dlt.Traits
	// Events says that the ledger streams events.
	Events bool
	// Runs says that nothing of a lane leaves before its whole run has been answered, as where
	// the strategy relies on the ledger's order.
	Runs bool
	// MayWait says whether an acceptance may wait for the ledger's next word.
	MayWait func(store.Outcome) bool
	// Write writes outcomes that became known together, and may keep the slice. WriteOne is
	// Write for one.
	Write    func([]store.Outcome)
	WriteOne func(store.Outcome)
	// Due says that a row will be due in the store after d.
	Due func(d time.Duration)
	// Free says that lanes may go on, Over that this process has nothing under way in a lane,
	// and Later that a lane has work after d.
	Free  func(...batch.ServiceID)
	Over  func(batch.ServiceID)
	Later func(batch.ServiceID, time.Duration)
}

// Table holds the entries. All methods may be called concurrently.
type Table struct {
	o    Options
	keep time.Duration // entries that nobody mentioned for so long are forgotten
	wake chan struct{} // capacity one: the next time may have come closer

	mu      sync.Mutex
	batches map[batch.Key]*slot
	times   schedule
	groups  map[string]*group
	runs    map[batch.ServiceID]sighting // the last claims of the runs that are out
	follows int                          // entries in the phases Accepted and Open
	watches int                          // entries in the phase Watched
	waits   int                          // entries with an unwritten outcome
	left    []store.Outcome              // for Run to write
	refused []refusal                    // the oldest first
	lastAsk time.Time                    // when events last caused a question
	sights  sightings
	running bool // Run keeps the times; else nothing waits
	swept   time.Time
	spare   []*slot
}

// slot is the table's place for one batch.
type slot struct {
	Entry
	key     batch.Key
	about   about
	version int64 // the newest that this process has claimed or written
	claim   int64 // of this process's last claim
	used    time.Time
	group   *group // in phase Open, where the ledger streams events
	place   int    // in group.open
	at      time.Time
	index   int       // in the schedule; -1: nothing is scheduled
	asked   time.Time // the last question
}

const (
	// maxFollowed bounds the entries that are asked about from memory; other batches wait for
	// their check in the store.
	maxFollowed = 10_000
	// maxWaiting bounds the outcomes that wait: a ledger may report all its commits ever, and
	// then waits until some are written.
	maxWaiting = 4096
	// maxWatched bounds the commits that are watched.
	maxWatched = 10_000
	// maxSpare bounds the memory that is kept for later entries.
	maxSpare = 1024
	// grain is the time within which questions that fall due close together are one.
	grain = 2 * time.Millisecond
	// askPause is the least time between two questions that events cause.
	askPause = 10 * time.Millisecond
)

// New returns an empty table.
func New(o Options) *Table {
	keep := max(10*time.Minute, 4*o.TTL, 4*o.PollInterval) // more than the time between two questions about a row
	return &Table{
		o: o, keep: keep, sights: sightings{keep: keep}, wake: make(chan struct{}, 1), swept: time.Now(),
		batches: map[batch.Key]*slot{}, groups: map[string]*group{}, runs: map[batch.ServiceID]sighting{},
	}
}

// Claimed says that this process has claimed a run, and is about to post it.
func (t *Table) Claimed(run store.ClaimedRun) {
	now, about := time.Now(), t.about(run.Service)
	var late []store.Outcome
	t.mu.Lock()
	for _, c := range run.Batches {
		s := t.slot(c.Key, about, now)
		s.version, s.claim = c.Version, c.Version
		out := t.step(s, &Event{Kind: IsClaimed}, now)
		late = append(late, out.Write()...)
	}
	if t.o.Runs {
		last := run.Batches[len(run.Batches)-1]
		t.runs[run.Service] = sighting{last.Key, last.Version}
	}
	t.mu.Unlock()
	t.write(late)
}

// Answered says that an attempt has ended with an outcome, after a request that took so long.
func (t *Table) Answered(o store.Outcome, took time.Duration) {
	now, about := time.Now(), t.about(o.Key.Service)
	ev := Event{Kind: Answered, Outcome: o, Took: took, MayWait: o.Finding == store.Accepted && t.o.MayWait(o)}
	t.mu.Lock()
	out := t.step(t.slot(o.Key, about, now), &ev, now)
	t.mu.Unlock()
	switch all := out.Write(); len(all) {
	case 0:
	case 1:
		t.o.WriteOne(all[0])
	default:
		t.o.Write(append([]store.Outcome(nil), all...))
	}
}

// Put takes outcomes that questions gave, and that became known together. It may keep the
// slice.
func (t *Table) Put(all []store.Outcome) { t.take(all, Found) }

// Told takes commits that the ledger reported by an event, maybe before it has answered their
// POSTs.
func (t *Table) Told(all []store.Outcome) { t.take(all, Told) }

func (t *Table) take(all []store.Outcome, kind Kind) {
	if len(all) == 0 {
		return
	}
	now := time.Now()
	abouts := make([]about, len(all))
	for i := range all {
		abouts[i] = t.about(all[i].Key.Service)
	}
	found := make([]store.Outcome, 0, len(all))
	t.mu.Lock()
	for i := range all {
		s := t.slot(all[i].Key, abouts[i], now)
		if g := t.groups[s.about.group]; g != nil && kind == Told {
			g.names = true
		}
		if v := all[i].Version; v != 0 && v < s.version { // its row has moved on: the store will say so
			found = append(found, all[i])
			continue
		}
		out := t.step(s, &Event{Kind: kind, Outcome: all[i]}, now)
		found = append(found, out.Write()...)
	}
	t.mu.Unlock()
	t.write(found)
}

// Answer is the result of a question that gave no outcome: Same, Unasked, Left or Waited.
type Answer struct {
	Key  batch.Key
	Kind Kind
	Next time.Duration
	Said bool
	// Refused, of Unasked, says that no hand was free. The refused answers of one call are one
	// request, which HandsFree makes come before Next.
	Refused bool
}

// refusal is a request that found no free hand.
type refusal struct {
	keys []batch.Key
	ask  time.Time // when its questions come again by themselves
}

// Asked takes the answers to questions from memory that gave no outcome. It returns the rows
// whose check in the store is put off.
func (t *Table) Asked(all []Answer) (due []store.Due) {
	now := time.Now()
	var waited []store.Outcome
	var refused refusal
	soonest := time.Duration(-1)
	t.mu.Lock()
	for _, a := range all {
		s := t.batches[a.Key]
		if s == nil {
			continue
		}
		ref := s.Row.Ref
		out := t.step(s, &Event{Kind: a.Kind, Next: a.Next, Said: a.Said}, now)
		waited = append(waited, out.Write()...)
		if a.Refused && now.Before(s.Ask) {
			refused.keys, refused.ask = append(refused.keys, a.Key), s.Ask
		}
		if out.PutOff {
			due = append(due, store.Due{Ref: ref, In: t.o.PollInterval})
		}
		if out.Notes && (soonest < 0 || out.DueIn < soonest) {
			soonest = out.DueIn
		}
	}
	t.refuse(refused, now)
	t.mu.Unlock()
	t.write(waited)
	if soonest >= 0 {
		t.o.Due(soonest)
	}
	return due
}

// refuse remembers a refusal, and forgets those whose questions have come by themselves. t.mu is
// held.
func (t *Table) refuse(r refusal, now time.Time) {
	for len(t.refused) > 0 && !now.Before(t.refused[0].ask) {
		t.refused = t.refused[1:]
	}
	if len(r.keys) > 0 {
		t.refused = append(t.refused, r)
	}
}

// HandsFree says that so many hands are free: the requests that found none come now, the oldest
// first, one for each hand.
func (t *Table) HandsFree(hands int) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for hands > 0 && len(t.refused) > 0 {
		r := t.refused[0]
		t.refused = t.refused[1:]
		came := false
		for _, key := range r.keys {
			s := t.batches[key]
			if s == nil || !s.Ask.Equal(r.ask) { // it was asked meanwhile, or needs no answer now
				continue
			}
			e := s.Entry
			e.Ask = now
			t.set(s, e, now)
			came = true
		}
		if came {
			hands--
		}
	}
}

// Since returns for how long this process has known a row as it is, with its claim over, on its
// own monotonic clock.
func (t *Table) Since(row store.InFlight) time.Duration {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.sights.first(sighting{row.Key, row.Version}, now))
}

// Follow says that a row was read from the store, belongs to a lane that this process posts to,
// stays as it is, and is due again after next.
func (t *Table) Follow(row store.InFlight, next time.Duration) {
	now, about := time.Now(), t.about(row.Key.Service)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step(t.slot(row.Key, about, now), &Event{Kind: Seen, Row: row, Next: next}, now)
}

// Recorded is an outcome and the store's answer about it.
type Recorded struct {
	store.Outcome
	Applied store.Applied
	// Again says that an earlier write failed and may have been applied all the same.
	Again bool
}

// Written says that the store has answered about a group of outcomes. It wakes the lanes
// concerned all at once, so that lanes that can go on together do. It writes nothing itself.
func (t *Table) Written(group []Recorded) {
	now := time.Now()
	var free []batch.ServiceID
	var over []batch.ServiceID
	soonest := time.Duration(-1)
	abouts := make([]about, len(group))
	for i := range group {
		abouts[i] = t.about(group[i].Key.Service)
	}
	t.mu.Lock()
	for i := range group {
		if t.runEnded(group[i].Outcome) { // a run's last batch: its lane may go on
			free = append(free, group[i].Key.Service)
		}
	}
	for i := range group {
		w := &group[i]
		_, out := t.runs[w.Key.Service]
		switch {
		case w.Applied.Result == store.Held: // the lane waits for the live claim
		case w.Applied.Result != store.Written: // another process was faster, and has notified only its own queuer
			over = append(over, w.Key.Service)
		case w.Applied.Row.Final() && !out:
			free = append(free, w.Key.Service)
		}
		eff := t.writtenOne(w, abouts[i], now)
		t.leave(eff)
		if eff.Notes && (soonest < 0 || eff.DueIn < soonest) {
			soonest = eff.DueIn
		}
	}
	t.mu.Unlock()
	for _, s := range over {
		t.o.Over(s)
	}
	t.o.Free(free...)
	for i := range group {
		if w := &group[i]; w.Applied.Result == store.Written && w.Applied.Row.State.Claimable() {
			t.o.Later(w.Key.Service, w.Delay)
		}
	}
	if soonest >= 0 {
		t.o.Due(soonest)
	}
}

// writtenOne is Written for one outcome. t.mu is held.
func (t *Table) writtenOne(w *Recorded, about about, now time.Time) (out Effects) {
	s := t.slot(w.Key, about, now)
	version := w.Version
	switch w.Applied.Result {
	case store.Written:
		version = w.Applied.Row.Version
	case store.Held: // a commit is news, whichever version the question was about
		version = 0
	}
	if w.By == batch.ByMonitor {
		t.sights.forget(sighting{w.Key, w.Version})
	}
	if s.late(version) {
		return out
	}
	if w.Applied.Result == store.Written {
		s.version = version
	}
	return t.step(s, &Event{Kind: Written, Outcome: w.Outcome, Applied: w.Applied}, now)
}

// late reports whether news about a version is older than the entry. While an outcome is being
// written, only a newer claim makes news late: any other answer ends the writing.
func (s *slot) late(version int64) bool {
	return version != 0 && version < s.version && (s.Phase != Writing || version < s.claim)
}

// Lost says that outcomes could not be written and were given up. Nothing is lost by that: the
// claims or leases of their batches end, and any process asks the ledger. Lost writes nothing
// itself.
func (t *Table) Lost(all []store.Outcome) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range all {
		if s := t.batches[all[i].Key]; s != nil && !s.late(all[i].Version) {
			t.leave(t.step(s, &Event{Kind: Lost, Outcome: all[i]}, now))
		}
	}
}

// leave leaves outcomes for Run to write: the caller is the recorder, which would wait for
// itself. t.mu is held.
func (t *Table) leave(out Effects) {
	if out.writes > 0 {
		t.left = append(t.left, out.Write()...)
		t.poke()
	}
}

// runEnded reports whether a run has ended with this outcome. t.mu is held.
func (t *Table) runEnded(o store.Outcome) bool {
	if o.By != batch.BySubmitter || t.runs[o.Key.Service] != (sighting{o.Key, o.Version}) || !t.o.Runs {
		return false
	}
	delete(t.runs, o.Key.Service)
	return true
}

// Watched returns the commits that the ledger may yet take back.
func (t *Table) Watched() (keys []batch.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watches == 0 {
		return nil
	}
	now := time.Now()
	for key, s := range t.batches {
		if s.Phase != Watched {
			continue
		}
		keys = append(keys, key)
		if !now.Before(s.Until) {
			t.set(s, Entry{}, now) // it is asked about for the last time
		}
	}
	return keys
}

// Unwatch ends the watch of commits: the ledger has taken them back.
func (t *Table) Unwatch(keys []batch.Key) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if s := t.batches[key]; s != nil && s.Phase == Watched {
			t.set(s, Entry{}, now)
		}
	}
}

// flush writes everything that waits.
func (t *Table) flush() {
	t.mu.Lock()
	now := time.Now()
	all := t.left
	t.left = nil
	for _, s := range t.times.drain() {
		if !s.Due.IsZero() {
			out := t.step(s, &Event{Kind: IsDue}, now)
			all = append(all, out.Write()...)
		}
	}
	t.mu.Unlock()
	t.write(all)
}

func (t *Table) write(all []store.Outcome) {
	if len(all) > 0 {
		t.o.Write(all)
	}
}

// slot returns the place of a batch. t.mu is held.
func (t *Table) slot(key batch.Key, about about, now time.Time) *slot {
	s := t.batches[key]
	if s == nil {
		if last := len(t.spare) - 1; last >= 0 {
			s, t.spare = t.spare[last], t.spare[:last]
		} else {
			s = new(slot)
		}
		*s = slot{key: key, about: about, index: -1}
		t.batches[key] = s
	}
	s.used = now
	return s
}

// step lets an event happen. t.mu is held.
func (t *Table) step(s *slot, ev *Event, now time.Time) Effects {
	e, out := s.Step(ev, now, t.facts(s), t.o.Rules)
	t.set(s, e, now)
	return out
}

func (e *Entry) followed() bool { return e.Phase == Accepted || e.Phase == Open }

// set replaces the entry of a slot, and adjusts counts, group and schedule. A slot whose entry says
// nothing any more is dropped, and may become another batch's. t.mu is held.
func (t *Table) set(s *slot, e Entry, now time.Time) {
	if e.Phase == Watched && s.Phase != Watched && t.watches >= maxWatched {
		e = Entry{}
	}
	t.count(&s.Entry, -1)
	t.count(&e, 1)
	s.Entry = e
	t.join(s)
	t.plan(s)
	if e.Phase == None && e.Due.IsZero() {
		t.drop(s)
	}
}

func (t *Table) count(e *Entry, n int) {
	if e.followed() {
		t.follows += n
	}
	if e.Phase == Watched {
		t.watches += n
	}
	if !e.Due.IsZero() {
		t.waits += n
	}
}

// drop forgets a batch altogether.
func (t *Table) drop(s *slot) {
	delete(t.batches, s.key)
	if len(t.spare) < maxSpare {
		t.spare = append(t.spare, s)
	}
}

// sweep forgets entries that nobody mentioned for a while: outcomes were given up, or other
// processes ended the batches. t.mu is held.
func (t *Table) sweep(now time.Time) {
	if now.Sub(t.swept) < t.keep {
		return
	}
	t.swept = now
	for _, s := range t.batches {
		if s.Phase != Watched && now.Sub(s.used) > t.keep {
			t.leave(t.step(s, &Event{Kind: Lost}, now))
		}
	}
}

// Question is a row to ask the ledger about, from memory.
type Question struct {
	Row store.InFlight
	// Seen is how long this process has known the row as it is.
	Seen time.Duration
	// Unwritten: the acceptance is not written yet, and only a commit counts.
	Unwritten bool
}

// Run keeps the table's times until ctx is done: it writes what has waited long enough, and
// calls ask with the questions that are due. ask must not block. While Run does not run, nothing
// waits, and at its end it writes what has waited.
func (t *Table) Run(ctx context.Context, ask func([]Question)) {
	t.run(true)
	defer t.flush()
	defer t.run(false)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-t.wake:
		}
		questions, waited, next := t.due(time.Now())
		timer.Reset(next)
		if len(questions) > 0 {
			ask(questions)
		}
		t.write(waited)
	}
}

func (t *Table) run(running bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = running
}
