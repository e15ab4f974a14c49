package position

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// After Forget each part begins as if it were new.
func TestForget(t *testing.T) {
	m, now := NewMemory(10, 2), time.Now()
	remembers := func() []bool {
		floors, _ := m.Lanes.Floors([]batch.ServiceID{"s"})
		from, slow := m.UnderWay.Where()
		return []bool{
			floors[0].From != math.MinInt64, len(m.LanesWithRow.WithoutRow([]batch.ServiceID{"s"})) == 0, m.Scan.IsCareful(now),
			from != 0 || slow != nil, m.Removed[1].From(1000, now) != math.MinInt64,
		}
	}
	require.NotContains(t, remembers(), true)
	m.Lanes.useLane("s", 0, now).ranges = []Range{{7, math.MaxInt64}}
	m.LanesWithRow.Add([]batch.ServiceID{"s"})
	m.Scan.TookLong(now)
	l, _ := m.UnderWay.Due(now, false, false)
	m.UnderWay.Saw(l, ReadResult{Rows: []NumberedRow{{3, 5}}, OldestRunning: 9, NextNumber: 9, Incarnation: 1})
	m.Removed[1].Found(cheapRemoved, 700)
	m.Removed[1].From(1000, now) // the read from the beginning
	require.NotContains(t, remembers(), false)
	m.Forget()
	require.NotContains(t, remembers(), true)
	_, due := m.UnderWay.Due(now, false, false)
	require.True(t, due, "at once")
	require.False(t, func() bool { _, _, enough := m.UnderWay.Front(now, false); return enough }())
}

// With a limit of 0 lanes each lane is read from its beginning, whatever claims have seen.
func TestNoLanes(t *testing.T) {
	r := newRig()
	r.Lanes = NewLanes(0)
	for range 5 {
		require.Equal(t, wholeLane, r.claimWindow("s", 100, waitingWindow(7)))
	}
	floors, _ := r.Floors([]batch.ServiceID{"s"})
	require.EqualValues(t, math.MinInt64, floors[0].From)
	require.Zero(t, r.Len())
	require.Zero(t, r.Stall(r.now))
}
