package hints

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

const (
	// minTellPause is the shortest time between two hints of a process: PostgreSQL commits
	// transactions that notify one after the other.
	minTellPause = 10 * time.Millisecond
	// tellPauseFactor bounds the part of the time that telling takes to one in so many: while the
	// database has more to do than it can, a hint helps nobody.
	tellPauseFactor = 20
	// maxTellPause is the longest pause after a Tell: those who hear scan after 15 s without a
	// hint, and one slow answer does not keep them waiting for longer than that.
	maxTellPause = 5 * time.Second
	// maxNames is how many names of a topic wait to be told. With more the topic is told as a
	// whole.
	maxNames = 1000
)

// sender tells hints in groups. Nothing runs while nothing is to be told.
type sender struct {
	store   Store
	timeout time.Duration
	from    string

	mu       sync.Mutex
	nextHint store.Hint
	lanes    map[batch.ServiceID]struct{} // of next
	busy     bool                         // a timer or a Tell is under way, which takes next
	nextTell time.Time                    // when the next Tell may begin
	pauses   *backoff.ExponentialBackOff  // of failures in a row; nil after a success
}

// add adds to the next hint. The first hint leaves at once, those after it together.
func (s *sender) add(h store.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.merge(h)
	if s.busy || s.nextHint.Topics() == 0 {
		return
	}
	s.busy = true
	s.start()
}

// start begins a Tell, now or when it may. A timer has no goroutine: in a test's bubble nothing is
// left behind.
func (s *sender) start() {
	if wait := time.Until(s.nextTell); wait > 0 {
		time.AfterFunc(wait, s.send)
		return
	}
	go s.send()
}

// send tells the added hint. A failure loses it: a scan finds the same.
func (s *sender) send() {
	s.mu.Lock()
	h := s.nextHint
	h.From = s.from
	s.nextHint, s.lanes = store.Hint{}, nil
	began := time.Now()
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	err := loop.Contain(func() error { return s.store.Tell(ctx, h) })

	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(began)
	pause := max(minTellPause-took, min((tellPauseFactor-1)*took, maxTellPause))
	if err == nil {
		s.pauses = nil
	} else {
		if s.pauses == nil {
			s.pauses = loop.NewBriefPauses()
		}
		pause = max(pause, s.pauses.NextBackOff())
	}
	s.nextTell = time.Now().Add(pause)
	if s.busy = s.nextHint.Topics() != 0; s.busy {
		s.start()
	}
}

// merge adds a hint to the next one.
func (s *sender) merge(h store.Hint) {
	n := &s.nextHint
	n.WholeTopics |= h.WholeTopics
	for _, lane := range h.Lanes {
		if _, twice := s.lanes[lane]; twice || n.WholeTopics.Has(store.TopicLanes) {
			continue
		}
		if s.lanes == nil {
			s.lanes = map[batch.ServiceID]struct{}{}
		}
		s.lanes[lane] = struct{}{}
		n.Lanes = append(n.Lanes, lane)
	}
	n.Finals = append(n.Finals, h.Finals...)
	n.OrderFinals = append(n.OrderFinals, h.OrderFinals...)
	if len(n.Lanes) > maxNames || n.WholeTopics.Has(store.TopicLanes) {
		n.WholeTopics |= store.TopicLanes
		n.Lanes, s.lanes = nil, nil
	}
	if len(n.Finals) > maxNames || n.WholeTopics.Has(store.TopicFinals) {
		n.WholeTopics |= store.TopicFinals
		n.Finals = nil
	}
	if len(n.OrderFinals) > maxNames || n.WholeTopics.Has(store.TopicOrderFinals) {
		n.WholeTopics |= store.TopicOrderFinals
		n.OrderFinals = nil
	}
}
