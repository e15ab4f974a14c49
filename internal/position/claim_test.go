package position

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// rig is a process whose claims come one after another, each with the next transaction id and
// nothing else running, unless a test says otherwise.
type rig struct {
	*Lanes
	now  time.Time
	xid  uint64
	turn int64
}

func newRig() *rig { return &rig{Lanes: NewLanes(100), now: time.Unix(1, 0), xid: 10} }

// look is a claim that has looked; xmin 0 is that nothing else runs.
func (r *rig) look(xmin uint64) (c *Claim, ask bool) {
	c = r.Claim(r.now)
	r.xid++
	if xmin == 0 {
		xmin = r.xid
	}
	ask = c.Look(Look{Started: 1, Xid: r.xid, Xmin: xmin}, r.now)
	return c, ask
}

// see looks, and reports a window of a lane; it returns what was read.
func (r *rig) see(service batch.ServiceID, clock int64, w Window) []Range {
	c, _ := r.look(0)
	ranges := c.Ranges(service, r.turn, clock)
	c.Saw(service, w)
	return ranges
}

func waiting(keys ...int64) Window { return Window{Waiting: keys, Limit: len(keys) + 1, Open: true} }

func from(key int64) []Range { return []Range{{key, math.MaxInt64}} }

func TestPositionFollowsWhatIsOpen(t *testing.T) {
	r := newRig()
	assert.Equal(t, whole, r.see("s", 100, waiting(7)), "nothing is known")
	assert.Equal(t, whole, r.see("s", 100, waiting(8)), "closed and noted")
	assert.Equal(t, whole, r.see("s", 100, waiting(9)), "sealed, and not looked at since")
	assert.Equal(t, from(7), r.see("s", 100, waiting()), "the first key seen")
	assert.Equal(t, from(7), r.see("s", 100, waiting()), "the next is sealed")
	require.Equal(t, from(9), r.see("s", 100, waiting()))
	assert.Equal(t, whole, r.see("other", 100, waiting(8)), "of the other nothing is known")
}
