package storetest

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func witnessTests() []test {
	return []test{
		{name: "what was decided before the doubt began, latest first", run: testWitnessDecided},
		{name: "only before it in its lane", run: testWitnessEarlier},
		{name: "not what became final since", run: testWitnessSince},
		{name: "none without a doubt", run: testWitnessNoDoubt},
		{name: "within reach", run: testWitnessReach},
	}
}

// witnesses calls Witnesses with the row's number and without it, and compares the result with the
// model.
func (f *fixture) witnesses(id batch.ID, limit int) []batch.ID {
	f.Helper()
	f.endWithout(store.CanFindWitnesses)
	s := f.batches[id]
	var want []batch.ID
	if s.row.DoubtAttempt != 0 {
		before := f.modelBatches(func(w *modelBatch) bool {
			return w.batch.Service == s.batch.Service && (w.created.Before(s.created) || (w.created.Equal(s.created) && w.batch.ID < id))
		})
		slices.Reverse(before)
		for _, w := range before[:min(len(before), store.WitnessReach)] {
			if w.row.Final() && w.row.State != batch.Rejected && w.row.FinalAt.Before(s.row.DoubtSince) && len(want) < limit {
				want = append(want, w.batch.ID)
			}
		}
	}
	for _, ref := range []store.Ref{s.ref, {Key: s.batch.Key()}} {
		got := must(f.store.Witnesses(f.ctx, ref, limit))(f)
		require.Equal(f, append([]batch.ID{}, want...), append([]batch.ID{}, got...), "witnesses of %s", id)
	}
	return want
}

// makeWitnessLane makes a lane in which each batch ends in a known way.
func makeWitnessLane(f *fixture, s batch.ServiceID) {
	p := batch.ID(s)
	f.add(newBatch(s, p+"9"), newBatch(s, p+"8"), newBatch(s, p+"7"), newBatch(s, p+"6"), newBatch(s, p+"5"), newBatch(s, p+"4"))
	f.claimExactly(p+"9", p+"8", p+"7", p+"6")
	f.recordEach(f.submitterOutcome, store.Refused, p+"7")
	f.recordEach(f.submitterOutcome, store.Accepted, p+"9", p+"8", p+"6")
	f.recordEach(f.monitorOutcome, store.IsCommitted, p+"9", p+"6")
	invalid := f.monitorOutcome(p+"8", store.IsInvalid)
	invalid.Settle = 0
	f.recordAll(invalid)
	f.passUnits(1)
}

func testWitnessDecided(f *fixture) {
	makeWitnessLane(f, "s")
	makeWitnessLane(f, "t")
	f.claimExactly("s4")
	assert.Equal(f, []batch.ID{"s6", "s8", "s9"}, f.witnesses("s4", 10), "a live claim is unresolved, too")
	f.recordEach(f.submitterOutcome, store.Doubtful, "s4")
	assert.Equal(f, []batch.ID{"s6", "s8", "s9"}, f.witnesses("s4", 10))
	assert.Equal(f, []batch.ID{"s6", "s8"}, f.witnesses("s4", 2))
	assert.Empty(f, f.witnesses("s4", 0))
	f.recordEach(f.monitorOutcome, store.NoTrace, "s4")
	assert.Len(f, f.witnesses("s4", 10), 3)
	for _, ref := range []store.Ref{{Key: batch.Key{Service: "s", ID: "none"}}, {Key: batch.Key{Service: "t", ID: "s4"}}} {
		assert.Empty(f, must(f.store.Witnesses(f.ctx, ref, 9))(f))
	}
}

func testWitnessEarlier(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "c"))
	f.claimExactly("a", "c")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "c")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a", "c")
	f.passUnits(1)
	f.claimExactly("b")
	assert.Equal(f, []batch.ID{"a"}, f.witnesses("b", 9))
}

func testWitnessSince(f *fixture) {
	f.add(newBatch("s", "early"), newBatch("s", "open"), newBatch("s", "unsettled"), newBatch("s", "late"), newBatch("s", "b"))
	f.claimExactly("early", "open", "unsettled", "late")
	f.recordEach(f.submitterOutcome, store.Accepted, "early", "open", "unsettled", "late")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "early")
	f.recordEach(f.monitorOutcome, store.IsInvalid, "unsettled")
	f.passUnits(1)
	f.claimExactly("b")
	f.passUnits(1)
	f.recordEach(f.monitorOutcome, store.IsCommitted, "late")
	f.recordEach(f.submitterOutcome, store.Doubtful, "b")
	f.passUnits(1)
	assert.Equal(f, []batch.ID{"early"}, f.witnesses("b", 9))
	f.recordEach(f.monitorOutcome, store.NoTrace, "b")
	f.claimExactly("b")
	assert.Equal(f, []batch.ID{"early"}, f.witnesses("b", 9), "the first unresolved attempt counts, not the last")
	f.recordEach(f.submitterOutcome, store.Doubtful, "b")
	f.recordEach(f.monitorOutcome, store.NotCommitted, "b")
	f.passUnits(1)
	f.claimExactly("b")
	assert.Equal(f, []batch.ID{"late", "early"}, f.witnesses("b", 9), "a new doubt")
}

func testWitnessNoDoubt(f *fixture) {
	makeWitnessLane(f, "s")
	assert.Empty(f, f.witnesses("s5", 9), "never attempted")
	f.claimExactly("s5")
	f.recordEach(f.submitterOutcome, store.Failed, "s5")
	assert.Empty(f, f.witnesses("s5", 9))
	assert.Empty(f, f.witnesses("s9", 9), "final")
	assert.Empty(f, f.witnesses("s6", 9))
}

func testWitnessReach(f *fixture) {
	f.makeCommitted(newBatch("s", "far"), newBatch("s", "near"))
	bs := newBatches("s", "b", store.WitnessReach-1)
	f.add(bs...)
	f.add(newBatch("s", "last"))
	f.claimExactly("last")
	assert.Equal(f, []batch.ID{"near"}, f.witnesses("last", 9))
}
