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
	// idsPatience is how long a generation waits for transaction ids before the locks are read.
	idsPatience = 100 * time.Millisecond
	// lockReadInterval is the least time between two readings of the locks.
	lockReadInterval = 20 * time.Millisecond
	// wholeReadInterval is the time between two reads of a lane from its beginning.
	wholeReadInterval = 5 * time.Minute
	// lanesPerWholeRead is the number of lanes of a claim for each lane that may be read from its
	// beginning.
	lanesPerWholeRead = 50
)

// Lanes is the memory that one process has of the lanes of one database. Its methods, and
// methods of different [Claim] values, may be called concurrently.
type Lanes struct {
	maxLanes int // the largest number of lanes

	mu          sync.Mutex
	epoch       int64 // raised when everything is forgotten
	incarnation int64 // the incarnation of the database; 0 before the first read
	// young has the lanes that were used last. When it has half of the limit it becomes old, and
	// the lanes in old are dropped.
	recentlyUsed, usedBefore map[batch.ServiceID]*lane

	generationsMade   int64       // the number of generations so far
	collecting        *generation // the generation that collects candidates
	sealing           *generation // the generation that is closed and not sealed yet; nil if none
	lastSealWasByLock bool        // true if the last sealed generation was sealed by lock
	nextLockRead      time.Time   // the time from which locks may be read again
	stall             Stall
	readAt            time.Time // the time of the last read
}

// lane is what is remembered of one lane.
type lane struct {
	requeues    int64
	bound       int64     // no row below it becomes visible without another requeue; the least key while unknown
	ranges      []Range   // all rows that are open, or will be, have their keys in these ranges
	wholeReadAt time.Time // the time at which the lane is to be read from its beginning
	// wholeScanAt is when a scan may next read the lane from its beginning, if no claim has.
	wholeScanAt time.Time
}

// NewLanes returns a memory of at most limit lanes; a limit of 1 counts as 2. With a limit of 0 it
// remembers nothing, and each lane is read from its beginning.
func NewLanes(limit int) *Lanes {
	if limit > 0 {
		limit = max(2, limit)
	}
	m := &Lanes{maxLanes: limit}
	m.forgetAll(0)
	return m
}

// Forget forgets all lanes.
func (m *Lanes) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetAll(0)
}

// forgetAll removes everything, and begins with another incarnation of the database.
func (m *Lanes) forgetAll(incarnation int64) {
	m.epoch++
	m.incarnation = incarnation
	m.recentlyUsed, m.usedBefore = map[batch.ServiceID]*lane{}, nil
	m.sealing, m.stall = nil, Stall{}
	m.beginGeneration()
}

// beginGeneration begins a generation.
func (m *Lanes) beginGeneration() {
	m.generationsMade++
	m.collecting = &generation{id: m.generationsMade, candidates: map[batch.ServiceID]int64{}}
}

// closeGeneration ends the generation that collects candidates, unless one is being sealed.
func (m *Lanes) closeGeneration(now time.Time) {
	if m.sealing != nil || len(m.collecting.candidates) == 0 {
		return
	}
	m.sealing = m.collecting
	m.sealing.closedAt = now
	m.beginGeneration()
}

// sealGeneration turns the candidates of the closed generation into bounds.
func (m *Lanes) sealGeneration(byLock bool) {
	for service, key := range m.sealing.candidates {
		if l := m.findLane(service); l != nil {
			l.bound = max(l.bound, key)
		}
	}
	m.sealing, m.lastSealWasByLock, m.stall = nil, byLock, Stall{}
}

// findLane returns the memory of a lane, or nil.
func (m *Lanes) findLane(service batch.ServiceID) *lane {
	if l := m.recentlyUsed[service]; l != nil {
		return l
	}
	return m.usedBefore[service]
}

// useLane returns the memory of a lane that a claim reads. It makes the memory if there is none.
func (m *Lanes) useLane(service batch.ServiceID, requeues int64, now time.Time) *lane {
	l := m.findLane(service)
	if l == nil {
		l = &lane{requeues: requeues, bound: math.MinInt64, ranges: wholeLane, wholeReadAt: now.Add(wholeReadInterval/2 + wholeReadOffset(service))}
	}
	if m.recentlyUsed[service] == nil {
		if len(m.recentlyUsed) >= m.maxLanes/2 {
			m.recentlyUsed, m.usedBefore = map[batch.ServiceID]*lane{}, m.recentlyUsed
		}
		m.recentlyUsed[service] = l
	}
	if l.requeues != requeues {
		l.requeues, l.ranges = requeues, wholeLane
	}
	return l
}

// wholeReadOffset returns a part of wholeReadInterval that differs between lanes, so that lanes
// that were first seen at the same time are not all read from their beginnings at the same time.
func wholeReadOffset(service batch.ServiceID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(service))
	return wholeReadInterval / 1024 * time.Duration(h.Sum32()%1024)
}

// Stall says why the bounds do not move. While it lasts, positions do not advance either, and each
// claim reads over all rows that became final since then: the results are right, and claims are
// slow.
type Stall struct {
	Lasted time.Duration // how long neither ids nor locks have moved, as a claim last saw; 0 while they move
	// Holders are some of the virtual transactions, by their names in pg_locks, that have added
	// rows here and are still open. It is empty if the role may not read locks.
	Holders []string
}

// stallValidFor is how long a claim's reading counts as the present state.
const stallValidFor = 10 * time.Second

// Stall returns the present stall. It returns the zero Stall if no claim has read the server
// lately.
func (m *Lanes) Stall(now time.Time) Stall {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.readAt) > stallValidFor {
		return Stall{}
	}
	return Stall{m.stall.Lasted, slices.Clone(m.stall.Holders)}
}
