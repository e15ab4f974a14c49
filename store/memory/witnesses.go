package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// Witnesses is [store.Store].Witnesses.
func (s *Store) Witnesses(ctx context.Context, ref store.Ref, limit int) ([]batch.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(ref.Key)
	if e == nil || (ref.Row != 0 && ref.Row != e.number) || e.row.DoubtAttempt == 0 {
		return nil, nil
	}
	var found []batch.ID
	at := e.lane.all.search(e)
	for i := at - 1; i >= max(0, at-store.WitnessReach) && len(found) < limit; i-- {
		w := e.lane.all.at(i)
		decided := w.row.State == batch.Committed || w.row.State == batch.Invalid
		if decided && w.row.Final() && w.row.FinalAt.Before(e.row.DoubtSince) {
			found = append(found, w.key.ID)
		}
	}
	return found, nil
}
