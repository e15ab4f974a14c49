package memory

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// lane is the queue of one service.
type lane struct {
	service      batch.ServiceID
	lastKey      time.Time    // the last order key of the lane
	all          list[*entry] // all batches of the lane, open and final
	queued       list[*entry] // the open batches that were never attempted
	attempted    list[*entry] // the open batches that were attempted
	isInLaneList bool         // true if the lane is in Store.openLaneNames
}

// orderKey returns the order key for a batch that is added at the end of the lane now, even if the
// clock has stepped back.
func (l *lane) orderKey(now time.Time) time.Time {
	if behind := l.lastKey.Add(time.Microsecond); behind.After(now) {
		now = behind
	}
	l.lastKey = now
	return now
}

func (l *lane) openCount() int { return l.queued.len() + l.attempted.len() }

// lane returns the lane of a service. It makes the lane if there is none. s.mu is held.
func (s *Store) lane(service batch.ServiceID) *lane {
	l := s.lanes[service]
	if l == nil {
		l = &lane{service: service, all: list[*entry]{before: isEarlierInOrder}, queued: list[*entry]{before: isEarlierInOrder}, attempted: list[*entry]{before: isEarlierInOrder}}
		s.lanes[service] = l
	}
	return l
}

// enlist adds an open entry to its lane's list. s.mu is held.
func (s *Store) enlist(e *entry) {
	switch {
	case e.row.Final():
		return
	case isWaiting(e.row):
		e.lane.queued.insert(e)
	default:
		e.lane.attempted.insert(e)
	}
	if !e.lane.isInLaneList {
		s.openLaneNames.add(e.lane)
	}
}

// unlist removes an entry from its lane's list. s.mu is held.
func (s *Store) unlist(e *entry) {
	switch {
	case e.row.Final():
	case isWaiting(e.row):
		e.lane.queued.remove(e)
	default:
		e.lane.attempted.remove(e)
	}
}

func (l *lane) name() batch.ServiceID { return l.service }
func (l *lane) isEmpty() bool         { return l.openCount() == 0 }
func (l *lane) setListed(is bool)     { l.isInLaneList = is }

// Lanes is [store.Store].Lanes.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.controls[batch.Everything()].Closed() {
		return nil, nil
	}
	return s.openLanes(q, func(service batch.ServiceID) bool { return !s.isClosed(service) }), nil
}

// openLanes returns the lanes that have open batches and for which wanted is true. s.mu is held.
func (s *Store) openLanes(q store.LanesQuery, wanted func(batch.ServiceID) bool) (found []batch.ServiceID) {
	passed := 0
	for _, l := range s.openLaneNames.queuesAfter(q.After, q.Start) {
		if len(found) >= q.Limit {
			break
		}
		if l.openCount() == 0 {
			passed++
			continue
		}
		if wanted(l.service) {
			found = append(found, l.service)
		}
	}
	s.openLaneNames.hasManyEmpty = passed > len(found)+64
	return found
}
