package storetest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func idempotencyTests() []test {
	tx := func(h Harness) bool { return h.NoTx || h.OneWriter }
	return []test{
		{name: "a known key with the same payload is stored already", run: testChangeKnown},
		{name: "a known key with another payload is a conflict", run: testChangeConflict},
		{name: "a key is its service's, and none is none", run: testChangeApart},
		{name: "a key twice in a call", run: testChangeTwice},
		{name: "a known id brings no new key", run: testChangeKnownID},
		{name: "a key in a call that is stored nowhere hides no batch", run: testChangeOfKnownID},
		{name: "a key in a call that a tombstone has hides no batch", run: testChangeOfTombstone},
		{name: "an id in a call that its key hides is hidden by the key alone", run: testChangeThenNone},
		{name: "a key is remembered as long as the id of its batch", run: testChangeForgotten},
		{name: "concurrent adds of one key", run: testChangeRace},
		{name: "an add waits for one of its key that is not committed, and nothing else does", run: testChangeWaits, isInapplicable: tx},
	}
}

// newKeyedBatch returns a batch with the given DataChangeID and payload.
func newKeyedBatch(service batch.ServiceID, id batch.ID, change, payload string) batch.Batch {
	return batch.Batch{Service: service, ID: id, DataChangeID: change, Payload: []byte(payload)}
}

func (f *fixture) requireChangeConflict(bs ...batch.Batch) {
	f.Helper()
	err := f.store.Add(f.ctx, bs...)
	require.ErrorIs(f, err, batch.ErrConflict)
	require.ErrorContains(f, err, "DataChangeID")
}

func testChangeKnown(f *fixture) {
	f.add(newKeyedBatch("s", "a", "key", "p"), newBatch("s", "z"))
	again := []batch.Batch{newKeyedBatch("s", "b", "key", "p"), newKeyedBatch("s", "a", "key", "p")}
	f.add(again...)
	f.claimExactly("a")
	f.add(again...)
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.add(append(again, newBatch("s", "new"))...)
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a")
	f.add(again...)
	f.requireAbsent(again[0])
	assert.Equal(f, batch.Committed, f.get("a").State)
	assert.Equal(f, "key", f.get("a").DataChangeID)
	assert.Equal(f, []batch.ID{"z", "new"}, laneIDs(f.viewLane("s", 9)))
}

func testChangeConflict(f *fixture) {
	f.add(newKeyedBatch("s", "a", "key", "p"), newKeyedBatch("s", "b", "other", "p"))
	f.claimExactly("b")
	f.recordEach(f.submitterOutcome, store.Refused, "b")
	for _, key := range []string{"key", "other"} {
		bad := newKeyedBatch("s", "c", key, "q")
		f.requireChangeConflict(bad)
		f.requireChangeConflict(newBatch("s", "new"), bad, newBatch("s", "newer"))
		f.requireAbsent(bad, newBatch("s", "new"), newBatch("s", "newer"))
	}
	f.get("a")
	f.get("b")
}

func testChangeApart(f *fixture) {
	f.add(newKeyedBatch("s", "a", "key", "p"), newKeyedBatch("", "b", "key", "q"), newKeyedBatch("t", "c", "key", "p"), newKeyedBatch("s", "d", "KEY", "q"), newKeyedBatch("s", "e", "key ", "q"))
	f.add(newKeyedBatch("s", "f", "", "p"), newKeyedBatch("s", "g", "", "q"), newKeyedBatch("s", "h", "", "p"))
	assert.Len(f, f.batches, 8)
	assert.Len(f, f.storedIDs(), 8)
}

func testChangeTwice(f *fixture) {
	f.add(newKeyedBatch("s", "b", "key", "p"), newBatch("s", "z"), newKeyedBatch("s", "a", "key", "p"), newKeyedBatch("t", "c", "key", "q"), newKeyedBatch("s", "b", "key", "p"))
	assert.Equal(f, []batch.ID{"b", "z", "c"}, f.storedIDs(), "the first one is stored")
	f.requireChangeConflict(newKeyedBatch("s", "d", "new", "p"), newKeyedBatch("s", "e", "new", "q"))
	f.requireAbsent(newKeyedBatch("s", "d", "new", "p"), newKeyedBatch("s", "e", "new", "q"))
	// A batch that is not stored because of its DataChangeID is still compared with the stored
	// batch of its id.
	require.ErrorIs(f, f.store.Add(f.ctx, newKeyedBatch("s", "d", "new", "p"), newKeyedBatch("s", "z", "new", "p")), batch.ErrConflict)
	f.requireAbsent(newKeyedBatch("s", "d", "new", "p"))
}

func testChangeKnownID(f *fixture) {
	f.add(newKeyedBatch("s", "a", "key", "p"), newKeyedBatch("s", "b", "", "q"))
	f.add(newKeyedBatch("s", "a", "another", "p"), newKeyedBatch("s", "b", "third", "q"))
	assert.Equal(f, "key", f.get("a").DataChangeID)
	assert.Empty(f, f.get("b").DataChangeID)
	f.requireChangeConflict(newKeyedBatch("s", "b", "key", "q"))
	f.add(newKeyedBatch("s", "c", "another", "r"), newKeyedBatch("s", "d", "third", "r"))
	assert.Len(f, f.storedIDs(), 4)
}

// testChangeOfKnownID: a caller that did not get the answer adds the last batch again alone: the
// batch counts as stored.
func testChangeOfKnownID(f *fixture) {
	f.add(newKeyedBatch("s", "a", "", "p"), newKeyedBatch("s", "b", "", "p"))
	f.add(newKeyedBatch("s", "z", "", "p"), newKeyedBatch("s", "a", "key", "p"), newKeyedBatch("s", "b", "key", "p"), newKeyedBatch("s", "e", "key", "p"), newKeyedBatch("s", "d", "key", "p"), newKeyedBatch("s", "y", "", "p"))
	assert.Equal(f, []batch.ID{"a", "b", "z", "e", "y"}, laneIDs(f.viewLane("s", 9)), "in the order of the call")
	f.add(newKeyedBatch("s", "e", "key", "p"), newKeyedBatch("s", "d", "key", "p"))
	f.add(newKeyedBatch("s", "d", "key", "p"))
	f.add(newKeyedBatch("s", "a", "key", "p"), newKeyedBatch("s", "d", "key", "p"), newKeyedBatch("s", "x", "", "p"))
	assert.Equal(f, "key", f.get("e").DataChangeID)
	f.requireChangeConflict(newKeyedBatch("s", "d", "key", "q"))
	f.requireChangeConflict(newKeyedBatch("s", "c", "new", "p"), newKeyedBatch("s", "d", "new", "q"))
	f.requireAbsent(newKeyedBatch("s", "d", "key", "p"), newKeyedBatch("s", "c", "new", "p"))
	assert.Equal(f, []batch.ID{"a", "b", "z", "e", "y", "x"}, laneIDs(f.viewLane("s", 9)))
}

func testChangeOfTombstone(f *fixture) {
	f.makeCommitted(newKeyedBatch("s", "a", "key", "p"), newKeyedBatch("s", "b", "other", "p"))
	require.Equal(f, 2, f.prune(0, true))
	f.add(newKeyedBatch("s", "a", "new", "p"), newKeyedBatch("s", "b", "new", "p"), newKeyedBatch("s", "e", "new", "p"), newKeyedBatch("s", "d", "new", "p"))
	f.add(newKeyedBatch("s", "d", "new", "p"))
	f.requireAbsent(newKeyedBatch("s", "a", "new", "p"), newKeyedBatch("s", "b", "new", "p"), newKeyedBatch("s", "d", "new", "p"))
	assert.Equal(f, []batch.ID{"e"}, f.storedIDs())
}

func testChangeThenNone(f *fixture) {
	x, y := newKeyedBatch("s", "x", "key", "p"), newKeyedBatch("s", "y", "", "p")
	require.NoError(f, f.store.Add(f.ctx, x, newKeyedBatch("s", "y", "key", "p"), y))
	for _, b := range []batch.Batch{x, y} {
		assert.Equal(f, b.DataChangeID, must(f.store.Get(f.ctx, b.Key()))(f).DataChangeID)
	}
	v, w := newKeyedBatch("s", "v", "new", "p"), newKeyedBatch("s", "w", "new", "p")
	require.ErrorIs(f, f.store.Add(f.ctx, v, w, newKeyedBatch("s", "w", "", "q")), batch.ErrConflict)
	f.requireAbsent(v, w)
}

func testChangeForgotten(f *fixture) {
	f.makeCommitted(newKeyedBatch("s", "a", "key", "p"))
	require.Equal(f, 1, f.prune(0, false))
	f.makeCommitted(newKeyedBatch("s", "b", "key", "q"))
	require.Equal(f, 1, f.prune(0, true))
	f.requireChangeConflict(newKeyedBatch("s", "c", "key", "p"))
	f.add(newKeyedBatch("s", "c", "key", "q"), newKeyedBatch("s", "b", "", "q"))
	assert.Empty(f, f.storedIDs())
}

func testChangeRace(f *fixture) {
	for round := range 8 {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				// Four calls have one payload, and four have another. Each has its own id.
				errs[i] = f.store.Add(f.ctx, newKeyedBatch("s", batch.ID(fmt.Sprint(round, "/", 9-i)), fmt.Sprint("key", round), fmt.Sprint(i/4)))
			})
		}
		wg.Wait()
		first := errs[0] == nil
		for i, err := range errs {
			if (i < 4) == first {
				require.NoError(f, err)
			} else {
				require.ErrorIs(f, err, batch.ErrConflict)
			}
		}
		require.Len(f, f.storedIDs(), round+1)
	}
}

func testChangeWaits(f *fixture) {
	for i, how := range []string{"rolled back", "committed"} {
		key := "key " + how
		commit, rollback := f.addTx(newKeyedBatch("s", batch.ID("first "+how), key, "p"))
		done := make(chan error, 1)
		go func() { done <- f.store.Add(f.ctx, newKeyedBatch("s", batch.ID("second "+how), key, "p")) }()
		require.NoError(f, f.store.Add(f.ctx, newKeyedBatch("s", batch.ID("other "+how), "other "+key, "p"), newKeyedBatch("t", batch.ID("t "+how), key, "q")), "nobody else waits")
		select {
		case err := <-done:
			require.Fail(f, "it did not wait", "%v", err)
		default:
		}
		first := newKeyedBatch("s", batch.ID("first "+how), "", "")
		second := newKeyedBatch("s", batch.ID("second "+how), "", "")
		if i == 0 {
			require.NoError(f, rollback())
			require.NoError(f, <-done)
			first, second = second, first
		} else {
			require.NoError(f, commit())
			require.NoError(f, <-done)
		}
		_, err := f.store.Get(f.ctx, first.Key())
		require.NoError(f, err, how)
		f.requireAbsent(second)
	}
}
