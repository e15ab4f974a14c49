package position

import (
	"math"

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
