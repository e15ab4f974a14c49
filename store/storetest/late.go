package storetest

import (
	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func lateTests() []test {
	never := func(h Harness) bool { return !h.late() }
	return []test{
		{name: "what becomes visible late goes behind what was claimed", run: lateBehind,
			not: never},
		{name: "what becomes visible late is claimed in its place, whatever went through meanwhile", run: lateInPlace, not: never},
		{name: "it is so where the clock steps back", run: lateStep,
			not: func(h Harness) bool { return !h.late() || h.NoClock }},
		{name: "it is so in a lane that was closed", run: lateClosed, not: never, needs: store.CanControl | store.CanOperate},
		{name: "it is so after claims that were rolled back", run: lateRolledBack, not: never},
		{name: "what is requeued into its place is claimed there, whatever went through meanwhile", run: lateRequeued},
		{name: "adds that take long, and claims, at once", run: lateRace},
	}
}

// The lane is "a", claimed while "late" was not visible. The order key of "late" is smaller
// than the key of "b", but "late" must not come before "a", which may be at the ledger.
func lateBehind(f *fixture) {
	show := f.late(bt("s", "late"))
	f.tick()
	f.add(bt("s", "b"), bt("s", "c"))
	f.take("b")
	show()
	assert.Equal(f, "b", string(f.view("s", 9).Batches[0].ID), "behind what was claimed")
	if f.rows["late"].created.Before(f.rows["b"].created) {
		assert.Equal(f, []batch.ID{"b", "late", "c"}, laneIDs(f.view("s", 9)), "and in its place among the others")
	}
}
