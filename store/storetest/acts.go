package storetest

import (
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func actsTests() []test {
	return []test{
		{name: "the newest of all, page by page", run: testActsOfAll},
		{name: "no place in the list", run: testActsPlaces},
	}
}

// allActs returns all acts, which it reads in pages of limit acts.
func (f *fixture) allActs(limit int) (all []batch.Act) {
	f.Helper()
	for q := (store.ActsQuery{Limit: limit}); ; {
		page, next := must2(f.store.Acts(f.ctx, q))(f)
		if limit > 0 {
			require.LessOrEqual(f, len(page), limit)
		}
		all = append(all, page...)
		if q.After = next; next == "" {
			return all
		}
		require.NotEmpty(f, page, "a page in between")
	}
}

func testActsOfAll(f *fixture) {
	assert.Empty(f, f.allActs(0))
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("t", "c"))
	require.NoError(f, f.cancel("a", "first"))
	f.tick()
	f.pause(batch.Only("s"))
	f.pause(batch.Only(""))
	require.NoError(f, f.cancel("c", "second"))
	require.NoError(f, f.cancel("b", "third"))
	f.tick()
	require.NoError(f, f.requeue("a", 0))
	f.pause(batch.Everything())
	f.resume(batch.Everything())
	f.setPolicy("t", batch.PolicyHalt)
	var want []batch.Act
	for _, id := range []batch.ID{"a", "b", "c"} {
		want = append(want, f.history(id)...)
	}
	for _, scope := range []batch.Scope{batch.Everything(), batch.Only("s"), batch.Only("t"), batch.Only("")} {
		acts := must(f.store.LaneHistory(f.ctx, scope))(f)
		want = append(want, acts...)
	}
	require.Len(f, want, 9)
	all := f.allActs(0)
	assert.ElementsMatch(f, want, all)
	assert.True(f, slices.IsSortedFunc(all, func(a, b batch.Act) int { return b.At.Compare(a.At) }), "%v", all)
	for limit := 1; limit <= len(want); limit++ {
		assert.Equal(f, all, f.allActs(limit), "%d on a page", limit)
	}
}

func testActsPlaces(f *fixture) {
	for _, after := range []store.Cursor{"x", "e30", "\x00", store.CursorAfter(f.now(), "a")} {
		_, _, err := f.store.Acts(f.ctx, store.ActsQuery{After: after})
		assert.ErrorIs(f, err, batch.ErrInvalidInput, "%q", after)
	}
}
