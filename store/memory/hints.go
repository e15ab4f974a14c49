package memory

import (
	"context"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/store"
)

// Tell passes a hint to the other listeners of this store before it returns.
func (s *Store) Tell(ctx context.Context, h store.Hint) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, l := range s.listenersOf(h) {
		l.Heard(h)
	}
	return nil
}

// Hear passes hints to a listener until ctx is done. No hint is lost.
func (s *Store) Hear(ctx context.Context, l store.Listener) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	own := &l
	s.mu.Lock()
	s.listeners = append(s.listeners, own)
	s.mu.Unlock()
	defer s.removeListener(own)
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		l.Live("in memory")
		if err := s.Tell(ctx, store.Hint{From: l.ID, Hears: l.Wants}); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// listenersOf returns the listeners that get a hint.
func (s *Store) listenersOf(h store.Hint) (all []*store.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		if h.For(*l) {
			all = append(all, l)
		}
	}
	return all
}

// removeListener removes a listener.
func (s *Store) removeListener(own *store.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = slices.DeleteFunc(s.listeners, func(l *store.Listener) bool { return l == own })
}
