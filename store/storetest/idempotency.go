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
		{name: "a known key with the same payload is stored already", run: changeKnown},
		{name: "a known key with another payload is a conflict", run: changeConflict},
		{name: "a key is its service's, and none is none", run: changeApart},
		{name: "a key twice in a call", run: changeTwice},
		{name: "a known id brings no new key", run: changeKnownID},
		{name: "a key in a call that is stored nowhere hides no batch", run: changeOfKnownID},
		{name: "a key in a call that a tombstone has hides no batch", run: changeOfTombstone},
		{name: "an id in a call that its key hides is hidden by the key alone", run: changeThenNone},
		{name: "a key is remembered as long as the id of its batch", run: changeForgotten},
		{name: "concurrent adds of one key", run: changeRace},
		{name: "an add waits for one of its key that is not committed, and nothing else does", run: changeWaits, not: tx},
	}
}

// ch returns a batch with the given key and payload.
func ch(service batch.ServiceID, id batch.ID, change, payload string) batch.Batch {
	return batch.Batch{Service: service, ID: id, DataChangeID: change, Payload: []byte(payload)}
}

func (f *fixture) changeConflict(bs ...batch.Batch) {
	f.Helper()
	err := f.st.Add(f.ctx, bs...)
	require.ErrorIs(f, err, batch.ErrConflict)
	require.ErrorContains(f, err, "DataChangeID")
}

func changeKnown(f *fixture) {
	f.add(ch("s", "a", "key", "p"), bt("s", "z"))
	again := []batch.Batch{ch("s", "b", "key", "p"), ch("s", "a", "key", "p")}
	f.add(again...)
	f.take("a")
	f.add(again...)
	f.each(f.submitted, store.Accepted, "a")
	f.add(append(again, bt("s", "new"))...)
	f.each(f.monitored, store.IsCommitted, "a")
	f.add(again...)
	f.absent(again[0])
	assert.Equal(f, batch.Committed, f.get("a").State)
	assert.Equal(f, "key", f.get("a").DataChangeID)
	assert.Equal(f, []batch.ID{"z", "new"}, laneIDs(f.view("s", 9)))
}

func changeConflict(f *fixture) {
	f.add(ch("s", "a", "key", "p"), ch("s", "b", "other", "p"))
	f.take("b")
	f.each(f.submitted, store.Refused, "b")
	for _, key := range []string{"key", "other"} {
		bad := ch("s", "c", key, "q")
		f.changeConflict(bad)
		f.changeConflict(bt("s", "new"), bad, bt("s", "newer"))
		f.absent(bad, bt("s", "new"), bt("s", "newer"))
	}
	f.get("a")
	f.get("b")
}

func changeApart(f *fixture) {
	f.add(ch("s", "a", "key", "p"), ch("", "b", "key", "q"), ch("t", "c", "key", "p"), ch("s", "d", "KEY", "q"), ch("s", "e", "key ", "q"))
	f.add(ch("s", "f", "", "p"), ch("s", "g", "", "q"), ch("s", "h", "", "p"))
	assert.Len(f, f.rows, 8)
	assert.Len(f, f.stored(), 8)
}

func changeTwice(f *fixture) {
	f.add(ch("s", "b", "key", "p"), bt("s", "z"), ch("s", "a", "key", "p"), ch("t", "c", "key", "q"), ch("s", "b", "key", "p"))
	assert.Equal(f, []batch.ID{"b", "z", "c"}, f.stored(), "the first one is stored")
	f.changeConflict(ch("s", "d", "new", "p"), ch("s", "e", "new", "q"))
	f.absent(ch("s", "d", "new", "p"), ch("s", "e", "new", "q"))
	// A batch that is not stored because of its key is still compared with the batch of its
	// id.
	require.ErrorIs(f, f.st.Add(f.ctx, ch("s", "d", "new", "p"), ch("s", "z", "new", "p")), batch.ErrConflict)
	f.absent(ch("s", "d", "new", "p"))
}

func changeKnownID(f *fixture) {
	f.add(ch("s", "a", "key", "p"), ch("s", "b", "", "q"))
	f.add(ch("s", "a", "another", "p"), ch("s", "b", "third", "q"))
	assert.Equal(f, "key", f.get("a").DataChangeID)
	assert.Empty(f, f.get("b").DataChangeID)
	f.changeConflict(ch("s", "b", "key", "q"))
	f.add(ch("s", "c", "another", "r"), ch("s", "d", "third", "r"))
	assert.Len(f, f.stored(), 4)
}

// A caller that did not get the answer adds the last batch again, by itself: it is stored already.
func changeOfKnownID(f *fixture) {
	f.add(ch("s", "a", "", "p"), ch("s", "b", "", "p"))
	f.add(ch("s", "z", "", "p"), ch("s", "a", "key", "p"), ch("s", "b", "key", "p"), ch("s", "e", "key", "p"), ch("s", "d", "key", "p"), ch("s", "y", "", "p"))
	assert.Equal(f, []batch.ID{"a", "b", "z", "e", "y"}, laneIDs(f.view("s", 9)), "in the order of the call")
	f.add(ch("s", "e", "key", "p"), ch("s", "d", "key", "p"))
	f.add(ch("s", "d", "key", "p"))
	f.add(ch("s", "a", "key", "p"), ch("s", "d", "key", "p"), ch("s", "x", "", "p"))
	assert.Equal(f, "key", f.get("e").DataChangeID)
	f.changeConflict(ch("s", "d", "key", "q"))
	f.changeConflict(ch("s", "c", "new", "p"), ch("s", "d", "new", "q"))
	f.absent(ch("s", "d", "key", "p"), ch("s", "c", "new", "p"))
	assert.Equal(f, []batch.ID{"a", "b", "z", "e", "y", "x"}, laneIDs(f.view("s", 9)))
}

func changeOfTombstone(f *fixture) {
	f.committed(ch("s", "a", "key", "p"), ch("s", "b", "other", "p"))
	require.Equal(f, 2, f.prune(0, true))
	f.add(ch("s", "a", "new", "p"), ch("s", "b", "new", "p"), ch("s", "e", "new", "p"), ch("s", "d", "new", "p"))
	f.add(ch("s", "d", "new", "p"))
	f.absent(ch("s", "a", "new", "p"), ch("s", "b", "new", "p"), ch("s", "d", "new", "p"))
	assert.Equal(f, []batch.ID{"e"}, f.stored())
}

func changeThenNone(f *fixture) {
	x, y := ch("s", "x", "key", "p"), ch("s", "y", "", "p")
	require.NoError(f, f.st.Add(f.ctx, x, ch("s", "y", "key", "p"), y))
	for _, b := range []batch.Batch{x, y} {
		assert.Equal(f, b.DataChangeID, must(f.st.Get(f.ctx, b.Key()))(f).DataChangeID)
	}
	v, w := ch("s", "v", "new", "p"), ch("s", "w", "new", "p")
	require.ErrorIs(f, f.st.Add(f.ctx, v, w, ch("s", "w", "", "q")), batch.ErrConflict)
	f.absent(v, w)
}

func changeForgotten(f *fixture) {
	f.committed(ch("s", "a", "key", "p"))
	require.Equal(f, 1, f.prune(0, false))
	f.committed(ch("s", "b", "key", "q"))
	require.Equal(f, 1, f.prune(0, true))
	f.changeConflict(ch("s", "c", "key", "p"))
	f.add(ch("s", "c", "key", "q"), ch("s", "b", "", "q"))
	assert.Empty(f, f.stored())
}

func changeRace(f *fixture) {
	for round := range 8 {
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				// Four have one payload, and four another, each under an id of its own.
				errs[i] = f.st.Add(f.ctx, ch("s", batch.ID(fmt.Sprint(round, "/", 9-i)), fmt.Sprint("key", round), fmt.Sprint(i/4)))
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
		require.Len(f, f.stored(), round+1)
	}
}

func changeWaits(f *fixture) {
	for i, how := range []string{"rolled back", "committed"} {
		key := "key " + how
		commit, rollback := f.addTx(ch("s", batch.ID("first "+how), key, "p"))
		done := make(chan error, 1)
		go func() { done <- f.st.Add(f.ctx, ch("s", batch.ID("second "+how), key, "p")) }()
		require.NoError(f, f.st.Add(f.ctx, ch("s", batch.ID("other "+how), "other "+key, "p"), ch("t", batch.ID("t "+how), key, "q")), "nobody else waits")
		select {
		case err := <-done:
			require.Fail(f, "it did not wait", "%v", err)
		default:
		}
		first := ch("s", batch.ID("first "+how), "", "")
		second := ch("s", batch.ID("second "+how), "", "")
		if i == 0 {
			require.NoError(f, rollback())
			require.NoError(f, <-done)
			first, second = second, first
		} else {
			require.NoError(f, commit())
			require.NoError(f, <-done)
		}
		_, err := f.st.Get(f.ctx, first.Key())
		require.NoError(f, err, how)
		f.absent(second)
	}
}
