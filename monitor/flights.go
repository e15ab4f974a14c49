package monitor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// flight is a batch that this process posted, while its ledger tells by itself: what it
// takes to ask about it without a look into the store first. It is only ever good for
// hearing of a commit, which is a fact whatever the row is by now; whatever else the
// ledger says is left to those who read the row before they ask.
type flight struct {
	ref      store.Ref
	version  int64
	state    batch.State // Pending or Valid
	attempt  int
	prepared []byte
	was      *store.Row // at version, for whoever writes the next
	began    time.Time  // its POST, or a little before
	stored   bool       // as accepted: before that nobody may ask
	missed   bool       // what was told may have been about it: ask once more
	told     bool       // its commit is known, and being recorded
	check    time.Time
}

const (
	// maxFlights bounds the memory of all flights. What has none is polled.
	maxFlights = 10_000
	// flightTime is how long events are followed by a question about a batch; after that
	// it is polled only. It also ends flights that never were stored as accepted.
	flightTime = 5 * time.Minute
)

// FirstCheck is when to ask first about a batch that was just accepted, by a request that
// took so long. Where the ledger tells by itself there is no hurry: once Stored has said
// so, every event asks about the batch too, and soon where something was told since its
// POST began, which may have been about it.
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

// Stored says how the row of a batch stands, now that an outcome is written, or that it
// is not as whoever posted it believes: then row is nil. check is when it is asked
// about, if it is Pending.
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
		kept := *row // a pointer kept would have every caller's row allocated
		f.was = &kept
		f.check = time.Now().Add(check)
		f.missed = !st.heard.Before(f.began)
		if f.stored = true; f.missed {
			m.askSoon(m.o.Rules.FirstPoll)
		}
	}
}

// adopt makes a flight of a row that goes on as it was, and is asked about again after
// next: one of before the stream was live, say. What was missed is asked about soon.
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

// followed is what to ask about in a group: all its flights, or those that may have
// been missed. In the order of their POSTs, as a ledger commits them, more or less: what
// it has just committed is then in one answer, and in one write. m.mu is held.
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
		if f.was != nil && f.was.Resends > 0 { // what its poll may have to keep: see shownBy
			row.Resends, row.Seen = f.was.Resends, f.was.InFlight(f.ref, batch.Budget{}, now).Seen
		}
		rows = append(rows, row)
	}
	return rows
}

// askFlights makes one status request about flights. A commit is recorded, what goes on
// as it was puts the next poll off, what is unclear waits for it, and any other word is
// for who reads the rows first.
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

// commits notes that a flight's commit is about to be recorded, and reports whether
// nobody noted that before.
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

// putOff reports whether the next poll about a flight is to be put off, since the ledger
// was just asked. It is not before long, so that this happens twice in a poll interval
// at most, nor while the poll has to look at how old the batch is.
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

// look asks about all that is under way in a group, after a look into the store.
func (m *Monitor) look(group string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if st := m.streams[group]; st != nil {
		st.look = true
		m.askSoon(0)
	}
}
