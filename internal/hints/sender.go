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
	// minTellPause is the shortest time between two hints of a process, because PostgreSQL commits
	// transactions that notify one after the other.
	minTellPause = 10 * time.Millisecond
	// tellPauseFactor bounds the part of the time that sending takes to one in tellPauseFactor:
	// while the database is overloaded, hints do not help.
	tellPauseFactor = 20
	// maxTellPause is the longest pause after a Tell. Without a hint the receivers scan after 15
	// s, and one slow answer must not make them wait that long.
	maxTellPause = 5 * time.Second
	// maxNames is how many names of a topic one hint may have. With more the hint is about the
	// whole topic.
	maxNames = 1000
)

// sender sends hints in groups. No goroutine runs while there is nothing to send.
type sender struct {
	store    Store
	timeout  time.Duration
	senderID string

	mu        sync.Mutex
	nextHint  store.Hint
	lanes     map[batch.ServiceID]struct{} // the lanes of nextHint
	isSending bool                         // whether a timer or a Tell is under way that will take nextHint
	nextTell  time.Time                    // when the next Tell may begin
	pauses    *backoff.ExponentialBackOff  // the pauses after failures in a row; nil after a success
}

// add adds to the next hint. The first hint is sent at once, and those after it together.
func (s *sender) add(h store.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.merge(h)
	if s.isSending || s.nextHint.Topics() == 0 {
		return
	}
	s.isSending = true
	s.start()
}

// start begins a Tell, now or at nextTell. It uses a timer, not a goroutine, so that nothing is
// left in a test's bubble.
func (s *sender) start() {
	if wait := time.Until(s.nextTell); wait > 0 {
		time.AfterFunc(wait, s.send)
		return
	}
	go s.send()
}

// send sends nextHint. A failure loses the hint: a scan finds the same.
func (s *sender) send() {
	s.mu.Lock()
	h := s.nextHint
	h.From = s.senderID
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
	if s.isSending = s.nextHint.Topics() != 0; s.isSending {
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
