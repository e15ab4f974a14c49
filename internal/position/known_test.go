package position

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// A floor is the beginning of a lane's first range, and comes with all that it depends on.
func TestFloors(t *testing.T) {
	m := NewLanes(10)
	floors, started := m.Floors([]batch.ServiceID{"a"})
	require.Equal(t, []Floor{{From: math.MinInt64}}, floors)
	require.Zero(t, started)
	c := m.Claim(time.Now())
	c.Look(Look{Started: 7, Xid: 1, Xmin: 1}, time.Now())
	c.Ranges("a", 3, 1000)
	m.lanes()["a"].ranges = []Range{{100, 200}, {900, math.MaxInt64}}
	floors, started = m.Floors([]batch.ServiceID{"b", "a"})
	require.Equal(t, []Floor{{From: math.MinInt64}, {From: 100, Turn: 3, Clock: 900}}, floors)
	require.EqualValues(t, 7, started)
}

func (m *Lanes) lanes() map[batch.ServiceID]*lane { return m.young }
