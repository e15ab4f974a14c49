package flaky

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// ErrDeaf is why a listener of [Hints] hears nothing any more.
var ErrDeaf = errors.New("flaky: the session that listens was lost")

// Hints is a store whose hints are lost, doubled, late and made up, at random by seed, for each
// listener in another way. In one seed of four every hint is lost, and the listeners believe all
// the same that they hear.
type Hints struct {
	store.Store
	deaf bool
	seed uint64

	mu                         sync.Mutex
	listeners                  uint64 // so far
	heard, lost, doubled, late int
}

// maxHintDelay is how late a hint may be.
const maxHintDelay = 30 * time.Second

// NewHints returns a store with such hints.
func NewHints(s store.Store, seed uint64) *Hints {
	return &Hints{Store: s, seed: seed, deaf: seed%4 == 3}
}

// String says how many hints met which fault.
func (s *Hints) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("hints: %d, lost %d, doubled %d, late %d", s.heard, s.lost, s.doubled, s.late)
}

// Hear is [store.Store].Hear. Its session ends after a while.
func (s *Hints) Hear(ctx context.Context, l store.Listener) error {
	s.mu.Lock()
	s.listeners++
	rng := rand.New(rand.NewPCG(s.seed, s.listeners))
	s.mu.Unlock()
	session, end := context.WithTimeoutCause(ctx, time.Second+randomUpTo(rng, 10*time.Minute), ErrDeaf)
	defer end()
	to := l.Heard
	l.Heard = func(h store.Hint) {
		for _, after := range s.drawDelays(rng, h) {
			if after == 0 {
				to(h)
				continue
			}
			time.AfterFunc(after, func() {
				if session.Err() == nil {
					to(h)
				}
			})
		}
	}
	err := s.Store.Hear(session, l)
	if ctx.Err() == nil && session.Err() != nil {
		return context.Cause(session)
	}
	return err
}

// drawDelays returns after what times a listener gets a hint: none if it is lost.
func (s *Hints) drawDelays(rng *rand.Rand, h store.Hint) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard++
	draw := rng.Float64()
	switch {
	case s.deaf && h.Topics() != 0, draw < 0.3:
		s.lost++
		return nil
	case draw < 0.4:
		s.doubled++
		return []time.Duration{0, randomUpTo(rng, maxHintDelay)}
	case draw < 0.6:
		s.late++
		return []time.Duration{1 + randomUpTo(rng, maxHintDelay)}
	}
	return []time.Duration{0}
}

func randomUpTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

// Forge tells a hint that nothing has happened for: a lane that nobody has, finals that nobody
// saw.
func (s *Hints) Forge(ctx context.Context, n int, lanes ...batch.ServiceID) error {
	h := store.Hint{From: fmt.Sprint("forged ", n), Lanes: append(lanes, batch.ServiceID(fmt.Sprint("forged", n))), WholeTopics: store.TopicFinals | store.TopicOrders}
	return s.Store.Tell(ctx, h)
}
