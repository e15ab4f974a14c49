package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// While a snapshot is held, traffic leaves this many dead rows in each lane: as many as 8 minutes
// of 2,000 batches/s over 400 lanes.
const (
	heldLanes   = 4
	heldPerLane = 2400
)

// measureCalls measures every call of a Runner on a store in which some batches wait and some are
// under way, at least one batch of each lane. names has the order of the calls.
func (v *deliverer) measureCalls() (names []string, buffers map[string]int64) {
	v.t.Helper()
	buffers = map[string]int64{}
	take := func(name string, call func()) {
		names = append(names, name)
		buffers[name] = v.buffersOf(call)
	}
	n := len(v.lanes)
	nobody := func(l []batch.ServiceID, err error) { require.NoError(v.t, err); require.Empty(v.t, l) }
	take("Lanes, nothing open", func() { nobody(v.st.Lanes(v.ctx, store.LanesQuery{Start: true, Limit: 100})) })
	take("Pending, nothing open", func() {
		_, err := v.st.Pending(v.ctx, store.PendingQuery{Limit: 100, Lease: time.Minute})
		require.NoError(v.t, err)
	})
	v.add(8 * n)
	var claims, rest []store.Claim
	take("Add", func() { v.add(2 * n) })
	take("Claim", func() { claims = v.claim(2 * n) })
	take("Record accepted", func() { v.record(claims, batch.BySubmitter, store.Accepted) })
	pending := func(q store.PendingQuery, want int) {
		found, err := v.st.Pending(v.ctx, q)
		require.NoError(v.t, err)
		require.Len(v.t, found, want)
	}
	take("Pending, a read", func() { pending(store.PendingQuery{Limit: 100}, 2*n) })
	take("Pending", func() { pending(store.PendingQuery{Limit: 100, Lease: time.Minute}, 2*n) })
	take("Pending of services", func() { pending(store.PendingQuery{Limit: 100, Lease: time.Minute, Services: v.lanes}, 2*n) })
	_, err := v.st.Lanes(v.ctx, store.LanesQuery{Start: true, Limit: 100})
	require.NoError(v.t, err)
	take("Lanes", func() {
		lanes, err := v.st.Lanes(v.ctx, store.LanesQuery{Start: true, Limit: 100})
		require.NoError(v.t, err)
		require.Len(v.t, lanes, n)
	})
	take("Counts", func() {
		counts, err := v.st.Counts(v.ctx, store.CountsQuery{Start: true})
		require.NoError(v.t, err)
		require.Len(v.t, counts, n)
		require.Equal(v.t, 8, counts[0].Waiting)
	})
	take("Counts of a lane", func() {
		counts, err := v.st.Counts(v.ctx, store.CountsQuery{Service: &v.lanes[0]})
		require.NoError(v.t, err)
		require.Equal(v.t, 8, counts[0].Waiting)
	})
	list := func(q store.ListQuery, want int) {
		found, _, err := v.st.List(v.ctx, q)
		require.NoError(v.t, err)
		require.Len(v.t, found, want)
	}
	take("List of a lane, open", func() { list(store.ListQuery{Service: &v.lanes[0], Open: true, Limit: 5}, 5) })
	take("List, open", func() { list(store.ListQuery{Open: true, Limit: 5}, 5) })
	take("List of a lane", func() { list(store.ListQuery{Service: &v.lanes[0], Limit: 5}, 5) })
	take("Get", func() {
		_, err := v.st.Get(v.ctx, claims[0].Key)
		require.NoError(v.t, err)
	})
	take("Record committed", func() { v.record(claims, batch.ByMonitor, store.IsCommitted) })
	take("Finals", func() {
		final, missing, err := v.st.Finals(v.ctx, v.finalKeys)
		require.NoError(v.t, err)
		require.Len(v.t, final, 2*n)
		require.Empty(v.t, missing)
	})
	take("Prune", func() { v.prune(2 * n) })
	take("Prune, nothing left", func() {
		p, err := v.st.Prune(v.ctx, store.PruneQuery{Limit: 1})
		require.NoError(v.t, err)
		require.Zero(v.t, p.Batches)
	})
	for range 4 { // the remaining batches
		rest = v.claim(2 * n)
		v.record(rest, batch.BySubmitter, store.Accepted)
		v.record(rest, batch.ByMonitor, store.IsCommitted)
		v.prune(2 * n)
	}
	return names, buffers
}

// leastBuffers returns the lowest cost of each call in several turns. The first turn costs more,
// since it also reads the catalogs and cleans pages.
func (v *deliverer) leastBuffers() (names []string, leastBuffers map[string]int64) {
	v.t.Helper()
	for range 3 {
		var of map[string]int64
		if names, of = v.measureCalls(); leastBuffers == nil {
			leastBuffers = of
		}
		for name, n := range of {
			leastBuffers[name] = min(leastBuffers[name], n)
		}
	}
	return names, leastBuffers
}

// While a snapshot is held, so that the server cannot clean up, each call reads at most twice the
// buffers that it reads without the snapshot.
func TestCallsUnderAHeldSnapshot(t *testing.T) {
	t.Parallel()
	v := &deliverer{bufferCounter: newBufferCounter(t), ctx: t.Context()}
	for i := range heldLanes {
		v.lanes = append(v.lanes, batch.ServiceID(fmt.Sprintf("lane%d", i)))
	}
	v.deliverAndPrune(heldLanes * heldPerLane)
	v.vacuum()
	names, without := v.leastBuffers()
	v.vacuum()
	end := v.holdSnapshot()
	defer end()
	v.deliverAndPrune(heldLanes * heldPerLane)
	v.vacuum() // cannot remove anything
	_, held := v.leastBuffers()
	var table strings.Builder
	for _, name := range names {
		fmt.Fprintf(&table, "%-24s %6d %6d\n", name, without[name], held[name])
		if growingCalls[name] {
			continue
		}
		assert.LessOrEqual(t, held[name], 2*without[name]+maxMoreBuffers, "%s reads %d buffers, %d without a held snapshot", name, held[name], without[name])
	}
	t.Logf("buffers of a call, without and with a held snapshot:\n%s", &table)
}

// maxMoreBuffers is the number of additional buffers that a call may read, because its rows are on
// pages of their own while the snapshot is held.
const maxMoreBuffers = 40

// growingCalls lists the calls that read dead rows: see docs/performance-appendix.md. A scan for
// lanes does so after a scan that found none. A List without a lane reads all open rows, and a
// List of a lane reads over the rows in front that retention has removed.
var growingCalls = map[string]bool{
	"Lanes, nothing open": true, "Counts": true, "List, open": true, "List of a lane": true,
}
