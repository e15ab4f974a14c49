package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func reopenTests() []test {
	return []test{
		{name: "everything is kept", run: testReopenKeeps, isInapplicable: isVolatile},
		{name: "an add of 1,000 is there as a whole", run: testReopenAdd, isInapplicable: isVolatile},
	}
}

func isVolatile(h Harness) bool { return h.Volatile }

func testReopenKeeps(f *fixture) {
	if f.hasAbilities(store.CanPrune) {
		f.makeCommitted(newBatch("s", "pruned"))
		f.prune(0, true)
	}
	b := newBatch("s", "with all")
	b.Footprint = batch.Footprint{Reads: []string{"00"}, Writes: []string{"11"}}
	b.Budget, b.DataChangeID = batch.Budget{Attempts: 4, EveryTry: true}, "change"
	f.add(b)
	f.add(newBatches("s", "b", 5)...)
	named := f.makeOneOfEach()
	o := f.monitorOutcome(named["pending"], store.IsInvalid)
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "why"}
	o.Receipts = []batch.Receipt{{TransactionID: "t", Message: "m", Data: []byte{0, 1}}}
	f.recordAll(o)
	f.pending(3, f.units(9.5)) // the leases are kept, too
	if f.hasAbilities(store.CanKeepPrepared) {
		require.Equal(f, []bool{true}, f.keepBytes(f.prepared(named["submitting again, an earlier attempt in doubt"], "kept")))
	}
	if f.hasAbilities(store.CanControl) {
		f.setPolicy("s", batch.PolicyHalt)
		f.pause(batch.Only("paused"))
	}
	f.add(newBatch("paused", "held"))
	attempted := named["submitting"]
	if f.hasAbilities(store.CanOperate) {
		attempted = named["requeued and submitting"]
	}
	failed := f.submitterOutcome(attempted, store.Failed)
	failed.Report = failedReport(2)
	f.recordAll(failed)

	f.reopen()
	for _, id := range named {
		f.get(id)
		f.inspect(id, 9)
	}
	if f.hasAbilities(store.CanControl) {
		for _, scope := range []batch.Scope{batch.Only("s"), batch.Only("paused"), batch.Everything()} {
			f.requireSameControl(scope)
		}
		assert.Empty(f, f.claimAll("paused").Runs)
	}
	f.viewLane("s", 100)
	for _, s := range f.standings() {
		f.viewLane(batch.ServiceID(s.name), 100)
	}
	if f.hasAbilities(store.CanPrune) {
		f.add(newBatch("s", "pruned"))
		f.requireAbsent(newBatch("s", "pruned"))
	}
	f.pending(100, f.units(9.5))
	c := f.claimExactly("with all")[0]
	assert.Equal(f, [][]byte{b.Payload}, must(f.store.Payloads(f.ctx, []store.Ref{c.Ref}))(f))
	f.recordEach(f.submitterOutcome, store.Accepted, "with all")

	f.reopen()
	f.get("with all")
	f.add(newBatch("s", "a new one"))
	assert.Equal(f, batch.ID("a new one"), f.viewLane("s", 100).Batches[6].ID, "at the end")
}

func testReopenAdd(f *fixture) {
	bs := newBatches("s", "b", 1000)
	f.add(bs...)
	bad := append(newBatches("s", "c", 1000), batch.Batch{})
	require.Error(f, f.store.Add(f.ctx, bad...), "Add took a batch without an id")
	f.reopen()
	assert.Equal(f, batchIDs(bs), f.storedIDs())
}
