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
		{name: "a clock that steps back keeps the order", run: clockOrder, not: noClock},
		{name: "and behind what is final, too", run: clockFinal, not: noClock},
		{name: "a claim outlives a step back, for its time", run: clockClaim, not: noClock},
		{name: "a batch that waits, goes on", run: clockWaits, not: noClock},
		{name: "nothing stands for a step back", run: clockStands, not: noClock},
		{name: "a resend window from ahead is closed", run: clockWindow, not: noClock},
		{name: "a check far ahead is due", run: clockAhead, not: noClock},
		{name: "everything goes on after a step back", run: clockGoesOn, not: noClock},
	}
}

func noClock(h Harness) bool { return h.NoClock }

func clockOrder(f *fixture) {
	var want []batch.ID
	for i, d := range []int{0, -1, -5, 3, -100, 0, 200} {
		f.pass(d)
		bs := many("s", string(rune('z'-i)), 3)
		f.add(bs...)
		want = append(want, ids(bs)...)
	}
	assert.Equal(f, want, laneIDs(f.view("s", 100)))
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 100, Window: 100, TTL: f.u(1.5)}, everyReady)
	assert.Equal(f, want, claimedIDs(got))
}

// A requeued batch takes its old place, before batches that were added after it.
func clockFinal(f *fixture) {
	f.add(bt("s", "first"))
	require.NoError(f, f.cancel("first", ""))
	f.pass(-5)
	f.add(bt("s", "a second"))
	require.NoError(f, f.requeue("first", 0))
	assert.Equal(f, []batch.ID{"first", "a second"}, laneIDs(f.view("s", 9)))
}

func clockClaim(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"))
	f.take("a")
	f.pass(-50)
	ahead := store.PendingQuery{Limit: 9, Lease: f.u(0.5), Ahead: f.u(20.5)}
	assert.Empty(f, f.asked(ahead), "its process may still be posting")
	if f.has(store.CanOperate) {
		require.ErrorIs(f, f.decide("a", batch.NotExecutedSendAgain, ""), batch.ErrInDoubt)
	}
	f.pass(1)
	assert.Empty(f, f.asked(ahead))
	f.each(f.submitted, store.Accepted, "a")
	f.pass(1)
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(f.pending(9, f.u(0.5))))
}

func clockWaits(f *fixture) {
	f.add(bt("s", "a"))
	f.take("a")
	f.each(f.submitted, store.Failed, "a")
	f.pass(-2)
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.u(1.5)}, everyReady)
	assert.Equal(f, []batch.ID{"a"}, claimedIDs(got))
}

// The clock was ahead by a day, a week and years while something happened to each batch, and was
// put right: each goes on within its own time.
func clockStands(f *fixture) {
	for i, step := range []int{24, 7 * 24, 3 * 365 * 24} {
		id := func(name string) batch.ID { return batch.ID(fmt.Sprint(name, i)) }
		lane := func(name string) batch.ServiceID { return batch.ServiceID(id(name)) }
		names := []string{"posting", "doubt", "pending", "delayed", "invalid"}
		f.pass(step)
		for _, n := range names {
			f.add(bt(lane(n), id(n)))
			f.take(id(n))
		}
		f.each(f.submitted, store.Doubtful, id("doubt"))
		f.each(f.submitted, store.Accepted, id("pending"))
		f.each(f.submitted, store.Failed, id("delayed"))
		f.each(f.submitted, store.Accepted, id("invalid"))
		f.written(f.monitored(id("invalid"), store.IsInvalid))
		f.pass(-step)
		ahead := store.PendingQuery{Limit: 9, Lease: f.u(0.5), Ahead: f.u(10.5)}
		assert.ElementsMatch(f, []batch.ID{id("doubt"), id("pending"), id("invalid")}, inFlightIDs(f.asked(ahead)), "%d", step)
		f.pass(2) // the claim has lasted for its time
		asked := f.asked(ahead)
		assert.ElementsMatch(f, []batch.ID{id("posting"), id("doubt"), id("pending"), id("invalid")}, inFlightIDs(asked), "%d", step)
		for _, r := range asked {
			since := 2.0 // it was put right
			if r.Key.ID == id("posting") {
				since = 0.5
			}
			assert.True(f, f.nearly(f.u(since), r.PostedAgo), "%s, %d: %s", r.Key.ID, step, r.PostedAgo)
		}
		o := f.monitored(id("invalid"), store.Settled)
		o.Settle = f.u(4)
		f.written(o)
		f.take(id("delayed"))
		f.each(f.submitted, store.Accepted, id("delayed"))
		for _, n := range names {
			if n != "invalid" {
				f.written(f.monitored(id(n), store.IsCommitted))
			}
		}
	}
}

// A resend that is harmless for a while is not harmless any more where nobody knows how long ago
// that while began; a resend that is harmless for ever is harmless.
func clockWindow(f *fixture) {
	for i, from := range []batch.State{batch.Submitting, batch.Unknown} {
		for _, window := range []time.Duration{f.u(1000.5), math.MaxInt64} {
			id := batch.ID(fmt.Sprint(i, window == math.MaxInt64))
			f.add(bt(batch.ServiceID(id), id))
			f.pass(500)
			q := store.ClaimQuery{Lanes: []batch.ServiceID{batch.ServiceID(id)}, Limit: 9, Window: 9, TTL: f.u(1.5), Resend: resend(window, 0)}
			f.claim(q, everyReady)
			f.each(f.submitted, store.Doubtful, id)
			if from == batch.Unknown {
				f.written(f.monitored(id, store.NoTrace))
			}
			f.pass(-500)
			if from == batch.Submitting {
				asked := f.asked(store.PendingQuery{Limit: 9, Lease: f.u(0.5), Ahead: f.u(10.5)})
				require.Len(f, asked, 1)
				assert.Equal(f, window == math.MaxInt64, asked[0].ResendLeft > 0)
				assert.Greater(f, asked[0].DoubtAgo, f.u(1000), "it began at an unknown time")
				f.written(f.monitored(id, store.NoTrace))
			}
			claimed := claimedIDs(f.claim(q, everyReady))
			if window == math.MaxInt64 {
				assert.Equal(f, []batch.ID{id}, claimed)
				f.each(f.submitted, store.Accepted, id)
			} else {
				assert.Empty(f, claimed)
			}
			f.written(f.monitored(id, store.IsCommitted))
		}
	}
}

// The clock was put back after a check was set: nobody waits until it is there again. A live claim
// is left alone.
func clockAhead(f *fixture) {
	f.add(bt("s", "a"), bt("t", "b"), bt("u", "claimed"), bt("v", "over"), bt("w", "doubt"), bt("x", "expired"))
	f.take("expired")
	f.pass(50)
	f.pending(9, f.u(20)) // expired
	f.take("a", "b", "over", "doubt")
	f.each(f.submitted, store.Accepted, "a", "b")
	f.each(f.submitted, store.Doubtful, "doubt")
	f.written(f.monitored("b", store.IsCommitted))
	f.pass(-50)
	f.pass(2)
	f.take("claimed")
	ahead := store.PendingQuery{Limit: 9, Lease: f.u(0.5), Ahead: f.u(30)}
	assert.Empty(f, f.pending(9, 0))
	look := ahead
	look.Lease = 0
	assert.ElementsMatch(f, []batch.ID{"a", "doubt", "expired"}, inFlightIDs(f.asked(look)))
	assert.ElementsMatch(f, []batch.ID{"doubt"}, inFlightIDs(f.pendingOf(9, 0, "u", "v", "w")), "its end is recorded")
	assert.ElementsMatch(f, []batch.ID{"a", "doubt", "expired"}, inFlightIDs(f.asked(ahead)))
	assert.Empty(f, inFlightIDs(f.asked(ahead)), "its lease is near")
	f.checked(f.u(20), "a", "doubt", "expired")
	assert.Empty(f, inFlightIDs(f.asked(ahead)), "so is its check")
	f.checked(f.u(40), "a")
	assert.Equal(f, []batch.ID{"a"}, inFlightIDs(f.asked(ahead)))
}

func clockGoesOn(f *fixture) {
	named := f.oneOfEach()
	f.pass(-50)
	for _, id := range named {
		f.get(id)
	}
	f.pending(100, f.u(0.5))
	f.committed(bt("s", "a"), bt("s", "b"))
	f.view("s", 9)
	if f.has(store.CanPrune) {
		assert.Equal(f, 2, f.prune(f.u(0.5), true), "final in the past, which is the future to the others")
	}
	f.pass(100)
	f.pending(100, f.u(0.5))
	for _, id := range named {
		if s := f.rows[id]; s != nil {
			f.get(id)
			f.record(f.monitored(id, store.IsCommitted))
			assert.Equal(f, batch.Committed, f.get(id).State)
		}
	}
}
