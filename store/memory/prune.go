package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/store"
)

// Prune is [store.Store].Prune.
func (s *Store) Prune(ctx context.Context, q store.PruneQuery) (store.Pruned, error) {
	if err := ctx.Err(); err != nil {
		return store.Pruned{}, err
	}
	q = q.Bounded()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	until := now.Add(-q.OlderThan)
	pruned := store.Pruned{
		StreamIDs: s.pruneLog(until, q.Limit), LaneActs: s.pruneSteered(until, q.Limit), Orders: s.pruneOrders(until, q.Limit),
	}
	var batches []*entry
	for i := 0; len(batches) < q.Limit && i < s.final.len(); i++ {
		e := s.final.at(i)
		if e.row.FinalAt.After(until) {
			break
		}
		if e.row.Prunable(s.orders.unsettled[e] != nil) {
			batches = append(batches, e)
		}
	}
	for _, e := range batches {
		s.final.remove(e)
		s.all.remove(e)
		delete(s.byID, e.key.ID)
		for _, value := range e.tags {
			if l := s.byTag[value]; l != nil {
				if l.remove(e); l.len() == 0 {
					delete(s.byTag, value)
				}
			}
		}
		if e.dataChangeID != "" {
			delete(s.byChange, e.dataChangeKeyOf())
		}
		if e.lane.all.remove(e); e.lane.all.len() == 0 {
			delete(s.lanes, e.key.Service)
		}
		if q.Tombstone(e.key.Service, s.text(store.TextServed, string(e.key.Service)).Body) {
			s.keepTombstone(e, now)
		}
	}
	pruned.Batches = len(batches)
	return pruned, nil
}
