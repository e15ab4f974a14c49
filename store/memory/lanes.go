package memory

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// lane is the queue of one service.
type lane struct {
	service   batch.ServiceID
	last      time.Time // the order key given out last
	stored    int       // batches, final ones too
	queued    list      // open and never attempted
	attempted list      // open and attempted, wherever they stand
	listed    bool      // known to the laneOrder
}

func (l *lane) open() int { return l.queued.len() + l.attempted.len() }

// lane returns the lane of a service, made if need be. s.mu is held.
func (s *Store) lane(service batch.ServiceID) *lane {
	l := s.lanes[service]
	if l == nil {
		l = &lane{service: service, queued: list{before: byOrder}, attempted: list{before: byOrder}}
		s.lanes[service] = l
	}
	return l
}

// enlist puts an open entry into its lane's list. s.mu is held.
func (s *Store) enlist(e *entry) {
	switch {
	case e.row.Final():
		return
	case waiting(e.row):
		e.lane.queued.insert(e)
	default:
		e.lane.attempted.insert(e)
	}
	if !e.lane.listed {
		s.order.add(e.lane)
	}
}

// unlist takes an entry out of its lane's list. s.mu is held.
func (s *Store) unlist(e *entry) {
	switch {
	case e.row.Final():
	case waiting(e.row):
		e.lane.queued.remove(e)
	default:
		e.lane.attempted.remove(e)
	}
}

// laneOrder keeps the lanes in byte order. New ones are merged in when somebody
// reads, and lanes without open batches are dropped at the same time, so that
// neither costs a pass over all lanes each.
type laneOrder struct {
	sorted []*lane
	fresh  []*lane
	stale  bool // a reader met many lanes without open batches
}

func (o *laneOrder) add(l *lane) {
	l.listed = true
	o.fresh = append(o.fresh, l)
}

// merge makes sorted complete.
func (o *laneOrder) merge() {
	if len(o.fresh) == 0 && !o.stale {
		return
	}
	all := make([]*lane, 0, len(o.sorted)+len(o.fresh))
	for _, ls := range [...][]*lane{o.sorted, o.fresh} {
		for _, l := range ls {
			if l.open() == 0 {
				l.listed = false
				continue
			}
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *lane) int { // nearly sorted, and so cheap
		switch {
		case a.service < b.service:
			return -1
		case a.service > b.service:
			return 1
		}
		return 0
	})
	o.sorted, o.fresh, o.stale = all, nil, false
}

// Lanes is [store.Engine].Lanes.
func (s *Store) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order.merge()
	from := 0
	if !q.Start {
		from = sort.Search(len(s.order.sorted), func(i int) bool { return s.order.sorted[i].service > q.After })
	}
	var found []batch.ServiceID
	passed := 0
	for _, l := range s.order.sorted[from:] {
		if len(found) >= q.Limit {
			break
		}
		if l.open() == 0 {
			passed++
			continue
		}
		found = append(found, l.service)
	}
	s.order.stale = passed > len(found)+64
	return found, nil
}
