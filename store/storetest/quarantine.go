package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func quarantineTests() []test {
	return []test{
		{name: "the batch is set aside and its lane goes on", run: testQuarantineAside},
		{name: "what is set aside is listed", run: testQuarantineList},
		{name: "it is kept until somebody acts", run: testQuarantineKept},
		{name: "what is set aside keeps nothing else from being pruned", run: testQuarantinePrune},
		{name: "a late commit ends it", run: testQuarantineLateCommit},
		{name: "a requeue ends it", run: testQuarantineRequeue},
	}
}

// quarantine adds batches and brings them into quarantine.
func (f *fixture) quarantine(bs ...batch.Batch) {
	f.Helper()
	f.add(bs...)
	for _, b := range bs {
		f.claimExactly(b.ID)
		f.refuseClaimed(b.ID, batch.PolicyQuarantine)
	}
}

func testQuarantineAside(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "c"))
	f.claimExactly("a")
	assert.True(f, f.refuseClaimed("a", batch.PolicyQuarantine).Row.Quarantined)
	r := f.get("a")
	assert.True(f, r.Final() && r.Quarantined)
	assert.Equal(f, batch.Rejected, r.State)
	assert.Equal(f, "rejected: no", r.Error.Error())
	f.claimExactly("b")
	f.recordEach(f.submitterOutcome, store.Accepted, "b")
	o := f.monitorOutcome("b", store.IsInvalid)
	o.Settle, o.Policy = 0, batch.PolicyQuarantine
	assert.True(f, f.recordAll(o)[0].Row.Quarantined)
	assert.Equal(f, []batch.ID{"c"}, claimedIDs(f.claimAll("s")))
	final, _ := f.finals(r.Key)
	assert.Len(f, final, 1)
}

func testQuarantineList(f *fixture) {
	f.makeCommitted(newBatch("s", "fine"))
	f.quarantine(newBatch("s", "b"), newBatch("t", "a"))
	f.add(newBatch("s", "open"), newBatch("s", "refused"))
	f.makeRefused("refused")
	assert.Equal(f, []batch.ID{"b", "a"}, f.list(store.ListQuery{Quarantined: true}))
	s := batch.ServiceID("t")
	assert.Equal(f, []batch.ID{"a"}, f.list(store.ListQuery{Quarantined: true, Service: &s}))
	assert.Equal(f, []batch.ID{"b", "a"}, f.list(store.ListQuery{Quarantined: true, Limit: 1}))
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true, States: []batch.State{batch.Invalid}}))
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true, Open: true}))
	require.NoError(f, f.acquit("b"))
	assert.Equal(f, []batch.ID{"a"}, f.list(store.ListQuery{Quarantined: true}))
}

func testQuarantineKept(f *fixture) {
	f.quarantine(newBatch("s", "a"), newBatch("s", "b"))
	f.passUnits(1)
	assert.Zero(f, f.prune(0, false))
	require.NoError(f, f.acquit("a"))
	r := f.get("a")
	assert.True(f, r.Final())
	assert.Equal(f, batch.Rejected, r.State)
	f.passUnits(1)
	assert.Equal(f, 1, f.prune(f.units(0.5), false), "its age is that of its end")
	f.get("b")
}

func testQuarantinePrune(f *fixture) {
	f.quarantine(newBatches("s", "q", 20)...)
	f.passUnits(1)
	f.makeCommitted(newBatches("s", "b", 3)...)
	assert.Equal(f, store.Pruned{Batches: 3}, must(f.store.Prune(f.ctx, store.PruneQuery{Limit: 3}))(f), "those that are older are kept")
	f.requireAbsent(newBatches("s", "b", 3)...)
	for _, b := range newBatches("s", "q", 20) {
		f.get(b.ID)
	}
}

func testQuarantineLateCommit(f *fixture) {
	f.quarantine(newBatch("s", "a"))
	assert.True(f, f.recordAll(f.monitorOutcome("a", store.IsCommitted))[0].Breach)
	assert.False(f, f.get("a").Quarantined)
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true}))
	f.passUnits(1)
	assert.Equal(f, 1, f.prune(0, false))
}

func testQuarantineRequeue(f *fixture) {
	f.quarantine(newBatch("s", "a"), newBatch("s", "b"))
	require.NoError(f, f.requeue("a", 0))
	require.NoError(f, f.requeue("b", 0))
	assert.False(f, f.get("a").Quarantined)
	assert.Empty(f, f.list(store.ListQuery{Quarantined: true}))
	assert.Equal(f, []batch.ID{"a", "b"}, claimedIDs(f.claimAll("s")))
	f.recordEach(f.submitterOutcome, store.Refused, "a", "b")
	f.passUnits(1)
	assert.Equal(f, 2, f.prune(0, false))
}
