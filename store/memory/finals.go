package memory

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// Finals is [store.Store].Finals.
func (s *Store) Finals(ctx context.Context, keys []batch.Key) (final []batch.Record, missing []batch.Key, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[batch.Key]bool, len(keys))
	for _, k := range keys {
		if seen[k] {
			continue
		}
		seen[k] = true
		e := s.find(k)
		if e == nil {
			if r, ok := s.tombstoneRecord(k); ok {
				final = append(final, r)
			} else {
				missing = append(missing, k)
			}
		} else if e.row.Final() {
			final = append(final, e.record())
		}
	}
	return final, missing, nil
}
