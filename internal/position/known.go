package position

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Floor is an order key, From, below which no row of a lane is open, as long as the lane's count
// of requeues is Requeues and the clock is not before Clock. For an unknown lane From is the least
// key.
type Floor struct{ From, Requeues, Clock int64 }

// Floors returns the floors of lanes, and the incarnation of the database for which they are
// valid. A reader without the lane's lock begins at the floor if requeues, clock and incarnation
// still match, in the reading statement or an earlier one. It may miss a row that is put below the
// floor after that.
func (m *Lanes) Floors(lanes []batch.ServiceID) (floors []Floor, incarnation int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	floors = make([]Floor, len(lanes))
	for i, s := range lanes {
		floors[i].From = math.MinInt64
		if l := m.findLane(s); l != nil {
			floors[i] = Floor{l.ranges[0].From, l.requeues, wholeFrom(l.ranges)}
		}
	}
	return floors, m.incarnation
}

// ScanFloors returns Floors for a scan that looks for lanes with open rows. A lane that no claim
// has read from its beginning for some time begins at its beginning. Reason: claims find hidden
// rows in the lanes that they read, and scans find them in lanes from which nobody claims.
func (m *Lanes) ScanFloors(lanes []batch.ServiceID, now time.Time) (floors []Floor, incarnation int64) {
	floors, incarnation = m.Floors(lanes)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range lanes {
		if l := m.findLane(s); l != nil && !now.Before(l.wholeReadAt) && !now.Before(l.wholeScanAt) {
			l.wholeScanAt = now.Add(wholeReadInterval)
			floors[i].From = math.MinInt64
		}
	}
	return floors, incarnation
}

// Len returns the number of lanes that are remembered, or a few more.
func (m *Lanes) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.recentlyUsed) + len(m.usedBefore)
}

// Names returns the remembered lanes in order.
func (m *Lanes) Names() []batch.ServiceID {
	m.mu.Lock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(m.recentlyUsed)), maps.Keys(m.usedBefore))
	m.mu.Unlock()
	slices.Sort(names)
	return slices.Compact(names)
}
