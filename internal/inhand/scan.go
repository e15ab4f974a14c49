package inhand

import (
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// scan is one scan of the store. The table's lock guards it.
type scan struct {
	askedAt    time.Time   // taken before the store was asked
	unanswered int         // rows that have not been asked about yet
	notAskable []store.Due // rows that cannot be asked about now
}

// scannedRow is a row that a scan of the store returned.
type scannedRow struct {
	*scan
	row      store.InFlight
	service  serviceFacts
	since    time.Time // when this process first saw the row unchanged
	isLeased bool      // whether this scan has leased the row, or an earlier scan whose question this one takes over
}

// Scanned takes rows that the store gave to this process to ask about. then is when the store was
// asked for them. byEvent is true if an event is the reason, and the rows have no lease, or a
// lease until the next poll. Scanned returns once each row was asked about, so that its callers
// bring no more rows than there are hands, or once Run has ended. It returns the rows that are to
// be asked about later, or by other processes.
func (t *Table) Scanned(rows []store.InFlight, then time.Time, byEvent bool) []store.Due {
	sc := &scan{askedAt: then, unanswered: len(rows)}
	now, all := time.Now(), make([]*scannedRow, len(rows))
	for i, row := range rows {
		all[i] = &scannedRow{scan: sc, row: row, service: t.options.factsOf(row.Key.Service), isLeased: !byEvent}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range all {
		r.since = t.sightings.firstSeen(rowVersion{r.row.Key, r.row.Version}, now)
		t.entries.askAboutRow(r, now.Add(time.Duration(i))) // keeps the order of the rows
	}
	for sc.unanswered > 0 && !t.entries.hasEnded {
		t.asked.Wait()
	}
	for _, r := range all {
		if s := t.entries.slots[r.row.Key]; s != nil && s.scannedRow == r { // not asked about, because Run has ended
			s.scannedRow = nil
			t.entries.setEntry(s, s.Entry)
			sc.notAskable = append(sc.notAskable, store.Due{Ref: r.row.Ref})
		}
	}
	return sc.notAskable
}

// askAboutRow plans the next question about a batch, and makes it about a row of a scan. A later
// scan replaces the row.
func (all *entries) askAboutRow(r *scannedRow, at time.Time) {
	s := all.slot(r.row.Key, r.service, at)
	if old := s.scannedRow; old != nil {
		old.unanswered--
		r.isLeased = r.isLeased || old.isLeased
	}
	e := s.Entry
	s.scannedRow, e.AskAt = r, at
	all.setEntry(s, e)
}

// answered applies the answer to a question about a row of a scan. It appends the row to due if
// its check in the store is to be set.
func (all *entries) answered(a *Answer, due []store.Due, now time.Time) []store.Due {
	r, poll := a.scannedRow, all.rules.PollInterval
	set := store.Due{Ref: r.row.Ref, In: a.NextIn}
	switch {
	case a.Kind == NotAsked && a.NoHand:
		r.unanswered++
		all.askAboutRow(r, now.Add(a.NextIn))
	case a.Kind == NotAsked:
		r.notAskable = append(r.notAskable, set)
	case !r.isLeased && a.Kind == StateSame && r.row.CheckIn > poll/2 && a.NextIn >= poll: // asked about just now, and due again in time
	default:
		due = append(due, set)
	}
	return due
}
