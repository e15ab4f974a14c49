package memory

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Claim is [store.Store].Claim. Locked is always empty. If choose panics, nothing is claimed.
func (s *Store) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if err := ctx.Err(); err != nil {
		return store.Claimed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var claimed store.Claimed
	var changed []store.LaneRow
	left := q.Limit
	seen := make(map[batch.ServiceID]bool, len(q.Lanes))
	for _, service := range q.Lanes {
		if seen[service] {
			continue
		}
		seen[service] = true
		if left <= 0 {
			claimed.Left = append(claimed.Left, service)
			continue
		}
		rows := s.window(service, func(attempted []store.LaneRow) int { return store.Wanted(service, attempted, now, q) })
		if len(rows) == 0 || s.isClosed(service) {
			continue
		}
		plan := store.PlanLane(service, rows, now, q, left, choose)
		left = claimed.Add(service, plan, &q, left)
		changed = append(changed, plan.Changed...)
	}
	for _, r := range changed {
		s.replaceRow(s.byID[r.Key.ID], r.Row)
	}
	return claimed, nil
}

// window returns a claim's view of a lane: the attempted rows, and then the first waiting rows, as
// many as wanted returns. s.mu is held.
func (s *Store) window(service batch.ServiceID, wanted func(attempted []store.LaneRow) int) (rows []store.LaneRow) {
	l := s.lanes[service]
	if l == nil {
		return nil
	}
	show := func(es []*entry) {
		rows = slices.Grow(rows, len(es))
		for _, e := range es {
			rows = append(rows, store.LaneRow{Ref: e.ref(), Row: e.row, Budget: e.budget, Footprint: e.footprint, Size: len(e.payload)})
		}
	}
	show(l.attempted.first(l.attempted.len()))
	show(l.queued.first(wanted(rows)))
	return rows
}

// Payloads is [store.Store].Payloads.
func (s *Store) Payloads(ctx context.Context, refs []store.Ref) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	payloads := make([][]byte, len(refs))
	for i, ref := range refs {
		if e := s.find(ref.Key); e != nil {
			payloads[i] = slices.Clone(e.payload)
		}
	}
	return payloads, nil
}
