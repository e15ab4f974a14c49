package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func placeTests() []test {
	return []test{
		{name: "at the end is behind all that waits", run: placeEnd},
		{name: "and before what is added after it", run: placeThenAdd},
		{name: "one that was never attempted goes to the end, too", run: placeNever},
		{name: "beyond the window it is not shown", run: placeWindow},
		{name: "once it is claimed it is an attempted batch", run: placeClaimed},
		{name: "its old place is where it was last", run: placeTwice},
		{name: "what comes back stands where it was added", run: placeBack},
		{name: "at the end whatever the clock does", run: placeClock, not: noClock},
	}
}

// refused has batches claimed and refused.
func (f *fixture) refused(is ...batch.ID) {
	f.Helper()
	f.take(is...)
	f.each(f.submitted, store.Refused, is...)
}

func placeEnd(f *fixture) {
	f.add(many("s", "b", 4)...)
	f.refused("b00004", "b00003")
	f.take("b00002")
	before := f.get("b00004")
	require.NoError(f, f.requeueTo("b00004", store.Requeue{AtEnd: true}))
	assert.Equal(f, []batch.ID{"b00002", "b00001", "b00004"}, laneIDs(f.view("s", 9)))
	r := f.get("b00004")
	assert.True(f, r.CreatedAt.After(f.get("b00001").CreatedAt))
	assert.Equal(f, batch.Queued, r.State)
	assert.Equal(f, before.Attempt, r.Attempt)
	assert.Equal(f, before.Version+1, r.Version)
	require.NoError(f, f.requeue("b00003", 0))
	assert.Equal(f, []batch.ID{"b00003", "b00002", "b00001", "b00004"}, laneIDs(f.view("s", 9)), "the other in its old place")
	assert.Equal(f, []batch.ID{"b00003", "b00002", "b00001", "b00004"}, f.list(store.ListQuery{}))
	c := f.counts(store.CountsQuery{Start: true})
	require.Len(f, c, 1)
	assert.Equal(f, 2, c[0].Waiting, "it waits like one that was never attempted")
	assert.Equal(f, map[batch.State]int{batch.Queued: 1, batch.Submitting: 1}, c[0].Attempted)
}

func placeThenAdd(f *fixture) {
	f.add(bt("s", "a"), bt("s", "c"))
	f.refused("a")
	require.NoError(f, f.requeueTo("a", store.Requeue{AtEnd: true}))
	f.add(bt("s", "b"))
	assert.Equal(f, []batch.ID{"c", "a", "b"}, laneIDs(f.view("s", 9)))
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 9, Window: 9, TTL: f.u(1.5)}, everyReady)
	assert.Equal(f, []batch.ID{"c", "a", "b"}, claimedIDs(got))
}

func placeNever(f *fixture) {
	f.add(many("s", "b", 3)...)
	require.NoError(f, f.cancel("b00003", "later"))
	require.NoError(f, f.requeueTo("b00003", store.Requeue{Quiet: f.u(9), AtEnd: true}))
	assert.Equal(f, []batch.ID{"b00002", "b00001", "b00003"}, laneIDs(f.view("s", 9)))
	f.take("b00003")
}

func placeWindow(f *fixture) {
	f.add(many("s", "b", 5)...)
	f.refused("b00005", "b00004")
	require.NoError(f, f.requeueTo("b00005", store.Requeue{AtEnd: true}))
	f.add(bt("s", "later"))
	require.NoError(f, f.requeueTo("b00004", store.Requeue{AtEnd: true}))
	for window, want := range map[int][]batch.ID{
		1: {"b00003"},
		3: {"b00003", "b00002", "b00001"},
		4: {"b00003", "b00002", "b00001", "b00005"},
		5: {"b00003", "b00002", "b00001", "b00005", "later"},
		6: {"b00003", "b00002", "b00001", "b00005", "later", "b00004"},
	} {
		assert.Equal(f, want, laneIDs(f.view("s", window)), "window %d", window)
	}
}

func placeClaimed(f *fixture) {
	f.add(many("s", "b", 3)...)
	f.refused("b00003")
	require.NoError(f, f.requeueTo("b00003", store.Requeue{AtEnd: true}))
	assert.Equal(f, 2, f.take("b00003")[0].Attempt)
	assert.Equal(f, []batch.ID{"b00003", "b00002", "b00001"}, laneIDs(f.view("s", 9)), "it went ahead of those: they keep behind it")
	f.each(f.submitted, store.Failed, "b00003")
	assert.Equal(f, []batch.ID{"b00002", "b00001", "b00003"}, laneIDs(f.view("s", 9)), "while it is under way")
	f.pass(3)
	f.take("b00003")
	f.each(f.submitted, store.Unposted, "b00003")
	assert.Equal(f, []batch.ID{"b00002", "b00001", "b00003"}, laneIDs(f.view("s", 9)))
}

func placeTwice(f *fixture) {
	f.add(many("s", "b", 2)...)
	f.refused("b00002")
	require.NoError(f, f.requeueTo("b00002", store.Requeue{AtEnd: true}))
	f.add(bt("s", "later"))
	f.refused("b00002")
	require.NoError(f, f.requeue("b00002", 0))
	assert.Equal(f, []batch.ID{"b00001", "b00002", "later"}, laneIDs(f.view("s", 9)))
	require.NoError(f, f.cancel("b00001", ""))
	require.NoError(f, f.requeue("b00001", 0))
	f.take("b00001", "later")
	assert.Equal(f, []batch.ID{"b00001", "b00002", "later"}, laneIDs(f.view("s", 9)))
}

// placeBack: a strategy may let a batch go before others that it does not conflict with.
// Another strategy that takes over, or works beside it, sees the batch in its place by order
// key, unless it is under way.
func placeBack(f *fixture) {
	front := func(want batch.ID) {
		f.Helper()
		first := func(l batch.Lane) []batch.Run { return []batch.Run{{0}} }
		got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: f.u(1.5),
			Resend: resend(f.u(1000.5), 0), Wants: func(batch.Lane) int { return 0 }}, first)
		assert.Equal(f, []batch.ID{want}, claimedIDs(got))
	}
	f.add(bt("s", "c-a1"), bt("s", "b-a2"), bt("s", "a-b"))
	for _, back := range []struct {
		by      func(batch.ID, store.Finding) store.Outcome
		finding store.Finding
		state   batch.State
	}{
		{f.submitted, store.Unposted, batch.Queued},
		{f.submitted, store.Failed, batch.Delayed},
		{f.monitored, store.NoTrace, batch.Unknown},
	} {
		f.take("a-b")
		if back.finding == store.NoTrace {
			f.each(f.submitted, store.Doubtful, "a-b")
		}
		assert.Equal(f, []batch.ID{"a-b", "c-a1", "b-a2"}, laneIDs(f.view("s", 9)), "under way")
		f.each(back.by, back.finding, "a-b")
		assert.Equal(f, back.state, f.get("a-b").State)
		assert.Equal(f, []batch.ID{"c-a1", "b-a2", "a-b"}, laneIDs(f.view("s", 9)), "%s", back.state)
		assert.Equal(f, []batch.ID{"c-a1", "b-a2"}, laneIDs(f.view("s", 2)), "%s: there may be more before it", back.state)
		assert.Equal(f, []batch.ID{"c-a1"}, laneIDs(f.view("s", 1)), "%s", back.state)
		f.look("a-b", 9)
		f.look("a-b", 2)
		f.pass(3)
	}
	front("c-a1")
	f.each(f.submitted, store.Refused, "c-a1")
	front("b-a2")
	f.each(f.submitted, store.Refused, "b-a2")
	front("a-b")
}

func placeClock(f *fixture) {
	f.add(many("s", "b", 3)...)
	f.refused("b00003")
	f.pass(-5)
	require.NoError(f, f.requeueTo("b00003", store.Requeue{AtEnd: true}))
	f.pass(-5)
	f.add(bt("s", "a new one"))
	assert.Equal(f, []batch.ID{"b00002", "b00001", "b00003", "a new one"}, laneIDs(f.view("s", 9)))
}
