package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Counts is [store.Store].Counts.
func (s *Store) Counts(ctx context.Context, q store.CountsQuery) ([]store.LaneCounts, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q = q.Bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := []batch.ServiceID{}
	if q.Service != nil {
		lanes = append(lanes, *q.Service)
	} else {
		all := func(batch.ServiceID) bool { return true }
		lanes = s.openLanes(store.LanesQuery{After: q.After, Start: q.Start, Limit: q.Limit}, all)
	}
	var counts []store.LaneCounts
	for _, service := range lanes {
		c := store.LaneCounts{Service: service, Attempted: map[batch.State]int{}}
		l := s.lanes[service]
		if l == nil || l.openCount() == 0 {
			continue
		}
		c.Waiting = min(l.queued.len(), q.Cap)
		for _, e := range l.attempted.first(l.attempted.len()) {
			c.Attempted[e.row.State]++
		}
		counts = append(counts, c)
	}
	return counts, nil
}
