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
	assert.Equal(f, []batch.ID{"b00003", "b00002", "b00001"}, laneIDs(f.view("s", 9)))
	f.pass(3)
	f.take("b00003")
	f.each(f.submitted, store.Unposted, "b00003")
	assert.Equal(f, []batch.ID{"b00003", "b00002", "b00001"}, laneIDs(f.view("s", 9)))
}

func placeTwice(f *fixture) {
	f.add(many("s", "b", 2)...)
	f.refused("b00002")
	require.NoError(f, f.requeueTo("b00002", store.Requeue{AtEnd: true}))
	f.add(bt("s", "later"))
	f.refused("b00002")
	require.NoError(f, f.requeue("b00002", 0))
	assert.Equal(f, []batch.ID{"b00002", "b00001", "later"}, laneIDs(f.view("s", 9)), "it was attempted, and is ahead of what was not")
	require.NoError(f, f.cancel("b00001", ""))
	require.NoError(f, f.requeue("b00001", 0))
	f.take("b00001", "later")
	assert.Equal(f, []batch.ID{"b00001", "b00002", "later"}, laneIDs(f.view("s", 9)), "and so are they, now")
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
