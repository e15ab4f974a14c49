package position

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// claimRig is a process whose claims follow one another, each with the next transaction id. No
// other transaction runs, unless a test says otherwise.
type claimRig struct {
	*Lanes
	now      time.Time
	xid      uint64
	requeues int64
}

func newRig() *claimRig { return &claimRig{Lanes: NewLanes(100), now: time.Unix(1, 0), xid: 10} }

// beginClaim returns a claim that has reported the server's state. With an xmin of 0 no other
// transaction runs.
func (r *claimRig) beginClaim(xmin uint64) (c *Claim, ask bool) {
	c = r.Claim(r.now)
	r.xid++
	if xmin == 0 {
		xmin = r.xid
	}
	ask = c.SawServer(ServerState{Incarnation: 1, Xid: r.xid, Xmin: xmin}, r.now)
	return c, ask
}

// claimWindow reports the server's state and a window of a lane. It returns the ranges that the
// claim is to read.
func (r *claimRig) claimWindow(service batch.ServiceID, clock int64, w Window) []Range {
	c, _ := r.beginClaim(0)
	ranges := c.Ranges(service, r.requeues, clock)
	c.SawWindow(service, w)
	return ranges
}

func waitingWindow(keys ...int64) Window {
	return Window{Waiting: keys, Limit: len(keys) + 1, Open: true}
}

func rangeFrom(key int64) []Range { return []Range{{key, math.MaxInt64}} }

// claimUntilPosition repeats see until the reported window has become a position.
func (r *claimRig) claimUntilPosition(service batch.ServiceID, clock int64, w Window) []Range {
	for range 4 {
		r.claimWindow(service, clock, w)
	}
	return r.claimWindow(service, clock, w)
}

func TestPosition(t *testing.T) {
	r := newRig()
	assert.Equal(t, wholeLane, r.claimWindow("s", 100, waitingWindow(7)), "nothing is known")
	assert.Equal(t, wholeLane, r.claimWindow("s", 100, waitingWindow(8)), "closed and noted")
	assert.Equal(t, wholeLane, r.claimWindow("s", 100, waitingWindow(9)), "sealed, and not looked at since")
	assert.Equal(t, rangeFrom(7), r.claimWindow("s", 100, waitingWindow()), "the first key seen")
	assert.Equal(t, rangeFrom(7), r.claimWindow("s", 100, waitingWindow()), "the next is sealed")
	require.Equal(t, rangeFrom(9), r.claimWindow("s", 100, waitingWindow()))
	assert.Equal(t, wholeLane, r.claimWindow("other", 100, waitingWindow(8)), "of the other nothing is known")
}

func TestSealedByID(t *testing.T) {
	r := newRig()
	r.claimWindow("s", 100, waitingWindow(7))
	_, _ = r.beginClaim(0)
	noted := r.xid
	for _, xmin := range []uint64{noted - 5, noted} {
		_, _ = r.beginClaim(xmin)
		assert.NotNil(t, r.sealing, "%d: the id %d, or one before it, is still running", xmin, noted)
	}
	_, _ = r.beginClaim(noted + 1)
	require.Nil(t, r.sealing)
}

// A position does not go down with the rows that happen to be visible.
func TestPositionStaysWithoutRows(t *testing.T) {
	r := newRig()
	require.Equal(t, rangeFrom(9), r.claimUntilPosition("s", 100, waitingWindow(9)))
	r.requeues++
	require.Equal(t, wholeLane, r.claimWindow("s", 100, waitingWindow(2)), "a batch is back in its place")
	require.Equal(t, rangeFrom(2), r.claimUntilPosition("s", 100, waitingWindow(2)))
	require.Equal(t, rangeFrom(2), r.claimWindow("s", 100, waitingWindow()))
	require.Equal(t, rangeFrom(9), r.claimWindow("s", 100, waitingWindow()), "what was known of additions is still true")
}

// A batch that stays open and the batches that pass it are read in separate ranges.
func TestPositionBehindAStuckBatch(t *testing.T) {
	const s = minGapMicros
	r := newRig()
	w := Window{Attempted: []int64{1 * s, 90 * s}, Waiting: []int64{90*s + 5}, Limit: 5, Open: true}
	want := []Range{{s, s}, {90 * s, math.MaxInt64}}
	require.Equal(t, want, r.claimUntilPosition("s", 100*s, w))
	w.Attempted = []int64{1 * s, 95 * s}
	w.Waiting = nil
	want[1].From = 95 * s
	require.Equal(t, want, r.claimUntilPosition("s", 100*s, w), "those that passed it are gone")
	w = Window{Attempted: []int64{1 * s}, Waiting: []int64{1*s + 7, 96 * s}, Limit: 1, Open: true}
	require.Equal(t, want, r.claimUntilPosition("s", 100*s, w), "a window that shows too little moves nothing")
	w = Window{Attempted: []int64{1 * s}, Open: true}
	require.Equal(t, want, r.claimUntilPosition("s", 100*s, w), "nor does one of which half was read")
	require.Equal(t, rangeFrom(96*s), r.claimUntilPosition("s", 100*s, waitingWindow()))
}

// After retention has removed the last batch of a lane, new keys may be below the position if the
// clock steps back. Then the position is forgotten.
func TestClockStepsBack(t *testing.T) {
	r := newRig()
	require.Equal(t, rangeFrom(50), r.claimUntilPosition("s", 100, waitingWindow(50)))
	require.Equal(t, rangeFrom(50), r.claimWindow("s", 50, waitingWindow()), "ahead of all, and so behind none")
	require.Equal(t, wholeLane, r.claimWindow("s", 49, waitingWindow(20)))
	require.Equal(t, wholeLane, r.claimWindow("s", 49, waitingWindow(20)), "nor does it come back")
	require.Equal(t, rangeFrom(20), r.claimUntilPosition("s", 60, waitingWindow(20)))
}

func TestSealedByLock(t *testing.T) {
	r := newRig()
	const held = 5 // held by some writer
	ask := func(after time.Duration) (*Claim, bool) {
		r.now = r.now.Add(after)
		return r.beginClaim(held)
	}
	r.claimWindow("s", 100, waitingWindow(7))
	c, asked := ask(0)
	require.False(t, asked, "ids may move")
	_, asked = ask(idsPatience - 1)
	require.False(t, asked)
	c.SawLocks(nil)
	require.NotNil(t, r.sealing, "nobody has asked")
	c, asked = ask(1)
	require.True(t, asked)
	_, asked = ask(lockReadInterval - 1)
	require.False(t, asked, "one read at a time")
	c.SawLocks([]string{"3/1", "3/2"})
	require.NotNil(t, r.sealing)
	c, asked = ask(1)
	require.True(t, asked)
	c.SawLocks([]string{"3/2", "3/3"})
	require.NotNil(t, r.sealing)
	c, _ = ask(lockReadInterval)
	c.SawLocks([]string{"3/1", "3/3"})
	require.Nil(t, r.sealing, "each was missing once")

	c, _ = ask(lockReadInterval)
	c.Ranges("s", 0, 100)
	c.SawWindow("s", waitingWindow(8))
	c, asked = ask(lockReadInterval)
	require.True(t, asked, "where ids did not move, locks are the first to be looked at")
	c.SawLocks([]string{})
	require.Nil(t, r.sealing, "nobody holds any")
}

func TestStall(t *testing.T) {
	r := newRig()
	look := func(after time.Duration) *Claim {
		r.now = r.now.Add(after)
		c, _ := r.beginClaim(5)
		return c
	}
	r.claimWindow("s", 100, waitingWindow(7))
	look(0)
	look(time.Hour)
	require.Zero(t, r.Stall(r.now), "who asks for the first time cannot know")
	look(time.Minute)
	require.Equal(t, Stall{Lasted: time.Hour + time.Minute}, r.Stall(r.now), "by ids, where locks are hidden")
	look(time.Minute).SawLocks([]string{"3/1", "3/2"})
	look(time.Minute).SawLocks([]string{"3/2", "-1/9"})
	require.Equal(t, Stall{Lasted: time.Minute, Holders: []string{"-1/9", "3/2"}}, r.Stall(r.now))
	require.Zero(t, r.Stall(r.now.Add(stallValidFor+1)), "nobody has looked since")
	look(time.Minute).SawLocks(nil)
	require.Zero(t, r.Stall(r.now))
}

func TestLanesAreReadWholeNowAndThen(t *testing.T) {
	r := newRig()
	due := map[time.Time]bool{}
	for i := range batch.ServiceID("0123456789") {
		service := batch.ServiceID("s" + string(rune('0'+i)))
		require.Equal(t, rangeFrom(7), r.claimUntilPosition(service, 100, waitingWindow(7)))
		due[r.findLane(service).wholeReadAt] = true
	}
	require.Greater(t, len(due), 5, "they are spread out")
	r.now = r.now.Add(2 * wholeReadInterval)
	c, _ := r.beginClaim(0)
	require.Equal(t, wholeLane, c.Ranges("s1", 0, 100))
	require.Equal(t, rangeFrom(7), c.Ranges("s2", 0, 100), "one a claim")
	require.False(t, c.SawWindow("s1", waitingWindow(7)))
	require.Equal(t, rangeFrom(7), r.claimWindow("s1", 100, waitingWindow()))

	c, _ = r.beginClaim(0)
	require.Equal(t, wholeLane, c.Ranges("s2", 0, 100))
	require.True(t, c.SawWindow("s2", Window{Waiting: []int64{3, 4}, Limit: 1, Open: true}), "somebody else wrote it")
	require.Equal(t, rangeFrom(3), r.claimWindow("s2", 100, waitingWindow(3)), "and it is found from now on")
}

func TestMemoryOfLanesIsBounded(t *testing.T) {
	m := NewLanes(10)
	for i := range 1000 {
		c := m.Claim(time.Unix(1, 0))
		c.SawServer(ServerState{Incarnation: 1, Xid: 5, Xmin: 5}, time.Unix(1, 0))
		service := batch.ServiceID(rune('0' + i))
		c.Ranges(service, 0, 100)
		c.SawWindow(service, waitingWindow(7))
		require.LessOrEqual(t, len(m.recentlyUsed)+len(m.usedBefore), 10)
		require.LessOrEqual(t, len(m.collecting.candidates), 10)
		require.NotNil(t, m.findLane(service))
		require.True(t, i == 0 || m.findLane("often") != nil, "what is used stays")
		c.Ranges("often", 0, 100)
		names := m.Names()
		require.IsIncreasing(t, append([]batch.ServiceID{""}, names...), "each once, in order")
		require.Contains(t, names, service)
	}
}

// The claims of one process may run at the same time. This is a test for the race detector.
func TestConcurrent(t *testing.T) {
	m := NewLanes(4)
	var xid atomic.Uint64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				c := m.Claim(time.Unix(int64(n), 0))
				x := xid.Add(1)
				if c.SawServer(ServerState{Incarnation: int64(n / 90), Xid: x, Xmin: x - min(x, 8)}, time.Unix(int64(n), 0)) {
					c.SawLocks([]string{"3/1"})
				}
				service := batch.ServiceID(rune('a' + (i+n)%6))
				if r := c.Ranges(service, int64(n/50), 100); len(r) == 0 {
					t.Error("no ranges")
				}
				c.SawWindow(service, waitingWindow(int64(n)))
				m.Stall(time.Unix(int64(n), 0))
			}
		})
	}
	wg.Wait()
}
