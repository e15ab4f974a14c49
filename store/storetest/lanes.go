package storetest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func lanesTests() []test {
	return []test{
		{name: "those with open batches", run: testLanesOpen},
		{name: "in byte order after the cursor", run: testLanesOrder},
		{name: "all are found, a page at a time", run: testLanesPages},
	}
}

func (f *fixture) lanes(q store.LanesQuery) []batch.ServiceID {
	f.Helper()
	got := must(f.store.Lanes(f.ctx, q))(f)
	return got
}

func testLanesOpen(f *fixture) {
	assert.Empty(f, f.lanes(store.LanesQuery{Start: true, Limit: 9}))
	f.makeOneOfEach()
	open := map[batch.ServiceID]bool{}
	for _, s := range f.lanes(store.LanesQuery{Start: true, Limit: 100}) {
		open[s] = true
	}
	for _, s := range f.batches {
		assert.Equal(f, !s.row.Final(), open[s.batch.Service], "lane %q", s.batch.Service)
	}
	f.recordEach(f.monitorOutcome, store.IsCommitted, "id of pending", "id of queued")
	got := f.lanes(store.LanesQuery{Start: true, Limit: 100})
	assert.Len(f, got, len(open)-2)
	assert.NotContains(f, got, batch.ServiceID("pending"))
	assert.NotContains(f, got, batch.ServiceID("queued"))
	assert.NotContains(f, got, batch.ServiceID("rejected"))
	if !f.hasAbilities(store.CanOperate) {
		return
	}
	require.NoError(f, f.requeue(batch.ID("id of rejected"), 0))
	assert.Contains(f, f.lanes(store.LanesQuery{Start: true, Limit: 100}), batch.ServiceID("rejected"))
}

func testLanesOrder(f *fixture) {
	in := []batch.ServiceID{"", " ", "0", "Z", "Za", "a", "a ", "a::b", "aa", "b", "z", "é", "日本", "🦆"} // in byte order
	for i, j := range []int{7, 3, 12, 0, 10, 1, 13, 5, 2, 9, 11, 4, 8, 6} {
		f.add(newBatch(in[j], batch.ID(fmt.Sprint(i))), newBatch(in[j], batch.ID(fmt.Sprint("more", i))))
	}
	assert.Equal(f, in, f.lanes(store.LanesQuery{Start: true, Limit: 100}))
	for i, s := range in {
		assert.Equal(f, in[i+1:], append([]batch.ServiceID{}, f.lanes(store.LanesQuery{After: s, Limit: 100})...), "after %q", s)
	}
	assert.Equal(f, in[:3], f.lanes(store.LanesQuery{Start: true, Limit: 3}), `"" is a service like any other`)
	assert.Equal(f, in[1:3], f.lanes(store.LanesQuery{After: "", Limit: 2}))
	assert.Equal(f, in[5:], f.lanes(store.LanesQuery{After: "_", Limit: 100}), "after one that is not there")
}

func testLanesPages(f *fixture) {
	const n = 300
	for i := range n {
		f.add(newBatch(batch.ServiceID(fmt.Sprintf("%03d", (i*7)%n)), batch.ID(fmt.Sprint(i))))
	}
	q := store.LanesQuery{Start: true, Limit: 37}
	var all []batch.ServiceID
	for {
		got := f.lanes(q)
		all = append(all, got...)
		if len(got) < q.Limit {
			break
		}
		q = store.LanesQuery{After: got[len(got)-1], Limit: 37}
		f.add(newBatch(got[len(got)-1], batch.ID(fmt.Sprint("more", len(all)))))
	}
	require.Len(f, all, n)
	for i, s := range all {
		require.Equal(f, batch.ServiceID(fmt.Sprintf("%03d", i)), s)
	}
}
