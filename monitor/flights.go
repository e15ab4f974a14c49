package monitor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// flight is a batch that this process posted, while its ledger streams events: enough to ask
// about it without a look into the store first. A flight serves only to learn of a commit,
// which is a fact in any state of the row. Every other answer needs a look at the row before
// the question.
type flight struct {
	ref      store.Ref
	version  int64
	state    batch.State // Pending or Valid
	attempt  int
	prepared []byte
	was      *store.Row // at version, for the next write
	began    time.Time  // its POST, or a little before
	stored   bool       // its acceptance is recorded; before that nobody may ask
	missed   bool       // an event may have been about it: ask once more
	told     bool       // its commit is known, and being recorded
	check    time.Time
}

const (
	// maxFlights bounds the memory of all flights. Batches without a flight are polled.
	maxFlights = 10_000
	// flightTime is how long events cause questions about a batch; after that it is only
	// polled. It also ends flights whose acceptance was never recorded.
	flightTime = 5 * time.Minute
)

// FirstCheck returns the time to the first question about a batch that was just accepted, by a
// request that took so long. Where the ledger streams events there is no hurry: once Stored
// was called for the batch, every event causes a question about it too. If an event came since
// its POST began, it may have been about the batch, and the question comes soon.
func (m *Monitor) FirstCheck(key batch.Key, took time.Duration) time.Duration {
	if m.o.Events == nil {
		return m.o.Rules.FirstPoll
	}
	group := groupKey(m.o.Traits(key.Service), key.Service)
	m.mu.Lock()
	defer m.mu.Unlock()
	st, began := m.streams[group], time.Now().Add(-took)
	if st == nil || !st.live {
		return m.o.Rules.FirstPoll
	}
	if m.flying >= maxFlights {
		if !st.heard.Before(began) {
			return m.o.Rules.FirstPoll
		}
		return m.o.Rules.PollInterval
	}
	if st.flights[key] == nil {
		m.flying++
	}
	st.flights[key] = &flight{ref: store.Ref{Key: key}, began: began}
	return m.o.Rules.PollInterval
}

// Stored reports the row of a batch after an outcome was written; row is nil if the row
// differs from what its poster believes. check is the time to the next question, if it is
// Pending.
func (m *Monitor) Stored(ref store.Ref, row *store.Row, check time.Duration) {
	if m.o.Events == nil {
		return
	}
	group := groupKey(m.o.Traits(ref.Key.Service), ref.Key.Service)
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[group]
	if st == nil {
		return
	}
	f := st.flights[ref.Key]
	switch {
	case f == nil:
	case row == nil || (row.State != batch.Pending && row.State != batch.Valid):
		m.land(st, ref.Key)
	default:
		f.ref, f.version, f.state, f.attempt, f.prepared = ref, row.Version, row.State, row.Attempt, row.Prepared
		kept := *row // keeping the pointer would make every caller's row escape to the heap
		f.was = &kept
		f.check = time.Now().Add(check)
		f.missed = !st.heard.Before(f.began)
		if f.stored = true; f.missed {
			m.askSoon(m.o.Rules.FirstPoll)
		}
	}
}

// adopt makes a flight of a row whose state has not changed, and that is asked about again
// after next: a row from before the stream was live, say. With missed, it is asked about soon.
func (m *Monitor) adopt(group string, row store.InFlight, next time.Duration, missed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[group]
	if st == nil || st.flights[row.Key] != nil || m.flying >= maxFlights {
		return
	}
	if _, mine := st.services[row.Key.Service]; !mine {
		return
	}
	m.flying++
	now := time.Now()
	st.flights[row.Key] = &flight{
		ref: row.Ref, version: row.Version, state: row.State, attempt: row.Attempt, prepared: row.Prepared, was: row.Was,
		began: now.Add(-row.PostedAgo), stored: true, missed: missed, check: now.Add(next),
	}
	if missed {
		m.askSoon(m.o.Rules.FirstPoll)
	}
}

// land ends a flight. m.mu is held.
func (m *Monitor) land(st *stream, key batch.Key) {
	if st.flights[key] != nil {
		delete(st.flights, key)
		m.flying--
	}
}

// followed returns the flights of a group to ask about: all of them, or only flights with
// missed set. They are in the order of their POSTs, which is roughly the order of commits:
// commits of the same moment are then in one answer, and in one write. m.mu is held.
func (m *Monitor) followed(st *stream) (rows []store.InFlight) {
	now := time.Now()
	var asked []*flight
	for key, f := range st.flights {
		switch {
		case now.Sub(f.began) > flightTime:
			m.land(st, key)
		case f.stored && !f.told && (st.ask || f.missed):
			f.missed = false
			asked = append(asked, f)
		}
	}
	slices.SortFunc(asked, func(a, b *flight) int { return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.ref.Row, b.ref.Row)) })
	for _, f := range asked {
		row := store.InFlight{
			Ref: f.ref, Version: f.version, State: f.state, Attempt: f.attempt, Prepared: f.prepared, Ended: true, Was: f.was,
		}
		if f.was != nil && f.was.Resends > 0 { // its poll may have to keep Seen: see shownBy
			row.Resends, row.Seen = f.was.Resends, f.was.InFlight(f.ref, batch.Budget{}, now).Seen
		}
		rows = append(rows, row)
	}
	return rows
}

// askFlights makes one status request about flights. It records a commit. An unchanged state
// puts the next poll off, and an unknown batch waits for the poll. Any other answer calls
// look, which reads the rows first.
func (m *Monitor) askFlights(ctx context.Context, g *group) (hung bool) {
	byID, err := m.statuses(ctx, g)
	m.heard(ctx, g, byID, err)
	var due []store.Due
	var found []store.Outcome
	other := false
	for _, f := range g.rows {
		st := byID[f.Key.ID]
		if st == nil {
			continue
		}
		switch {
		case st.Reported == batch.ReportedCommitted:
			if m.commits(g.key, f.Key) {
				found = append(found, *Decide(f, Known{Status: st}, g.traits, m.o.Rules).Outcome)
			}
		case st.Reported == batch.ReportedPending && f.State == batch.Pending && shownBy(f, st, g.traits) == "", st.Reported == batch.ReportedValid && f.State == batch.Valid:
			if m.putOff(g, f.Key) {
				due = append(due, store.Due{Ref: f.Ref, In: m.o.Rules.PollInterval})
			}
		case st.Reported != batch.ReportedUnknown:
			other = true
		}
	}
	m.updater.Put(found)
	if other {
		m.look(g.key)
	}
	m.check(ctx, due)
	return hangs(err)
}

// commits notes that a flight's commit is about to be recorded, and reports whether this is
// the first note.
func (m *Monitor) commits(group string, key batch.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[group]
	if st == nil {
		return true
	}
	f := st.flights[key]
	if f != nil && f.told {
		return false
	}
	if f != nil {
		f.told = true
	}
	return true
}

// putOff reports whether to put the next poll about a flight off, since the ledger was just
// asked. It does so only if that poll is near, so at most twice in a poll interval, and not
// while the poll has to look at the age of the batch.
func (m *Monitor) putOff(g *group, key batch.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	st := m.streams[g.key]
	if st == nil || st.flights[key] == nil {
		return false
	}
	f, now, poll := st.flights[key], time.Now(), m.o.Rules.PollInterval
	patience := m.o.Rules.StuckAfter
	if g.traits.Stale > 0 {
		patience = min(patience, g.traits.Stale)
	}
	if f.check.Sub(now) > poll/2 || now.Sub(f.began)+2*poll > patience {
		return false
	}
	f.check = now.Add(poll)
	return true
}

// look asks about all batches under way in a group, after a look into the store.
func (m *Monitor) look(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if st := m.streams[group]; st != nil {
		st.look = true
		m.askSoon(0)
	}
}
