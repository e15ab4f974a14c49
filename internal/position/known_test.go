package position

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// A floor is the beginning of a lane's first range, and has all facts on which it depends.
func TestFloors(t *testing.T) {
	m := NewLanes(10)
	floors, incarnation := m.Floors([]batch.ServiceID{"a"})
	require.Equal(t, []Floor{{From: math.MinInt64}}, floors)
	require.Zero(t, incarnation)
	c := m.Claim(time.Now())
	c.SawServer(ServerState{Incarnation: 7, Xid: 1, Xmin: 1}, time.Now())
	c.Ranges("a", 3, 1000)
	m.lanes()["a"].ranges = []Range{{100, 200}, {900, math.MaxInt64}}
	floors, incarnation = m.Floors([]batch.ServiceID{"b", "a"})
	require.Equal(t, []Floor{{From: math.MinInt64}, {From: 100, Requeues: 3, Clock: 900}}, floors)
	require.EqualValues(t, 7, incarnation)
}

// A scan reads a lane from its beginning if no claim has done so for wholeReadInterval, and then
// not again for as long.
func TestScanFloors(t *testing.T) {
	m, now := NewLanes(10), time.Now()
	c := m.Claim(now)
	c.SawServer(ServerState{Incarnation: 7, Xid: 1, Xmin: 1}, now)
	c.Ranges("a", 3, 1000)
	l := m.lanes()["a"]
	l.ranges = []Range{{100, math.MaxInt64}}
	from := func(now time.Time) int64 {
		floors, _ := m.ScanFloors([]batch.ServiceID{"b", "a"}, now)
		require.EqualValues(t, math.MinInt64, floors[0].From)
		return floors[1].From
	}
	require.EqualValues(t, 100, from(l.wholeReadAt.Add(-1)))
	at := l.wholeReadAt
	require.EqualValues(t, math.MinInt64, from(at))
	require.EqualValues(t, 100, from(at.Add(wholeReadInterval-1)))
	require.EqualValues(t, math.MinInt64, from(at.Add(wholeReadInterval)))
	l.wholeReadAt = at.Add(3 * wholeReadInterval) // as if a claim had read the lane
	require.EqualValues(t, 100, from(at.Add(2*wholeReadInterval)))
}

func (m *Lanes) lanes() map[batch.ServiceID]*lane { return m.recentlyUsed }
