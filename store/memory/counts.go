package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Counts is [store.BatchStore].Counts.
func (s *Store) Counts(ctx context.Context, q store.CountsQuery) ([]store.LaneCounts, error) {
	q = q.Bounded()
	lanes := []batch.ServiceID{}
	if q.Service != nil {
		lanes = append(lanes, *q.Service)
	} else {
		var err error
		if lanes, err = s.Lanes(ctx, store.LanesQuery{After: q.After, Start: q.Start, Limit: q.Limit}); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []store.LaneCounts
	for _, service := range lanes {
		c := store.LaneCounts{Service: service, Attempted: map[batch.State]int{}}
		l := s.lanes[service]
		if l == nil || l.open() == 0 {
			if q.Service == nil { // it became empty since the lanes were listed
				counts = append(counts, c)
			}
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
