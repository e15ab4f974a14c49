package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func clockTests() []test {
	return []test{
		{name: "a clock that steps back keeps the order", run: testClockOrder, isInapplicable: hasNoClock},
		{name: "and behind what is final, too", run: testClockFinal, isInapplicable: hasNoClock},
		{name: "a claim outlives a step back, for its time", run: testClockClaim, isInapplicable: hasNoClock},
		{name: "a batch that waits, goes on", run: testClockWaits, isInapplicable: hasNoClock},
		{name: "nothing stands for a step back", run: testClockStands, isInapplicable: hasNoClock},
		{name: "a resend window from ahead is closed", run: testClockWindow, isInapplicable: hasNoClock},
		{name: "a check far ahead is due", run: testClockAhead, isInapplicable: hasNoClock},
		{name: "everything goes on after a step back", run: testClockGoesOn, isInapplicable: hasNoClock},
	}
}

func hasNoClock(h Harness) bool { return h.NoClock }

func testClockOrder(f *fixture) {
	var want []batch.ID
	for i, d := range []int{0, -1, -5, 3, -100, 0, 200} {
		f.passUnits(d)
		bs := newBatches("s", string(rune('z'-i)), 3)
		f.add(bs...)
		want = append(want, batchIDs(bs)...)
	}
	assert.Equal(f, want, laneIDs(f.viewLane("s", 100)))
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 100, Window: 100, TTL: f.units(1.5)}, chooseEveryReady)
	assert.Equal(f, want, claimedIDs(got))
}

// testClockFinal: a requeued batch returns to its old place, before batches that were added after
// it.
func testClockFinal(f *fixture) {
	f.add(newBatch("s", "first"))
	require.NoError(f, f.cancel("first", ""))
	f.passUnits(-5)
	f.add(newBatch("s", "a second"))
	require.NoError(f, f.requeue("first", 0))
	assert.Equal(f, []batch.ID{"first", "a second"}, laneIDs(f.viewLane("s", 9)))
}

func testClockClaim(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a")
	f.passUnits(-50)
	ahead := store.PendingQuery{Limit: 9, Lease: f.units(0.5), Ahead: f.units(20.5)}
	assert.Empty(f, f.pendingBy(ahead), "its process may still be posting")
	if f.hasAbilities(store.CanOperate) {
		require.ErrorIs(f, f.decide("a", batch.NotExecutedSendAgain, ""), batch.ErrInDoubt)
	}
	f.passUnits(1)
	assert.Empty(f, f.pendingBy(ahead))
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.passUnits(1)
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(f.pending(9, f.units(0.5))))
}

func testClockWaits(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Failed, "a")
	f.passUnits(-2)
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.units(1.5)}, chooseEveryReady)
	assert.Equal(f, []batch.ID{"a"}, claimedIDs(got))
}

// testClockStands: the clock was ahead by a day, a week or years while something happened to each
// batch, and was then put right. Each batch goes on within its own time.
func testClockStands(f *fixture) {
	for i, step := range []int{24, 7 * 24, 3 * 365 * 24} {
		id := func(name string) batch.ID { return batch.ID(fmt.Sprint(name, i)) }
		lane := func(name string) batch.ServiceID { return batch.ServiceID(id(name)) }
		names := []string{"posting", "doubt", "pending", "delayed", "invalid"}
		f.passUnits(step)
		for _, n := range names {
			f.add(newBatch(lane(n), id(n)))
			f.claimExactly(id(n))
		}
		f.recordEach(f.submitterOutcome, store.Doubtful, id("doubt"))
		f.recordEach(f.submitterOutcome, store.Accepted, id("pending"))
		f.recordEach(f.submitterOutcome, store.Failed, id("delayed"))
		f.recordEach(f.submitterOutcome, store.Accepted, id("invalid"))
		f.recordAll(f.monitorOutcome(id("invalid"), store.IsInvalid))
		f.passUnits(-step)
		ahead := store.PendingQuery{Limit: 9, Lease: f.units(0.5), Ahead: f.units(10.5)}
		assert.ElementsMatch(f, []batch.ID{id("doubt"), id("pending"), id("invalid")}, inFlightIDs(f.pendingBy(ahead)), "%d", step)
		f.passUnits(2) // the claim lasts until the end of its TTL
		asked := f.pendingBy(ahead)
		assert.ElementsMatch(f, []batch.ID{id("posting"), id("doubt"), id("pending"), id("invalid")}, inFlightIDs(asked), "%d", step)
		for _, r := range asked {
			since := 2.0 // the time was put right
			if r.Key.ID == id("posting") {
				since = 0.5
			}
			assert.True(f, f.areNear(f.units(since), r.PostedAgo), "%s, %d: %s", r.Key.ID, step, r.PostedAgo)
		}
		o := f.monitorOutcome(id("invalid"), store.Settled)
		o.Settle = f.units(4)
		f.recordAll(o)
		f.claimExactly(id("delayed"))
		f.recordEach(f.submitterOutcome, store.Accepted, id("delayed"))
		for _, n := range names {
			if n != "invalid" {
				f.recordAll(f.monitorOutcome(id(n), store.IsCommitted))
			}
		}
	}
}

// testClockWindow: a resend that is harmless for a limited time is not harmless any more if nobody
// knows how long ago that time began. A resend that is harmless for ever stays harmless.
func testClockWindow(f *fixture) {
	for i, from := range []batch.State{batch.Submitting, batch.Unknown} {
		for _, window := range []time.Duration{f.units(1000.5), math.MaxInt64} {
			id := batch.ID(fmt.Sprint(i, window == math.MaxInt64))
			f.add(newBatch(batch.ServiceID(id), id))
			f.passUnits(500)
			q := store.ClaimQuery{Lanes: []batch.ServiceID{batch.ServiceID(id)}, Limit: 9, Window: 9, TTL: f.units(1.5), Resend: resendRule(window, 0)}
			f.claim(q, chooseEveryReady)
			f.recordEach(f.submitterOutcome, store.Doubtful, id)
			if from == batch.Unknown {
				f.recordAll(f.monitorOutcome(id, store.NoTrace))
			}
			f.passUnits(-500)
			if from == batch.Submitting {
				asked := f.pendingBy(store.PendingQuery{Limit: 9, Lease: f.units(0.5), Ahead: f.units(10.5)})
				require.Len(f, asked, 1)
				assert.Equal(f, window == math.MaxInt64, asked[0].ResendLeft > 0)
				assert.Greater(f, asked[0].DoubtAgo, f.units(1000), "it began at an unknown time")
				f.recordAll(f.monitorOutcome(id, store.NoTrace))
			}
			claimed := claimedIDs(f.claim(q, chooseEveryReady))
			if window == math.MaxInt64 {
				assert.Equal(f, []batch.ID{id}, claimed)
				f.recordEach(f.submitterOutcome, store.Accepted, id)
			} else {
				assert.Empty(f, claimed)
			}
			f.recordAll(f.monitorOutcome(id, store.IsCommitted))
		}
	}
}

// testClockAhead: if the clock was put back after a check was set, the check is due at once. The
// monitor does not get a live claim so.
func testClockAhead(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("t", "b"), newBatch("u", "claimed"), newBatch("v", "over"), newBatch("w", "doubt"), newBatch("x", "expired"))
	f.claimExactly("expired")
	f.passUnits(50)
	f.pending(9, f.units(20)) // the claim of "expired" is over
	f.claimExactly("a", "b", "over", "doubt")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "b")
	f.recordEach(f.submitterOutcome, store.Doubtful, "doubt")
	f.recordAll(f.monitorOutcome("b", store.IsCommitted))
	f.passUnits(-50)
	f.passUnits(2)
	f.claimExactly("claimed")
	ahead := store.PendingQuery{Limit: 9, Lease: f.units(0.5), Ahead: f.units(30)}
	assert.Empty(f, f.pending(9, 0))
	look := ahead
	look.Lease = 0
	assert.ElementsMatch(f, []batch.ID{"a", "doubt", "expired"}, inFlightIDs(f.pendingBy(look)))
	assert.ElementsMatch(f, []batch.ID{"doubt"}, inFlightIDs(f.pendingOf(9, 0, "u", "v", "w")), "its end is recorded")
	assert.ElementsMatch(f, []batch.ID{"a", "doubt", "expired"}, inFlightIDs(f.pendingBy(ahead)))
	assert.Empty(f, inFlightIDs(f.pendingBy(ahead)), "its lease is near")
	f.setNextCheck(f.units(20), "a", "doubt", "expired")
	assert.Empty(f, inFlightIDs(f.pendingBy(ahead)), "so is its check")
	f.setNextCheck(f.units(40), "a")
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(f.pendingBy(ahead)))
}

func testClockGoesOn(f *fixture) {
	named := f.makeOneOfEach()
	f.passUnits(-50)
	for _, id := range named {
		f.get(id)
	}
	f.pending(100, f.units(0.5))
	f.makeCommitted(newBatch("s", "a"), newBatch("s", "b"))
	f.viewLane("s", 9)
	if f.hasAbilities(store.CanPrune) {
		assert.Equal(f, 2, f.prune(f.units(0.5), true), "final in the past, which is the future to the others")
	}
	f.passUnits(100)
	f.pending(100, f.units(0.5))
	for _, id := range named {
		if s := f.batches[id]; s != nil {
			f.get(id)
			f.record(f.monitorOutcome(id, store.IsCommitted))
			assert.Equal(f, batch.Committed, f.get(id).State)
		}
	}
}
