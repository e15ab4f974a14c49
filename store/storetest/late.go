package storetest

import (
	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func lateTests() []test {
	never := func(h Harness) bool { return !h.canShowLate() }
	return []test{
		{name: "what becomes visible late goes behind what was claimed", run: testLateBehind,
			isInapplicable: never},
		{name: "what becomes visible late is claimed in its place, whatever went through meanwhile", run: testLateInPlace, isInapplicable: never},
		{name: "it is so where the clock steps back", run: testLateStep,
			isInapplicable: func(h Harness) bool { return !h.canShowLate() || h.NoClock }},
		{name: "it is so in a lane that was closed", run: testLateClosed, isInapplicable: never, needs: store.CanControl | store.CanOperate},
		{name: "it is so after claims that were rolled back", run: testLateRolledBack, isInapplicable: never},
		{name: "what is requeued into its place is claimed there, whatever went through meanwhile", run: testLateRequeued},
		{name: "adds that take long, and claims, at once", run: testLateRace},
	}
}

// testLateBehind: the lane has "a", which was claimed while "late" was not visible. The order key
// of "late" is before that of "b". Nevertheless "late" must not come before "a", which may be at
// the ledger.
func testLateBehind(f *fixture) {
	show := f.addHidden(newBatch("s", "late"))
	f.tick()
	f.add(newBatch("s", "b"), newBatch("s", "c"))
	f.claimExactly("b")
	show()
	assert.Equal(f, "b", string(f.viewLane("s", 9).Batches[0].ID), "behind what was claimed")
	if f.batches["late"].created.Before(f.batches["b"].created) {
		assert.Equal(f, []batch.ID{"b", "late", "c"}, laneIDs(f.viewLane("s", 9)), "and in its place among the others")
	}
}
