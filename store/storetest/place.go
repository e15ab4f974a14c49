package storetest

import (
	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func placeTests() []test {
	return []test{{name: "what comes back stands where it was added", run: testPlaceBack}}
}

// makeRefused claims batches and records that they were refused.
func (f *fixture) makeRefused(is ...batch.ID) {
	f.Helper()
	f.claimExactly(is...)
	f.recordEach(f.submitterOutcome, store.Refused, is...)
}

// testPlaceBack: a strategy may let a batch go before others that it does not conflict with.
// Another strategy, which takes over or works at the same time, sees the batch at the place of its
// order key, unless the batch is under way.
func testPlaceBack(f *fixture) {
	front := func(want batch.ID) {
		f.Helper()
		first := func(l batch.Lane) []batch.Run { return []batch.Run{{0}} }
		got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: f.units(1.5),
			Resend: resendRule(f.units(1000.5), 0), Wants: func(batch.Lane) int { return 0 }}, first)
		assert.Equal(f, []batch.ID{want}, claimedIDs(got))
	}
	f.add(newBatch("s", "c-a1"), newBatch("s", "b-a2"), newBatch("s", "a-b"))
	for _, back := range []struct {
		by      func(batch.ID, store.Finding) store.Outcome
		finding store.Finding
		state   batch.State
	}{
		{f.submitterOutcome, store.Unposted, batch.Queued},
		{f.submitterOutcome, store.Failed, batch.Delayed},
		{f.monitorOutcome, store.NoTrace, batch.Unknown},
	} {
		f.claimExactly("a-b")
		if back.finding == store.NoTrace {
			f.recordEach(f.submitterOutcome, store.Doubtful, "a-b")
		}
		assert.Equal(f, []batch.ID{"a-b", "c-a1", "b-a2"}, laneIDs(f.viewLane("s", 9)), "under way")
		f.recordEach(back.by, back.finding, "a-b")
		assert.Equal(f, back.state, f.get("a-b").State)
		assert.Equal(f, []batch.ID{"c-a1", "b-a2", "a-b"}, laneIDs(f.viewLane("s", 9)), "%s", back.state)
		assert.Equal(f, []batch.ID{"c-a1", "b-a2"}, laneIDs(f.viewLane("s", 2)), "%s: there may be more before it", back.state)
		assert.Equal(f, []batch.ID{"c-a1"}, laneIDs(f.viewLane("s", 1)), "%s", back.state)
		f.look("a-b", 9)
		f.look("a-b", 2)
		f.passUnits(3)
	}
	front("c-a1")
	f.recordEach(f.submitterOutcome, store.Refused, "c-a1")
	front("b-a2")
	f.recordEach(f.submitterOutcome, store.Refused, "b-a2")
	front("a-b")
}
