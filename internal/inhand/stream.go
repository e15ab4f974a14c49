package inhand

import (
	"cmp"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/store"
)

// Group returns the name of the group in which a service's batches are asked about.
func Group(t dlt.Traits, s batch.ServiceID) string {
	if t.GroupsByService {
		return t.Name + "\x00" + string(s)
	}
	return t.Name
}

// Stream is the ledger's event stream of one group: the batches of a service, or of a whole
// ledger. All methods may be called concurrently. The table's lock guards the fields.
type Stream struct {
	table        *Table
	group        string
	isClosed     bool
	isLive       bool      // whether it reports events
	namesIDs     bool      // whether it has reported commits by their ids
	lastReasonAt time.Time // when it last gave a reason to ask
	askAt        time.Time // when to ask about all open batches; zero if there is no event
	openSlots    []*slot   // the entries in phase Open
}

// Began notes that the stream reports events.
func (s *Stream) Began() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if !s.isClosed {
		s.table.entries.streams.begun[s.group], s.isLive = s, true
	}
}

// Broke notes that the stream no longer reports events, and returns whether it did before.
func (s *Stream) Broke() (lived bool) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	lived, s.isLive = s.isLive, false
	return lived
}

// Close notes that the stream was closed, so that its events cause no more questions.
func (s *Stream) Close() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.isClosed = true
	delete(s.table.entries.streams.begun, s.group)
	for len(s.openSlots) > 0 {
		s.table.entries.setEntry(s.openSlots[0], Entry{})
	}
}

// Commits takes commits that an event reported, maybe before the ledger has answered their POSTs.
func (s *Stream) Commits(all []store.Outcome) { s.table.takeOutcomes(all, s) }

// askPause is the least time between two questions that events cause.
const askPause = 10 * time.Millisecond

// Heard notes an event that may be about any batch of the group.
func (s *Stream) Heard() {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	s.lastReasonAt = time.Now()
}

// AskSoon causes a question about all open batches of the group.
func (s *Stream) AskSoon() {
	now := time.Now()
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if !s.askAt.IsZero() {
		return
	}
	lastAsk := s.table.entries.streams.lastAsk
	if s.askAt = now; now.Sub(lastAsk) < askPause {
		s.askAt = lastAsk.Add(askPause)
	}
	loop.Poke(s.table.wake)
}

// streams has the streams that have begun and are not closed. The table's lock guards it.
type streams struct {
	begun   map[string]*Stream // streams that have begun, by group
	lastAsk time.Time          // when events last caused a question
}

// join adds a slot to the stream whose events cause questions about it, or removes the slot.
func (all *streams) join(s *slot) {
	switch {
	case s.Phase == Open && s.stream == nil:
		if to := all.begun[s.service.group]; to != nil {
			s.stream, s.streamIndex = to, len(to.openSlots)
			to.openSlots = append(to.openSlots, s)
		}
	case s.Phase != Open && s.stream != nil:
		from := s.stream
		last := len(from.openSlots) - 1
		from.openSlots[s.streamIndex] = from.openSlots[last]
		from.openSlots[s.streamIndex].streamIndex = s.streamIndex
		from.openSlots[last] = nil
		from.openSlots, s.stream = from.openSlots[:last], nil
	}
}

// due returns the entries about which events have caused questions: all open entries of their
// groups, in the order of the POSTs, which is roughly the order of the commits. Commits at about
// the same time are then in one answer and in one write. next is the time until the next such
// entries, at most most.
func (all *streams) due(now time.Time, most time.Duration) (open []*slot, next time.Duration) {
	next = most
	for _, s := range all.begun {
		switch {
		case s.askAt.IsZero():
		case s.askAt.After(now):
			next = min(next, s.askAt.Sub(now))
		default:
			s.askAt, all.lastAsk = time.Time{}, now
			first := len(open)
			open = append(open, s.openSlots...)
			slices.SortFunc(open[first:], func(a, b *slot) int {
				return cmp.Or(a.PostBegan.Compare(b.PostBegan), cmp.Compare(a.Row.Row, b.Row.Row))
			})
		}
	}
	return open, next
}
