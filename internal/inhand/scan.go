package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// scan is one scan of the store. It is used under the table's lock.
type scan struct {
	askedAt    time.Time   // before the store was asked
	unanswered int         // rows that are still to be asked about
	notAskable []store.Due // rows that cannot be asked about now
}

// scannedRow is a row that a scan of the store has brought.
type scannedRow struct {
	*scan
	row    store.InFlight
	about  serviceFacts
	since  time.Time // when this process first saw the row as it is
	leased bool      // by this scan, or by one before whose question it takes over
}

// Scanned takes rows that the store gave to this process to ask about: it was asked for them then.
// byEvent says that an event is the reason, and that the rows have no lease, or one until the next
// poll. Scanned returns once each row was asked about, so that the callers bring no more rows than
// there are hands for, or once Run has ended. It returns the rows that are to be asked about after
// some time, or by other processes.
func (t *Table) Scanned(rows []store.InFlight, then time.Time, byEvent bool) []store.Due {
	sc := &scan{askedAt: then, unanswered: len(rows)}
	now, all := time.Now(), make([]*scannedRow, len(rows))
	for i, row := range rows {
		all[i] = &scannedRow{scan: sc, row: row, about: t.o.factsOf(row.Key.Service), leased: !byEvent}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range all {
		r.since = t.sightings.firstSeen(rowVersion{r.row.Key, r.row.Version}, now)
		t.entries.askAboutRow(r, now.Add(time.Duration(i))) // in this order
	}
	for sc.unanswered > 0 && !t.entries.ended {
		t.asked.Wait()
	}
	for _, r := range all {
		if s := t.entries.slots[r.row.Key]; s != nil && s.scannedRow == r { // Run has ended
			s.scannedRow = nil
			t.entries.set(s, s.Entry)
			sc.notAskable = append(sc.notAskable, store.Due{Ref: r.row.Ref})
		}
	}
	return sc.notAskable
}

// askAboutRow lets the next question about a batch come at a time, and be about a row of a scan.
// The last scan counts.
func (all *entries) askAboutRow(r *scannedRow, at time.Time) {
	s := all.slot(r.row.Key, r.about, at)
	if old := s.scannedRow; old != nil {
		old.unanswered--
		r.leased = r.leased || old.leased
	}
	e := s.Entry
	s.scannedRow, e.AskAt = r, at
	all.set(s, e)
}

// answered takes the answer to a question about a row of a scan. It appends the row to due if its
// check in the store is to be set.
func (all *entries) answered(a *Answer, due []store.Due, now time.Time) []store.Due {
	r, poll := a.scannedRow, all.rules.PollInterval
	set := store.Due{Ref: r.row.Ref, In: a.NextIn}
	switch {
	case a.Kind == NotAsked && a.NoHand:
		r.unanswered++
		all.askAboutRow(r, now.Add(a.NextIn))
	case a.Kind == NotAsked:
		r.notAskable = append(r.notAskable, set)
	case !r.leased && a.Kind == StateSame && r.row.CheckIn > poll/2 && a.NextIn >= poll: // just asked about, and due again in time
	default:
		due = append(due, set)
	}
	return due
}
