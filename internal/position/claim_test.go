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

// rig is a process whose claims follow one another, each with the next transaction id. No other
// transaction runs, unless a test says otherwise.
type rig struct {
	*Lanes
	now      time.Time
	xid      uint64
	requeues int64
}

func newRig() *rig { return &rig{Lanes: NewLanes(100), now: time.Unix(1, 0), xid: 10} }

// look returns a claim that has reported the server's state. With an xmin of 0 no other
// transaction runs.
func (r *rig) look(xmin uint64) (c *Claim, ask bool) {
	c = r.Claim(r.now)
	r.xid++
	if xmin == 0 {
		xmin = r.xid
	}
	ask = c.SawServer(ServerState{Incarnation: 1, Xid: r.xid, Xmin: xmin}, r.now)
	return c, ask
}

// see reports the server's state and a window of a lane. It returns the ranges that the claim is
// to read.
func (r *rig) see(service batch.ServiceID, clock int64, w Window) []Range {
	c, _ := r.look(0)
	ranges := c.Ranges(service, r.requeues, clock)
	c.SawWindow(service, w)
	return ranges
}

func waiting(keys ...int64) Window { return Window{Waiting: keys, Limit: len(keys) + 1, Open: true} }

func from(key int64) []Range { return []Range{{key, math.MaxInt64}} }

// until repeats see until the reported window has become a position.
func (r *rig) until(service batch.ServiceID, clock int64, w Window) []Range {
	for range 4 {
		r.see(service, clock, w)
	}
	return r.see(service, clock, w)
}

func TestPosition(t *testing.T) {
	r := newRig()
	assert.Equal(t, whole, r.see("s", 100, waiting(7)), "nothing is known")
	assert.Equal(t, whole, r.see("s", 100, waiting(8)), "closed and noted")
	assert.Equal(t, whole, r.see("s", 100, waiting(9)), "sealed, and not looked at since")
	assert.Equal(t, from(7), r.see("s", 100, waiting()), "the first key seen")
	assert.Equal(t, from(7), r.see("s", 100, waiting()), "the next is sealed")
	require.Equal(t, from(9), r.see("s", 100, waiting()))
	assert.Equal(t, whole, r.see("other", 100, waiting(8)), "of the other nothing is known")
}

func TestSealedByID(t *testing.T) {
	r := newRig()
	r.see("s", 100, waiting(7))
	_, _ = r.look(0)
	noted := r.xid
	for _, xmin := range []uint64{noted - 5, noted} {
		_, _ = r.look(xmin)
		assert.NotNil(t, r.sealing, "%d: the id %d, or one before it, is still running", xmin, noted)
	}
	_, _ = r.look(noted + 1)
	require.Nil(t, r.sealing)
}

// A position does not go down with the rows that happen to be visible.
func TestBound(t *testing.T) {
	r := newRig()
	require.Equal(t, from(9), r.until("s", 100, waiting(9)))
	r.requeues++
	require.Equal(t, whole, r.see("s", 100, waiting(2)), "a batch is back in its place")
	require.Equal(t, from(2), r.until("s", 100, waiting(2)))
	require.Equal(t, from(2), r.see("s", 100, waiting()))
	require.Equal(t, from(9), r.see("s", 100, waiting()), "what was known of additions is still true")
}

// A batch that stays open and the batches that pass it are read in separate ranges.
func TestStuck(t *testing.T) {
	const s = minGapMicros
	r := newRig()
	w := Window{Attempted: []int64{1 * s, 90 * s}, Waiting: []int64{90*s + 5}, Limit: 5, Open: true}
	want := []Range{{s, s}, {90 * s, math.MaxInt64}}
	require.Equal(t, want, r.until("s", 100*s, w))
	w.Attempted = []int64{1 * s, 95 * s}
	w.Waiting = nil
	want[1].From = 95 * s
	require.Equal(t, want, r.until("s", 100*s, w), "those that passed it are gone")
	w = Window{Attempted: []int64{1 * s}, Waiting: []int64{1*s + 7, 96 * s}, Limit: 1, Open: true}
	require.Equal(t, want, r.until("s", 100*s, w), "a window that shows too little moves nothing")
	w = Window{Attempted: []int64{1 * s}, Open: true}
	require.Equal(t, want, r.until("s", 100*s, w), "nor does one of which half was read")
	require.Equal(t, from(96*s), r.until("s", 100*s, waiting()))
}

// After retention has removed the last batch of a lane, new keys may be below the position if the
// clock steps back. Then the position is forgotten.
func TestClockStepsBack(t *testing.T) {
	r := newRig()
	require.Equal(t, from(50), r.until("s", 100, waiting(50)))
	require.Equal(t, from(50), r.see("s", 50, waiting()), "ahead of all, and so behind none")
	require.Equal(t, whole, r.see("s", 49, waiting(20)))
	require.Equal(t, whole, r.see("s", 49, waiting(20)), "nor does it come back")
	require.Equal(t, from(20), r.until("s", 60, waiting(20)))
}

func TestLocks(t *testing.T) {
	r := newRig()
	const held = 5 // held by some writer
	ask := func(after time.Duration) (*Claim, bool) {
		r.now = r.now.Add(after)
		return r.look(held)
	}
	r.see("s", 100, waiting(7))
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
	c.SawWindow("s", waiting(8))
	c, asked = ask(lockReadInterval)
	require.True(t, asked, "where ids did not move, locks are the first to be looked at")
	c.SawLocks([]string{})
	require.Nil(t, r.sealing, "nobody holds any")
}

func TestStall(t *testing.T) {
	r := newRig()
	look := func(after time.Duration) *Claim {
		r.now = r.now.Add(after)
		c, _ := r.look(5)
		return c
	}
	r.see("s", 100, waiting(7))
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

func TestWhole(t *testing.T) {
	r := newRig()
	due := map[time.Time]bool{}
	for i := range batch.ServiceID("0123456789") {
		service := batch.ServiceID("s" + string(rune('0'+i)))
		require.Equal(t, from(7), r.until(service, 100, waiting(7)))
		due[r.find(service).wholeReadAt] = true
	}
	require.Greater(t, len(due), 5, "they are spread out")
	r.now = r.now.Add(2 * wholeReadInterval)
	c, _ := r.look(0)
	require.Equal(t, whole, c.Ranges("s1", 0, 100))
	require.Equal(t, from(7), c.Ranges("s2", 0, 100), "one a claim")
	require.False(t, c.SawWindow("s1", waiting(7)))
	require.Equal(t, from(7), r.see("s1", 100, waiting()))

	c, _ = r.look(0)
	require.Equal(t, whole, c.Ranges("s2", 0, 100))
	require.True(t, c.SawWindow("s2", Window{Waiting: []int64{3, 4}, Limit: 1, Open: true}), "somebody else wrote it")
	require.Equal(t, from(3), r.see("s2", 100, waiting(3)), "and it is found from now on")
}

func TestMemory(t *testing.T) {
	m := NewLanes(10)
	for i := range 1000 {
		c := m.Claim(time.Unix(1, 0))
		c.SawServer(ServerState{Incarnation: 1, Xid: 5, Xmin: 5}, time.Unix(1, 0))
		service := batch.ServiceID(rune('0' + i))
		c.Ranges(service, 0, 100)
		c.SawWindow(service, waiting(7))
		require.LessOrEqual(t, len(m.young)+len(m.old), 10)
		require.LessOrEqual(t, len(m.open.candidates), 10)
		require.NotNil(t, m.find(service))
		require.True(t, i == 0 || m.find("often") != nil, "what is used stays")
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
				c.SawWindow(service, waiting(int64(n)))
				m.Stall(time.Unix(int64(n), 0))
			}
		})
	}
	wg.Wait()
}
