package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Survey is [store.Store].Survey.
func (s *Store) Survey(ctx context.Context, q store.SurveyQuery) (store.Survey, error) {
	if err := ctx.Err(); err != nil {
		return store.Survey{}, err
	}
	q = q.Bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	found := store.Survey{At: s.now(), Everything: s.control(batch.Everything())}
	services := q.Services
	if services == nil {
		services = s.openLanes(store.LanesQuery{After: q.After, Start: q.Start, Limit: q.Limit}, func(batch.ServiceID) bool { return true })
	}
	seen := make(map[batch.ServiceID]bool, len(services))
	for _, service := range services {
		lane := s.lanes[service]
		if lane == nil || lane.openCount() == 0 || seen[service] {
			continue
		}
		seen[service] = true
		l := store.LaneSurvey{
			Service: service, Ledger: s.text(store.TextServed, string(service)).Body, Waiting: min(lane.queued.len(), q.Cap), Control: s.control(batch.Only(service)),
			Rows: s.window(service, func([]store.LaneRow) int { return q.Window }),
		}
		for i := range l.Rows {
			l.Rows[i].Row = cloneRow(l.Rows[i].Row)
		}
		found.Lanes = append(found.Lanes, l)
	}
	return found, nil
}
