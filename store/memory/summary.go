package memory

import (
	"cmp"
	"context"

	"github.com/dltbatch/dltbatch/store"
)

// Summary is [store.Store].Summary.
func (s *Store) Summary(ctx context.Context, name string) (store.Summary, error) {
	if err := cmp.Or(ctx.Err(), store.ValidSummaryName(name)); err != nil {
		return store.Summary{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.summaries[name]
	kept.Now = s.now()
	return kept, nil
}

// KeepSummary is [store.Store].KeepSummary.
func (s *Store) KeepSummary(ctx context.Context, name string, turn int64, next store.Summary) (bool, error) {
	if err := cmp.Or(ctx.Err(), store.ValidSummaryName(name)); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.summaries[name]
	if known && was.Turn != turn {
		return false, nil
	}
	if next.Text == "" {
		next.Text = was.Text
	}
	s.summaries[name] = next
	return true, nil
}
