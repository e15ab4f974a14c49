package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/store"
)

// KeepPrepared is [store.Store].KeepPrepared.
func (s *Store) KeepPrepared(ctx context.Context, kept []store.Prepared) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := store.ValidatePrepared(kept); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	did := make([]bool, len(kept))
	for i, p := range kept {
		e := s.find(p.Key)
		if e == nil || (p.Row != 0 && p.Row != e.number) {
			continue
		}
		e.row, did[i] = e.row.KeepPrepared(p)
	}
	return did, nil
}
