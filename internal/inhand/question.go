package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// Question is a row to ask the ledger about.
type Question struct {
	Row store.InFlight
	// RowAskedAt is when the store was asked for the row that it gave to this process to ask
	// about. The ages in Row are of that time or a little later. If it is zero, the row is in
	// hand, and its ages are of now.
	RowAskedAt time.Time
	// KnownFor is how long this process has known the row unchanged, with its claim expired, by
	// its own monotonic clock.
	KnownFor time.Duration
	// Unwritten is true if the acceptance is not written yet, and only a commit counts.
	Unwritten  bool
	scannedRow *scannedRow
}

// Answer is the result of a question that gave no outcome: StateSame, NotAsked,
// LeftToScan or StillAccepted.
type Answer struct {
	*Question
	Kind      EventKind
	NextIn    time.Duration
	StateSaid bool
	// Endpoint, of StillAccepted, is as in [Event].
	Endpoint string
	// Follow, of StateSame, is true if a row that a scan gave may be followed, because it is in a
	// lane to which this process posts.
	Follow bool
	// NoHand, of NotAsked, is true if no hand was free. The refused answers of one call are one
	// request, which HandsFree repeats earlier than NextIn.
	NoHand bool
}

// Asked applies the answers to questions that led to no outcome. It returns the rows whose check
// in the store is to be set. in is the time until the first other row is due in the store,
// negative if there is none.
func (t *Table) Asked(all []Answer) (due []store.Due, in time.Duration) {
	now := time.Now()
	var waited []store.Outcome
	var refused refusal
	in = -1
	t.mu.Lock()
	for i := range all {
		a := &all[i]
		ev := Event{Kind: a.Kind, NextIn: a.NextIn, StateSaid: a.StateSaid, Endpoint: a.Endpoint}
		s := t.entries.slots[a.Row.Key]
		if a.Follow && a.scannedRow != nil {
			ev.Kind, ev.Row = RowRead, a.Row
			s = t.entries.slot(a.Row.Key, a.scannedRow.service, now)
		}
		if s != nil {
			ref := s.Row.Ref
			out := t.entries.applyEvent(s, &ev, now)
			waited = append(waited, out.Write()...)
			if out.PutOffCheck && a.scannedRow == nil {
				due = append(due, store.Due{Ref: ref, In: t.options.PollInterval})
			}
			in = out.soonerDue(in)
		}
		if a.NoHand {
			refused.keys, refused.askAt = append(refused.keys, a.Row.Key), now.Add(a.NextIn)
		}
		if a.scannedRow != nil {
			due = t.entries.answered(a, due, now)
		}
	}
	t.refusals.add(refused, now)
	t.mu.Unlock()
	t.options.write(waited)
	return due, in
}
