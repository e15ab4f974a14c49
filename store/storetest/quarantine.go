package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func quarantineTests() []test {
	return []test{
		{name: "the batch is set aside and its lane goes on", run: quarantineAside},
		{name: "what is set aside is listed", run: quarantineList},
		{name: "it is kept until somebody acts", run: quarantineKept},
		{name: "what is set aside keeps nothing else from being pruned", run: quarantinePrune},
		{name: "a late commit ends it", run: quarantineLate},
		{name: "a requeue ends it", run: quarantineRequeue},
	}
}

// aside puts new batches into quarantine.
func (f *fixture) aside(bs ...batch.Batch) {
	f.Helper()
	f.add(bs...)
	for _, b := range bs {
		f.take(b.ID)
		f.ends(b.ID, batch.PolicyQuarantine)
	}
}

func quarantineAside(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("s", "c"))
	f.take("a")
	assert.True(f, f.ends("a", batch.PolicyQuarantine).Row.Quarantined)
	r := f.get("a")
	assert.True(f, r.Final() && r.Quarantined)
	assert.Equal(f, batch.Rejected, r.State)
	assert.Equal(f, "rejected: no", r.Error.Error())
	f.take("b")
	f.each(f.submitted, store.Accepted, "b")
	o := f.monitored("b", store.IsInvalid)
	o.Settle, o.Policy = 0, batch.PolicyQuarantine
	assert.True(f, f.written(o)[0].Row.Quarantined)
	assert.Equal(f, []batch.ID{"c"}, claimedIDs(f.leaves("s")))
	final, _ := f.finals(r.Key)
	assert.Len(f, final, 1)
}

func quarantineList(f *fixture) {
	f.committed(bt("s", "fine"))
	f.aside(bt("s", "b"), bt("t", "a"))
	f.add(bt("s", "open"), bt("s", "refused"))
	f.refused("refused")
	assert.Equal(f, []batch.ID{"b", "a"}, f.list(store.ListQuery{Quarantined: true}))
	s := batch.ServiceID("t")
	assert.Equal(f, []batch.ID{"a"}, f.list(store.ListQuery{Quarantined: true, Service: &s}))
	assert.Equal(f, []batch.ID{"b", "a"}, f.list(store.ListQuery{Quarantined: true, Limit: 1}))
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true, States: []batch.State{batch.Invalid}}))
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true, Open: true}))
	require.NoError(f, f.acquit("b"))
	assert.Equal(f, []batch.ID{"a"}, f.list(store.ListQuery{Quarantined: true}))
}

func quarantineKept(f *fixture) {
	f.aside(bt("s", "a"), bt("s", "b"))
	f.pass(1)
	assert.Zero(f, f.prune(0, false))
	require.NoError(f, f.acquit("a"))
	r := f.get("a")
	assert.True(f, r.Final())
	assert.Equal(f, batch.Rejected, r.State)
	f.pass(1)
	assert.Equal(f, 1, f.prune(f.u(0.5), false), "its age is that of its end")
	f.get("b")
}

func quarantinePrune(f *fixture) {
	f.aside(many("s", "q", 20)...)
	f.pass(1)
	f.committed(many("s", "b", 3)...)
	assert.Equal(f, store.Pruned{Batches: 3}, must(f.st.Prune(f.ctx, store.PruneQuery{Limit: 3}))(f), "those that are older are kept")
	f.absent(many("s", "b", 3)...)
	for _, b := range many("s", "q", 20) {
		f.get(b.ID)
	}
}

func quarantineLate(f *fixture) {
	f.aside(bt("s", "a"))
	assert.True(f, f.written(f.monitored("a", store.IsCommitted))[0].Breach)
	assert.False(f, f.get("a").Quarantined)
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true}))
	f.pass(1)
	assert.Equal(f, 1, f.prune(0, false))
}

func quarantineRequeue(f *fixture) {
	f.aside(bt("s", "a"), bt("s", "b"))
	require.NoError(f, f.requeue("a", 0))
	require.NoError(f, f.requeue("b", 0))
	assert.False(f, f.get("a").Quarantined)
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true}))
	assert.Equal(f, []batch.ID{"a", "b"}, claimedIDs(f.leaves("s")))
	f.each(f.submitted, store.Refused, "a", "b")
	f.pass(1)
	assert.Equal(f, 2, f.prune(0, false))
}
