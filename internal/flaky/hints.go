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

// ErrListenerLost is the error of a listener of [Hints] that gets no hints any more.
var ErrListenerLost = errors.New("flaky: the session that listens was lost")

// Hints is a store whose hints are lost, doubled, delayed and made up, at random by seed and
// differently for each listener. For one seed in four every hint is lost, and the listeners
// nevertheless think that hints arrive.
type Hints struct {
	store.Store
	losesAll bool
	seed     uint64

	mu                                            sync.Mutex
	listeners                                     uint64 // the number of listeners so far
	hintCount, lostCount, doubledCount, lateCount int
}

// maxHintDelay is the longest delay of a hint.
const maxHintDelay = 30 * time.Second

// NewHints returns a store whose hints are unreliable.
func NewHints(s store.Store, seed uint64) *Hints {
	return &Hints{Store: s, seed: seed, losesAll: seed%4 == 3}
}

// String says how many hints had which fault.
func (s *Hints) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("hints: %d, lost %d, doubled %d, late %d", s.hintCount, s.lostCount, s.doubledCount, s.lateCount)
}

// Hear is [store.Store].Hear. It returns an error after some time, as a session that ends.
func (s *Hints) Hear(ctx context.Context, l store.Listener) error {
	s.mu.Lock()
	s.listeners++
	rng := rand.New(rand.NewPCG(s.seed, s.listeners))
	s.mu.Unlock()
	session, end := context.WithTimeoutCause(ctx, time.Second+randomUpTo(rng, 10*time.Minute), ErrListenerLost)
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

// drawDelays returns the times after which a listener gets a hint. There are none if the hint is
// lost.
func (s *Hints) drawDelays(rng *rand.Rand, h store.Hint) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hintCount++
	draw := rng.Float64()
	switch {
	case s.losesAll && h.Topics() != 0, draw < 0.3:
		s.lostCount++
		return nil
	case draw < 0.4:
		s.doubledCount++
		return []time.Duration{0, randomUpTo(rng, maxHintDelay)}
	case draw < 0.6:
		s.lateCount++
		return []time.Duration{1 + randomUpTo(rng, maxHintDelay)}
	}
	return []time.Duration{0}
}

func randomUpTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

// TellForged sends a hint about nothing that has happened: lanes that do not exist, and batches
// that nobody has added.
func (s *Hints) TellForged(ctx context.Context, n int, lanes ...batch.ServiceID) error {
	h := store.Hint{From: fmt.Sprint("forged ", n), Lanes: append(lanes, batch.ServiceID(fmt.Sprint("forged", n))), WholeTopics: store.TopicFinals | store.TopicOrders}
	return s.Store.Tell(ctx, h)
}
