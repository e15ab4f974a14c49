package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func lookTests() []test {
	return []test{
		{name: "at a batch in every standing", run: testLookEach},
		{name: "at its lane, as a claim would read it", run: testLookLane},
		{name: "at what holds it", run: testLookControls},
		{name: "who claimed it", run: testLookInstance},
		{name: "changes nothing", run: testLookNothing},
	}
}

func testLookEach(f *fixture) {
	for name, id := range f.makeOneOfEach() {
		l := f.look(id, 3)
		assert.Equal(f, f.get(id).Final(), l.Lane == nil, name)
	}
}

func testLookLane(f *fixture) {
	bs := newBatches("s", "b", 6)
	bs[2].Footprint = batch.Footprint{Reads: []string{"00"}, Writes: []string{"11"}}
	bs[2].Budget = batch.Budget{Attempts: 3, EveryTry: true}
	f.add(bs...)
	f.claimExactly("b00006", "b00003")
	f.makeRefused("b00005")
	require.NoError(f, f.requeue("b00005", 0))
	f.claimExactly("b00004")
	for window, want := range map[int][]batch.ID{
		1: {"b00006", "b00005", "b00004", "b00003", "b00002"},
		2: {"b00006", "b00005", "b00004", "b00003", "b00002", "b00001"},
	} {
		for _, id := range []batch.ID{"b00004", "b00005"} {
			var got []batch.ID
			for _, r := range f.look(id, window).Lane {
				got = append(got, r.Key.ID)
			}
			assert.Equal(f, want, got, "window %d", window)
		}
	}
	l := f.look("b00004", 1)
	assert.Equal(f, bs[2].Footprint.Compact(), l.Footprint.Compact())
}

func testLookControls(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a")
	f.refuseClaimed("a", batch.PolicyHalt)
	f.setPolicy("s", batch.PolicyQuarantine)
	f.pause(batch.Everything())
	f.pause(batch.Only("s"))
	for _, id := range []batch.ID{"a", "b"} {
		l := f.look(id, 1) // look compares the result with the model
		assert.Equal(f, batch.ID("a"), l.Service.HaltedBy)
		assert.Equal(f, "somebody", l.Everything.PausedBy.Actor)
	}
	f.release("s")
	f.resume(batch.Only("s"))
	assert.False(f, f.look("b", 1).Service.Closed())
}

func testLookInstance(f *fixture) {
	f.add(newBatch("s", "a"))
	assert.Empty(f, f.get("a").ClaimedBy)
	claim := func(instance string) {
		q := store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.units(1.5), Instance: instance}
		require.Len(f, f.claim(q, chooseEveryReady).Runs, 1)
	}
	claim("host-1")
	assert.Equal(f, "host-1", f.get("a").ClaimedBy)
	assert.Equal(f, "host-1", f.look("a", 1).Row.ClaimedBy)
	f.recordEach(f.submitterOutcome, store.Failed, "a")
	assert.Equal(f, "host-1", f.get("a").ClaimedBy, "it was the last")
	f.passUnits(3)
	claim("host-2")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	assert.Equal(f, "host-2", f.get("a").ClaimedBy)
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a")
	assert.Empty(f, f.get("a").ClaimedBy)
}

func testLookNothing(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactlyBy(resendRule(f.units(3.5), 0), "a")
	f.recordEach(f.submitterOutcome, store.Doubtful, "a")
	f.recordEach(f.monitorOutcome, store.NoTrace, "a")
	f.passUnits(4)
	before := f.get("a")
	f.look("a", 9) // a claim would give the batch back to the monitor
	assert.Equal(f, before, f.get("a"))
	assert.Empty(f, f.pending(9, f.units(0.5)))
}
