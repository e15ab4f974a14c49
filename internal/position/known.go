package position

import (
	"maps"
	"math"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// Floor is a key below which nothing of a lane is open, while its turn is Turn and the clock
// is at Clock or later. Where nothing is known of the lane, From is the least key.
type Floor struct{ From, Turn, Clock int64 }

// Floors returns what is known of lanes, and when the server was started for which it is
// true. Who reads a lane without its lock starts there, once it has seen that all three are
// so still, in the statement that reads, or in one before it: what is put below it after
// that may be missed.
func (m *Lanes) Floors(lanes []batch.ServiceID) (floors []Floor, started int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	floors = make([]Floor, len(lanes))
	for i, s := range lanes {
		floors[i].From = math.MinInt64
		if l := m.find(s); l != nil {
			floors[i] = Floor{l.ranges[0].From, l.turn, bottom(l.ranges)}
		}
	}
	return floors, m.started
}

// Len returns of how many lanes something is remembered, or a few more.
func (m *Lanes) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.young) + len(m.old)
}

// Names returns the lanes that are remembered, in order.
func (m *Lanes) Names() []batch.ServiceID {
	m.mu.Lock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(m.young)), maps.Keys(m.old))
	m.mu.Unlock()
	slices.Sort(names)
	return slices.Compact(names)
}
