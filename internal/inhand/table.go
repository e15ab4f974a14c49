package inhand

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/store"
)

// Options of a table; all must be set except Events. The functions are called without a lock. They
// may block, but must not wait for the table; Written and Lost do not call Write.
type Options struct {
	Rules
	TTL    time.Duration // duration of this process's claims
	Traits func(batch.ServiceID) dlt.Traits
	// WholeRuns is true if nothing of a lane may be sent before its whole run has been answered,
	// because the strategy relies on the ledger's order.
	WholeRuns bool
	// MayWait reports whether an acceptance may wait for the ledger's next answer.
	MayWait func(store.Outcome) bool
	// Write writes outcomes that became known together, and may keep the slice.
	Write func(first store.Outcome, rest ...store.Outcome)
	Lanes Lanes
}

// Lanes receives reports about lanes. Free reports that lanes may go on at a time, RunEnded that
// this process has nothing under way in a lane.
type Lanes interface {
	Free(at time.Time, lanes ...batch.ServiceID)
	RunEnded(batch.ServiceID)
}

// serviceFacts holds the facts of a service that the steps of its entries use.
type serviceFacts struct {
	group      string // "" where the ledger streams no events
	vanishTime time.Duration
	isQuiet    bool
}

// factsOf asks the client for the traits, so it is called without a lock.
func (o *Options) factsOf(s batch.ServiceID) serviceFacts {
	traits := o.Traits(s)
	a := serviceFacts{vanishTime: traits.Vanish, isQuiet: traits.ResendQuiet > 0}
	if traits.Streams {
		a.group = Group(traits, s)
	}
	return a
}

// write writes outcomes, if there are any.
func (o *Options) write(all []store.Outcome) {
	if len(all) > 0 {
		o.Write(all[0], all[1:]...)
	}
}

// Table receives the events of the parts, applies them to the entries, and carries out the
// effects. All methods may be called concurrently.
type Table struct {
	options Options
	wake    chan struct{} // wakes Run; its capacity is one

	mu        sync.Mutex // guards the entries and all that they contain
	asked     *sync.Cond // signals that Run has asked the questions that were due, or has ended
	entries   entries
	runs      runs
	refusals  refusals
	sightings sightings
}

// New returns an empty table.
func New(o Options) *Table {
	keep := max(10*time.Minute, 4*o.TTL, 4*o.PollInterval) // more than the time between two questions about a row
	wake := make(chan struct{}, 1)
	t := &Table{
		options: o, wake: wake, runs: runs{}, sightings: sightings{keepFor: keep},
		entries: entries{
			rules: o.Rules, keepFor: keep, wake: wake, sweptAt: time.Now(),
			slots: map[batch.Key]*slot{}, streams: streams{begun: map[string]*Stream{}},
		},
	}
	t.asked = sync.NewCond(&t.mu)
	return t
}

// Claimed tells the table that this process has claimed a run, and is about to post it.
func (t *Table) Claimed(run store.ClaimedRun) {
	now, about := time.Now(), t.options.factsOf(run.Service)
	var late []store.Outcome
	t.mu.Lock()
	for _, c := range run.Batches {
		s := t.entries.slot(c.Key, about, now)
		s.version, s.claimVersion = c.Version, c.Version
		out := t.entries.applyEvent(s, &Event{Kind: BatchClaimed}, now)
		late = append(late, out.Write()...)
	}
	if t.options.WholeRuns {
		t.runs.begin(run)
	}
	t.mu.Unlock()
	t.options.write(late)
}

// Answered tells the table that an attempt has ended with an outcome.
func (t *Table) Answered(o store.Outcome) {
	now, about := time.Now(), t.options.factsOf(o.Key.Service)
	ev := Event{Kind: AttemptEnded, Outcome: o, Took: o.Post.Took, MayWait: o.Finding == store.Accepted && t.options.MayWait(o)}
	t.mu.Lock()
	out := t.entries.applyEvent(t.entries.slot(o.Key, about, now), &ev, now)
	t.mu.Unlock()
	if all := out.Write(); len(all) > 0 {
		t.options.Write(all[0], slices.Clone(all[1:])...)
	}
}

// Put takes outcomes to which questions led, and that became known together. It may keep the
// slice.
func (t *Table) Put(all []store.Outcome) { t.takeOutcomes(all, nil) }

// takeOutcomes takes outcomes to which questions led, or that an event of the stream from
// reported.
func (t *Table) takeOutcomes(all []store.Outcome, from *Stream) {
	if len(all) == 0 {
		return
	}
	now, kind := time.Now(), OutcomeFound
	abouts := make([]serviceFacts, len(all))
	for i := range all {
		abouts[i] = t.options.factsOf(all[i].Key.Service)
	}
	found := make([]store.Outcome, 0, len(all))
	t.mu.Lock()
	if from != nil {
		kind, from.namesIDs = CommitStreamed, true
	}
	for i := range all {
		if all[i].Finding == store.HasReceipts { // receipts change nothing about the batch
			found = append(found, all[i])
			continue
		}
		s := t.entries.slot(all[i].Key, abouts[i], now)
		if v := all[i].Version; v != 0 && v < s.version { // the row has moved on, and the store will say so
			found = append(found, all[i])
			continue
		}
		out := t.entries.applyEvent(s, &Event{Kind: kind, Outcome: all[i]}, now)
		found = append(found, out.Write()...)
	}
	t.mu.Unlock()
	t.options.write(found)
}

// HandsFree tells how many hands are free. That many requests that found no hand are repeated now,
// the oldest first.
func (t *Table) HandsFree(hands int) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for hands > 0 && len(t.refusals) > 0 {
		r := t.refusals[0]
		t.refusals = t.refusals[1:]
		if t.entries.askNow(r.keys, r.askAt, now) {
			hands--
		}
	}
}

// Recorded is an outcome and the store's answer about it.
type Recorded struct {
	store.Outcome
	Applied store.Applied
	// Again is true if an earlier write failed and may have been applied nevertheless.
	Again bool
}

// Written tells the table that the store has answered about a group of outcomes. It frees together
// the lanes that can go on now, and each lane with a row that is to be sent again after the row's
// delay. It writes nothing itself. It returns the time until the first of the rows is due in the
// store, negative if there is none.
func (t *Table) Written(group []Recorded) (due time.Duration) {
	now := time.Now()
	var free, over []batch.ServiceID
	due = -1
	abouts := make([]serviceFacts, len(group))
	for i := range group {
		abouts[i] = t.options.factsOf(group[i].Key.Service)
	}
	t.mu.Lock()
	for i := range group {
		if t.runs.end(group[i].Outcome) { // the run's last batch is written, so its lane may go on
			free = append(free, group[i].Key.Service)
		}
	}
	for i := range group {
		w := &group[i]
		if w.Finding == store.HasReceipts {
			continue
		}
		_, out := t.runs[w.Key.Service]
		switch {
		case w.Applied.Result == store.Held: // the lane waits for the live claim
		case w.Applied.Result != store.Written: // another process was faster, and has notified only itself
			over = append(over, w.Key.Service)
		case (w.Applied.Row.Final() || t.foundAgain(w)) && !out:
			free = append(free, w.Key.Service)
		}
		if w.By == batch.ByMonitor {
			t.endSighting(w)
		}
		eff := t.entries.applyWrite(w, abouts[i], now)
		due = eff.soonerDue(due)
	}
	t.mu.Unlock()
	for _, s := range over {
		t.options.Lanes.RunEnded(s)
	}
	t.options.Lanes.Free(now, free...)
	for i := range group {
		if w := &group[i]; w.Applied.Result == store.Written && w.Applied.Row.State.Claimable() {
			t.options.Lanes.Free(now.Add(w.Delay), w.Key.Service)
		}
	}
	return due
}

// endSighting ends the sighting of a row at the version about which the monitor asked. A doubt
// about an accepted batch, and a rollback that is counted, do not change the attempt, so the row
// keeps the time since when it was seen.
func (t *Table) endSighting(w *Recorded) {
	was := rowVersion{w.Key, w.Version}
	if (w.Finding == store.Doubtful || w.Finding == store.IsValid && w.RolledBack) && w.Applied.Result == store.Written {
		at, known := t.sightings.firstSight(was)
		if s := t.entries.slots[w.Key]; !known && s != nil && s.Row.Version == w.Version {
			at, known = s.ReadAt, true
		}
		if known {
			t.sightings.note(rowVersion{w.Key, w.Applied.Row.Version}, at)
		}
	}
	t.sightings.forget(was)
}

// foundAgain reports whether a batch is now accepted after it was in doubt. A lane whose batches
// are sent behind accepted ones may then go on.
func (t *Table) foundAgain(w *Recorded) bool {
	now := w.Applied.Row.State
	return t.options.WholeRuns && w.By == batch.ByMonitor && w.Applied.From == batch.Submitting && (now == batch.Pending || now == batch.Valid)
}

// Lost tells the table that outcomes could not be written and were given up. Nothing is lost by
// that: the claims or leases of their batches end, and any process asks the ledger. Lost writes
// nothing itself.
func (t *Table) Lost(all []store.Outcome) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range all {
		if s := t.entries.slots[all[i].Key]; s != nil && all[i].Finding != store.HasReceipts && !s.isStale(all[i].Version) {
			out := t.entries.applyEvent(s, &Event{Kind: OutcomeLost}, now)
			t.entries.leaveToRun(&out)
		}
	}
}

// Watched returns the commits that the ledger may still take back: their keys, and the prepared
// bytes by which each was found.
func (t *Table) Watched() (rows []Question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries.counts.watched == 0 {
		return nil
	}
	now := time.Now()
	for key, s := range t.entries.slots {
		if s.Phase != Watched {
			continue
		}
		rows = append(rows, Question{Row: store.InFlight{Ref: store.Ref{Key: key}, Prepared: s.Row.Prepared}})
		if !now.Before(s.WatchUntil) {
			t.entries.setEntry(s, Entry{}) // this is the last question about it
		}
	}
	return rows
}

// Unwatch ends the watch of commits that the ledger has taken back.
func (t *Table) Unwatch(keys []batch.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if s := t.entries.slots[key]; s != nil && s.Phase == Watched {
			t.entries.setEntry(s, Entry{})
		}
	}
}

// Stream returns the stream of a group. No other stream of the group may be open.
func (t *Table) Stream(group string) *Stream { return &Stream{table: t, group: group} }

// Live reports whether a stream reports events about a group.
func (t *Table) Live(group string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.entries.streams.begun[group]
	return s != nil && s.isLive
}

// Run acts at the table's times until ctx is done: it writes the outcomes that have waited long
// enough, and calls ask with the questions that are due. ask must not block. While Run does not
// run, no outcome waits. At its end Run writes all outcomes that still wait.
func (t *Table) Run(ctx context.Context, ask func([]Question)) {
	t.mu.Lock()
	t.entries.isRunning, t.entries.hasEnded = true, false
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		waited := t.entries.stop(time.Now())
		t.mu.Unlock()
		t.asked.Broadcast()
		t.options.write(waited)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-t.wake:
		}
		t.mu.Lock()
		questions, waited, next := t.entries.takeDue(time.Now())
		t.mu.Unlock()
		timer.Reset(next)
		if len(questions) > 0 {
			ask(questions)
		}
		t.asked.Broadcast()
		t.options.write(waited)
	}
}
