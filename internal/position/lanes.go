package position

import (
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

const (
	// patience is how long a generation waits for transaction ids before locks are looked at.
	patience = 100 * time.Millisecond
	// lookEvery is how often locks are looked at, at most.
	lookEvery = 20 * time.Millisecond
	// wholeEvery is how often a lane is read from its beginning.
	wholeEvery = 5 * time.Minute
	// wholeShare is among how many lanes of a claim one is read so.
	wholeShare = 50
)

// Lanes is what one process remembers of the lanes of one database. Its methods, and those of
// different [Claim] values, may be called concurrently.
type Lanes struct {
	limit int // of lanes

	mu      sync.Mutex
	epoch   int64 // raised when all is forgotten
	started int64 // when the server was, in whatever unit; 0: not known yet
	// Those used last are in young. When it holds half of the limit it becomes old, and what
	// was in old is dropped.
	young, old map[batch.ServiceID]*lane

	made    int64       // generations
	open    *generation // collects candidates
	sealing *generation // is closed and not sealed yet; nil: none
	byLock  bool        // the last one that was sealed was so by lock
	next    time.Time   // when locks may be looked at again
	stall   Stall
	looked  time.Time // when a claim looked last
}

// lane is what is remembered of one lane.
type lane struct {
	turn   int64
	bound  int64     // no row below it becomes visible but by another turn; the least key: not known
	ranges []Range   // all rows that are open, or will be, have their keys in these
	whole  time.Time // when it is to be read from its beginning
}

// NewLanes returns the memory of at most so many lanes, at least two.
func NewLanes(limit int) *Lanes {
	m := &Lanes{limit: max(2, limit)}
	m.forget(0)
	return m
}

// forget begins anew with a server that was started then.
func (m *Lanes) forget(started int64) {
	m.epoch++
	m.started = started
	m.young, m.old = map[batch.ServiceID]*lane{}, nil
	m.sealing, m.stall = nil, Stall{}
	m.begin()
}

// begin begins a generation.
func (m *Lanes) begin() {
	m.made++
	m.open = &generation{id: m.made, candidates: map[batch.ServiceID]int64{}}
}

// close ends the generation that collects candidates, unless one is being sealed.
func (m *Lanes) close(now time.Time) {
	if m.sealing != nil || len(m.open.candidates) == 0 {
		return
	}
	m.sealing = m.open
	m.sealing.closed = now
	m.begin()
}

// seal makes bounds of the candidates that were closed.
func (m *Lanes) seal(byLock bool) {
	for service, key := range m.sealing.candidates {
		if l := m.find(service); l != nil {
			l.bound = max(l.bound, key)
		}
	}
	m.sealing, m.byLock, m.stall = nil, byLock, Stall{}
}

// find returns what is remembered of a lane, or nil.
func (m *Lanes) find(service batch.ServiceID) *lane {
	if l := m.young[service]; l != nil {
		return l
	}
	return m.old[service]
}

// use returns what is remembered of a lane that is claimed from.
func (m *Lanes) use(service batch.ServiceID, turn int64, now time.Time) *lane {
	l := m.find(service)
	if l == nil {
		l = &lane{turn: turn, bound: math.MinInt64, ranges: whole, whole: now.Add(wholeEvery/2 + spread(service))}
	}
	if m.young[service] == nil {
		if len(m.young) >= m.limit/2 {
			m.young, m.old = map[batch.ServiceID]*lane{}, m.young
		}
		m.young[service] = l
	}
	if l.turn != turn {
		l.turn, l.ranges = turn, whole
	}
	return l
}

// spread is a part of wholeEvery, another one for each lane, so that not all lanes that were
// seen together are read from their beginnings together.
func spread(service batch.ServiceID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(service))
	return wholeEvery / 1024 * time.Duration(h.Sum32()%1024)
}

// Stall says what holds up the bounds. While it lasts positions stay where they are, and
// claims walk all that has become final since: they are right, and slow.
type Stall struct {
	For time.Duration // how long neither ids nor locks have moved, as a claim last saw it; 0: they do
	// Holders are some of the virtual transactions, by their names in pg_locks, that have added
	// here and are still open; none where nobody may look at locks.
	Holders []string
}

// fresh is how long what a claim saw counts as what is so at present.
const fresh = 10 * time.Second

// Stall returns what holds up the bounds at present: nothing where no claim has looked of late.
func (m *Lanes) Stall(now time.Time) Stall {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.looked) > fresh {
		return Stall{}
	}
	return Stall{m.stall.For, slices.Clone(m.stall.Holders)}
}
