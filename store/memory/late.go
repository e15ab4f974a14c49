package memory

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// AddLate is Add in two parts, like an Add in a database transaction that commits much later:
// for tests. It gives out the order keys now; nobody sees the batches, and other calls do not
// know them, before the call of show, whose error is Add's. Call show once, or never, which is
// a rollback.
func (s *Store) AddLate(ctx context.Context, batches ...batch.Batch) (show func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := prepare(batches)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := map[batch.ServiceID]time.Time{}
	for i, e := range entries {
		e.created = s.now().Add(time.Duration(i) * time.Microsecond)
		behind := last[e.key.Service]
		if l := s.lanes[e.key.Service]; l != nil && l.last.After(behind) {
			behind = l.last
		}
		if behind = behind.Add(time.Microsecond); behind.After(e.created) {
			e.created = behind
		}
		last[e.key.Service] = e.created
	}
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		fresh, err := s.fresh(entries)
		for _, e := range fresh {
			s.place(e, e.created)
		}
		return err
	}, nil
}
