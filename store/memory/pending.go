package memory

import (
	"context"
	"sort"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Pending is [store.Store].Pending. It reads only batches in flight, and no waiting or final ones.
func (s *Store) Pending(ctx context.Context, q store.PendingQuery) ([]store.InFlight, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var due []*entry
	if q.Services != nil {
		due = s.monitoredEntries(q.Services, now)
	} else {
		for _, e := range s.inFlight {
			if q.Due(e.row, now) {
				due = append(due, e)
			}
		}
	}
	// This is a total order, so that the map's random order does not matter.
	sort.Slice(due, func(i, j int) bool {
		a, b := due[i], due[j]
		if !a.row.AskedAt.Equal(b.row.AskedAt) {
			return a.row.AskedAt.Before(b.row.AskedAt)
		}
		return isEarlierInOrder(a, b)
	})
	due = due[:min(len(due), max(0, q.Limit))]
	rows := make([]store.InFlight, 0, len(due))
	for _, e := range due {
		asked := e.row.AskedAt
		s.replaceRow(e, e.row.Leased(now, q.Lease)) // a lease of 0 changes nothing
		if e.row.Monitored(now) {
			f := e.row.InFlight(e.ref(), e.budget, now)
			f.AskedAgo = e.row.AskedAgo(asked, now)
			rows = append(rows, f)
		}
	}
	return rows, nil
}

// monitoredEntries returns the entries of these services that the monitor owns. s.mu is held.
func (s *Store) monitoredEntries(services []batch.ServiceID, now time.Time) (found []*entry) {
	seen := make(map[batch.ServiceID]bool, len(services))
	for _, service := range services {
		l := s.lanes[service]
		if l == nil || seen[service] {
			continue
		}
		seen[service] = true
		for _, e := range l.attempted.first(l.attempted.len()) {
			if e.row.Monitored(now) {
				found = append(found, e)
			}
		}
	}
	return found
}

// Checked is [store.Store].Checked. It does not change a row that the monitor no longer owns.
func (s *Store) Checked(ctx context.Context, due []store.Due) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, d := range due {
		e := s.find(d.Key)
		if e == nil || (d.Row != 0 && d.Row != e.number) || !e.row.Monitored(now) {
			continue
		}
		next := e.row
		next.NextCheck = now.Add(d.In)
		s.replaceRow(e, next)
	}
	return nil
}
