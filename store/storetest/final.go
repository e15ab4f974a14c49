package storetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func finalTests() []test {
	return []test{
		{name: "an outcome is written once", run: testFinalOnce},
		{name: "get and list find open and final", run: testFinalFound},
		{name: "a late commit wins and is a breach", run: testFinalLateCommit},
		{name: "receipts and errors are kept", run: testFinalKept},
		{name: "receipts of a commit are kept, whoever heard of it", run: testFinalReceipts},
		{name: "receipts that come after their commit are kept, once", run: testFinalReceiptsLater},
		{name: "the lane goes on", run: testFinalLane},
	}
}

func testFinalOnce(f *fixture) {
	f.add(newBatch("s", "a"))
	f.claimExactly("a")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	commit := f.monitorOutcome("a", store.IsCommitted)
	f.recordAll(commit)
	first := f.get("a")
	assert.True(f, f.isNear(f.now(), first.FinalAt))
	assert.True(f, first.Final())
	f.passUnits(2)
	for range 2 {
		a := f.record(commit)[0]
		assert.Equal(f, store.Written, a.Result)
		assert.False(f, a.Breach)
		assert.Equal(f, first, f.get("a"))
	}
	for _, finding := range []store.Finding{store.IsInvalid, store.NotCommitted, store.IsPending, store.Settled, store.Undecidable} {
		assert.Equal(f, store.Fenced, f.record(f.monitorOutcome("a", finding))[0].Result, finding)
	}
	assert.Equal(f, first, f.get("a"))
}

func testFinalFound(f *fixture) {
	named := f.makeOneOfEach()
	open := map[batch.ID]bool{}
	if f.hasAbilities(store.CanList) {
		rs, _ := must2(f.store.List(f.ctx, store.ListQuery{Open: true}))(f)
		for _, r := range rs {
			assert.False(f, r.Final())
			open[r.ID] = true
		}
	}
	for name, id := range named {
		r := f.get(id)
		final := name == "invalid" || name == "committed" || name == "rejected" || name == "cancelled" || name == "quarantined"
		assert.Equal(f, final, r.Final(), name)
		assert.Equal(f, !final && f.hasAbilities(store.CanList), open[id], name)
	}
	if !f.hasAbilities(store.CanList) {
		return
	}
	rs, _ := must2(f.store.List(f.ctx, store.ListQuery{}))(f)
	assert.Len(f, rs, len(named))
	for _, r := range rs {
		f.requireSameRecord(f.batches[r.ID], r)
	}
}

func testFinalLateCommit(f *fixture) {
	named := f.makeOneOfEach()
	for _, name := range []string{"invalid", "rejected", "cancelled", "quarantined"} {
		id := named[name]
		if id == "" {
			continue // no step of the store leads to this standing
		}
		before := f.get(id)
		f.passUnits(1)
		o := f.monitorOutcome(id, store.IsCommitted)
		o.Version = 1
		a := f.record(o)[0]
		assert.Equal(f, store.Written, a.Result)
		assert.True(f, a.Breach, name)
		assert.Equal(f, before.State, a.From)
		r := f.get(id)
		assert.Equal(f, batch.Committed, r.State)
		assert.Equal(f, before.Version+1, r.Version)
		assert.Nil(f, r.Error, "a refusal that was none")
		assert.True(f, r.FinalAt.After(before.FinalAt))
		assert.False(f, f.record(o)[0].Breach, "reported once")
	}
	for _, name := range []string{"queued", "delayed", "unknown", "pending"} {
		a := f.recordAll(f.monitorOutcome(named[name], store.IsCommitted))[0]
		assert.False(f, a.Breach, name)
		assert.Empty(f, f.viewLane(batch.ServiceID(name), 9).Batches, "the lane of the one that was %s", name)
	}
	if id := named["requeued"]; id != "" {
		assert.True(f, f.recordAll(f.monitorOutcome(id, store.IsCommitted))[0].Breach, "it was final, and others may have gone ahead")
	}
}

func testFinalReceipts(f *fixture) {
	f.add(newBatch("asked", "a"), newBatch("said", "b"), newBatch("one", "c"))
	f.claimExactly("a", "b", "c")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "b")
	want := func(id batch.ID) []batch.Receipt {
		return []batch.Receipt{{TransactionID: "t1 of " + string(id), Valid: true, Data: []byte{0, 255}}, {TransactionID: "t2", Valid: true}}
	}
	for id, o := range map[batch.ID]store.Outcome{
		"a": f.monitorOutcome("a", store.IsCommitted),
		"b": {Ref: store.Ref{Key: f.monitorOutcome("b", store.IsCommitted).Key}, By: batch.ByMonitor, Finding: store.IsCommitted}, // an event has reported the commit, and nobody has read the row
		"c": f.submitterOutcome("c", store.IsCommitted),                                                                           // acceptance and commit as one outcome
	} {
		o.Receipts = want(id)
		f.recordAll(o)
		r := f.get(id)
		assert.Equal(f, batch.Committed, r.State)
		assert.True(f, areReceiptsEqual(want(id), r.Receipts), "%s: %+v", id, r.Receipts)
	}
}

func testFinalReceiptsLater(f *fixture) {
	late := func(id batch.ID, text string) store.Outcome {
		o := f.monitorOutcome(id, store.HasReceipts)
		o.Version = 0
		o.Receipts = []batch.Receipt{{TransactionID: "t1", Valid: true, Message: text, Data: []byte{0, 255}}, {TransactionID: "t2", Valid: true}}
		return o
	}
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "c"))
	f.claimExactly("a", "b", "c")
	f.recordEach(f.submitterOutcome, store.Accepted, "a", "b", "c")
	invalid := f.monitorOutcome("b", store.IsInvalid)
	invalid.Settle = 0
	f.recordAll(invalid)
	for _, id := range []batch.ID{"b", "c"} {
		before := f.get(id)
		assert.Equal(f, store.Fenced, f.record(late(id, "never"))[0].Result, "%s is %s", id, before.State)
		assert.Equal(f, before, f.get(id))
	}
	gone := late("a", "never")
	gone.Ref = store.Ref{Key: batch.Key{Service: "s", ID: "nobody"}}
	assert.Equal(f, store.Gone, f.record(gone)[0].Result)

	f.recordAll(f.monitorOutcome("a", store.IsCommitted))
	want := f.get("a")
	f.passUnits(2)
	none := late("a", "")
	none.Receipts = nil
	assert.Equal(f, store.Written, f.record(none)[0].Result)
	assert.Equal(f, want, f.get("a"), "without receipts nothing changes")
	for _, text := range []string{"first", "second"} {
		a := f.record(late("a", text))[0]
		assert.Equal(f, store.Written, a.Result)
		assert.Equal(f, batch.Committed, a.From, "no state changes")
		assert.False(f, a.Breach)
		got := f.get("a")
		assert.True(f, areReceiptsEqual(late("a", "first").Receipts, got.Receipts), "%+v", got.Receipts)
		want.Receipts, want.Version = got.Receipts, got.Version
		assert.Equal(f, want, got, "nothing else changes")
		assert.Equal(f, a.Row.Version, got.Version)
	}
	assert.Equal(f, store.Written, f.record(f.monitorOutcome("a", store.IsCommitted))[0].Result, "the commit again")
	assert.True(f, areReceiptsEqual(want.Receipts, f.get("a").Receipts))
}

func testFinalKept(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("a", "b")
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	o := f.monitorOutcome("a", store.IsInvalid)
	o.Error = &batch.SubmissionError{Kind: batch.KindInvalid, Message: "bad nonce: ü"}
	o.Receipts = []batch.Receipt{
		{TransactionID: "t1", Message: "bad nonce", Data: []byte{0, 1, 254, 255}},
		{TransactionID: "t2", Valid: true},
		{TransactionID: "t1", Message: "in the order given, and again"},
	}
	f.recordAll(o)
	kept := func() {
		r := f.get("a")
		assert.Equal(f, o.Error, r.Error)
		assert.True(f, areReceiptsEqual(o.Receipts, r.Receipts), "%+v", r.Receipts)
	}
	kept()
	assert.Equal(f, store.Bad, f.record(f.monitorOutcome("a", store.Settled))[0].Result, "it is too early to settle")
	assert.False(f, f.get("a").Final())
	f.passUnits(6)
	f.recordEach(f.monitorOutcome, store.Settled, "a")
	kept()
	if f.hasAbilities(store.CanList) {
		rs, _ := must2(f.store.List(f.ctx, store.ListQuery{States: []batch.State{batch.Invalid}}))(f)
		require.Len(f, rs, 1)
		assert.Equal(f, o.Error, rs[0].Error)
		assert.Len(f, rs[0].Receipts, 3)
	}

	o = f.submitterOutcome("b", store.Refused)
	o.Error = &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}
	f.recordAll(o)
	assert.Equal(f, "rejected: no", f.get("b").Error.Error())
	if !f.hasAbilities(store.CanOperate) {
		return
	}
	require.NoError(f, f.requeue("a", 0))
	assert.Empty(f, f.get("a").Receipts)
	assert.Nil(f, f.get("a").Error)
}

func testFinalLane(f *fixture) {
	f.add(newBatches("s", "b", 3)...)
	for _, id := range []batch.ID{"b00003", "b00002", "b00001"} {
		assert.Equal(f, []batch.ID{id}, laneIDs(f.viewLane("s", 1)))
		f.claimExactly(id)
		f.recordEach(f.submitterOutcome, store.Accepted, id)
		f.recordEach(f.monitorOutcome, store.IsCommitted, id)
	}
	assert.Empty(f, f.viewLane("s", 1).Batches)
	f.passUnits(9)
	assert.Empty(f, f.pending(10, f.units(0.5)))
}
