package storetest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func pruneTests() []test {
	return []test{
		{name: "only what is final, and old enough", run: testPruneFinal},
		{name: "oldest first, up to the limit", run: testPruneLimit},
		{name: "a tombstone keeps a batch from being sent again", run: testPruneTombstone},
		{name: "services decide about their own tombstones", run: testPruneTombstones},
		{name: "a tombstone may depend on the ledger", run: testPruneServed, needs: store.CanKeepTexts},
		{name: "what is left of any kind is said", run: testPruneMore},
		{name: "without a tombstone it is new", run: testPruneForgets},
		{name: "an outcome of a batch that is gone", run: testPruneGone},
		{name: "a commit of a batch that was removed and added again", run: testPruneAgain},
	}
}

func testPruneFinal(f *fixture) {
	named := f.makeOneOfEach()
	final := slices.DeleteFunc([]string{"invalid", "committed", "rejected", "cancelled"}, func(name string) bool { return named[name] == "" })
	assert.Zero(f, f.prune(f.units(0.5), false), "none is old enough")
	f.passUnits(1)
	assert.Equal(f, len(final), f.prune(f.units(0.5), false))
	for _, name := range final {
		delete(named, name)
	}
	for _, id := range named {
		f.get(id)
	}
	f.passUnits(3)
	assert.Zero(f, f.prune(0, false), "what is open stays, however old")
	assert.Empty(f, f.viewLane("committed", 9).Batches)
}

func testPruneLimit(f *fixture) {
	bs := newBatches("s", "b", 600)
	f.add(bs...)
	is := batchIDs(bs)
	f.claimExactly(is...)
	f.recordEach(f.submitterOutcome, store.Accepted, is...)
	for i := 599; i > 590; i-- { // the batches that were added last become final first
		f.tick()
		f.recordEach(f.monitorOutcome, store.IsCommitted, is[i])
	}
	f.tick()
	f.recordEach(f.monitorOutcome, store.IsCommitted, is[:591]...)
	f.passUnits(1)
	p := must(f.store.Prune(f.ctx, store.PruneQuery{Limit: 5}))(f)
	require.Equal(f, store.Pruned{Batches: 5}, p)
	for _, id := range is[595:] {
		f.requireAbsent(newBatch("s", id))
	}
	for _, id := range is[590:595] {
		f.get(id)
	}
	p = must(f.store.Prune(f.ctx, store.PruneQuery{}))(f)
	require.Equal(f, store.Pruned{Batches: store.DefaultPrune}, p)
	p = must(f.store.Prune(f.ctx, store.PruneQuery{Limit: 1000}))(f)
	require.Equal(f, store.Pruned{Batches: 95}, p)
	f.endWithout(store.CanList)
	rs, _ := must2(f.store.List(f.ctx, store.ListQuery{}))(f)
	assert.Empty(f, rs)
}

// makeCommitted makes batches final and lets some time pass.
func (f *fixture) makeCommitted(bs ...batch.Batch) {
	f.Helper()
	f.add(bs...)
	f.claimExactly(batchIDs(bs)...)
	f.recordEach(f.submitterOutcome, store.Accepted, batchIDs(bs)...)
	f.recordEach(f.monitorOutcome, store.IsCommitted, batchIDs(bs)...)
	f.passUnits(1)
}

func testPruneTombstone(f *fixture) {
	f.makeCommitted(newBatch("s", "a"), newBatch("s", "b"))
	require.Equal(f, 2, f.prune(0, true))
	f.add(newBatch("s", "a"), newBatch("s", "new"), newBatch("s", "b"))
	assert.Equal(f, []batch.ID{"new"}, laneIDs(f.viewLane("s", 9)))
	other := newBatch("s", "a")
	other.Payload = []byte("other")
	for _, b := range []batch.Batch{other, newBatch("t", "a")} {
		require.ErrorIs(f, f.store.Add(f.ctx, b), batch.ErrConflict)
	}
	assert.Zero(f, f.prune(0, true))
	f.endWithout(store.CanList)
	rs, _ := must2(f.store.List(f.ctx, store.ListQuery{}))(f)
	assert.Equal(f, []batch.ID{"new"}, recordIDs(rs))
}

func testPruneTombstones(f *fixture) {
	var all []batch.Batch
	for i := range 3 { // alternately, so that one call removes both kinds
		all = append(all, newBatch("keeps", batch.ID(fmt.Sprintf("k%d", i))), newBatch("forgets", batch.ID(fmt.Sprintf("f%d", i))))
	}
	f.makeCommitted(all...)
	asked := map[batch.ServiceID]bool{}
	p, err := f.store.Prune(f.ctx, store.PruneQuery{Tombstone: func(s batch.ServiceID, _ string) bool {
		asked[s] = true
		return s == "keeps"
	}})
	require.NoError(f, err)
	require.Equal(f, store.Pruned{Batches: len(all)}, p)
	assert.Equal(f, map[batch.ServiceID]bool{"keeps": true, "forgets": true}, asked)
	require.NoError(f, f.store.Add(f.ctx, all...))
	f.endWithout(store.CanList)
	rs, _, err := f.store.List(f.ctx, store.ListQuery{})
	require.NoError(f, err)
	assert.Equal(f, []batch.ID{"f0", "f1", "f2"}, recordIDs(rs), "what has a tombstone stays gone")
}

// testPruneServed: Tombstone gets the recorded ledger of each service, and "" for a service
// without one.
func testPruneServed(f *fixture) {
	f.makeCommitted(newBatch("one", "a"), newBatch("two", "b"), newBatch("none", "c"))
	require.True(f, f.swapTexts(store.Text{Kind: store.TextServed, Name: "one", Body: "first"}, store.Text{Kind: store.TextServed, Name: "two", Body: "second"}))
	asked := map[batch.ServiceID]string{}
	_, err := f.store.Prune(f.ctx, store.PruneQuery{Tombstone: func(s batch.ServiceID, ledger string) bool {
		asked[s] = ledger
		return false
	}})
	require.NoError(f, err)
	assert.Equal(f, map[batch.ServiceID]string{"one": "first", "two": "second", "none": ""}, asked)
}

// testPruneMore: More is true if one kind has more rows than a call removes, although all others
// have fewer.
func testPruneMore(f *fixture) {
	q := store.PruneQuery{Limit: 3}
	all := func(one store.Pruned) {
		f.Helper()
		f.passUnits(1)
		total := store.Pruned{}
		for calls := 1; ; calls++ {
			p := must(f.store.Prune(f.ctx, q))(f)
			total.Batches, total.Orders, total.StreamIDs, total.LaneActs = total.Batches+p.Batches, total.Orders+p.Orders, total.StreamIDs+p.StreamIDs, total.LaneActs+p.LaneActs
			if !p.More(q) {
				assert.Equal(f, one, total)
				assert.Equal(f, 3, calls)
				return
			}
			require.Less(f, calls, 3, "%+v of %+v", total, one)
		}
	}
	f.makeCommitted(newBatches("s", "b", 7)...)
	all(store.Pruned{Batches: 7})
	epoch := f.leaseStream("events", "me", 90.5)
	f.appendEntry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"1", "2", "3", "4", "5", "6", "7"}})
	f.makeCommitted(newBatch("s", "one"))
	all(store.Pruned{Batches: 1, StreamIDs: 7})
	for i := range 7 {
		f.pause(batch.Only(batch.ServiceID(fmt.Sprint(i))))
	}
	all(store.Pruned{LaneActs: 7})
	if orders, ok := f.harness.Store.(order.Store); ok { // f.store has the methods of a store of batches only
		var os []order.Order
		for i := range 7 {
			os = append(os, order.Order{ID: order.ID(fmt.Sprint(i)), Party: "p", Payload: []byte("x"), Deadline: f.now().Add(-f.units(1))})
		}
		require.NoError(f, orders.AddOrders(f.ctx, os...))
		require.Len(f, must(orders.ExpireOrders(f.ctx, 9))(f), 7)
		all(store.Pruned{Orders: 7})
	}
}

func testPruneForgets(f *fixture) {
	f.makeCommitted(newBatch("s", "a"))
	require.Equal(f, 1, f.prune(0, false))
	other := newBatch("t", "a")
	other.Payload = []byte("other")
	f.add(other)
	r := f.get("a")
	assert.Equal(f, batch.Queued, r.State)
	assert.Equal(f, int64(1), r.Version)
	f.claimExactly("a")
	got := must(f.store.Payloads(f.ctx, []store.Ref{{Key: other.Key()}}))(f)
	assert.Equal(f, [][]byte{[]byte("other")}, got)
}

func testPruneGone(f *fixture) {
	f.add(newBatch("s", "a"))
	c := f.claimExactly("a")[0]
	f.recordEach(f.submitterOutcome, store.Refused, "a")
	f.passUnits(1)
	require.Equal(f, 1, f.prune(0, false))
	o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted}
	assert.Equal(f, store.Gone, f.record(o)[0].Result)
	assert.Equal(f, [][]byte{nil}, must(f.store.Payloads(f.ctx, []store.Ref{c.Ref}))(f))
	require.NoError(f, f.store.Checked(f.ctx, []store.Due{{Ref: c.Ref, In: f.units(9)}}))

	f.add(newBatch("s", "a"))
	f.claimExactly("a") // with the same version
	assert.NotEqual(f, store.Written, must(f.store.Record(f.ctx, []store.Outcome{o}))(f)[0].Result, "it is about the batch that is gone")
	f.get("a")
}

// testPruneAgain: a commit is a fact about the id. A caller that knows the batch by its row from
// before the removal records the commit on the batch's present row, alone or together with others.
func testPruneAgain(f *fixture) {
	for i, others := range [][]batch.ID{nil, {"x", "y"}} {
		id := batch.ID(fmt.Sprint("again", i))
		f.add(newBatch("s", id))
		c := f.claimExactly(id)[0]
		f.recordEach(f.submitterOutcome, store.Refused, id)
		f.passUnits(1)
		require.Equal(f, 1, f.prune(0, false))
		for _, other := range others {
			f.add(newBatch("s", other))
		}
		f.add(newBatch("s", id))
		outcomes := []store.Outcome{{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.ByMonitor, Finding: store.IsCommitted}}
		for _, other := range others {
			f.claimExactly(other)
			outcomes = append(outcomes, f.submitterOutcome(other, store.Accepted))
		}
		applied := f.record(outcomes...)
		assert.Equal(f, store.Written, applied[0].Result)
		assert.Equal(f, batch.Committed, f.get(id).State)
		f.passUnits(1)
		f.prune(0, false)
	}
}
