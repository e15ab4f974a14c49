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
		{name: "only what is final, and old enough", run: pruneFinal},
		{name: "oldest first, up to the limit", run: pruneLimit},
		{name: "a tombstone keeps a batch from being sent again", run: pruneTombstone},
		{name: "services decide about their own tombstones", run: pruneTombstones},
		{name: "a tombstone may depend on the ledger", run: pruneServed, needs: store.CanKeepTexts},
		{name: "what is left of any kind is said", run: pruneMore},
		{name: "without a tombstone it is new", run: pruneForgets},
		{name: "an outcome of a batch that is gone", run: pruneGone},
		{name: "a commit of a batch that was removed and added again", run: pruneAgain},
	}
}

func pruneFinal(f *fixture) {
	named := f.oneOfEach()
	final := slices.DeleteFunc([]string{"invalid", "committed", "rejected", "cancelled"}, func(name string) bool { return named[name] == "" })
	assert.Zero(f, f.prune(f.u(0.5), false), "none is old enough")
	f.pass(1)
	assert.Equal(f, len(final), f.prune(f.u(0.5), false))
	for _, name := range final {
		delete(named, name)
	}
	for _, id := range named {
		f.get(id)
	}
	f.pass(3)
	assert.Zero(f, f.prune(0, false), "what is open stays, however old")
	assert.Empty(f, f.view("committed", 9).Batches)
}

func pruneLimit(f *fixture) {
	bs := many("s", "b", 600)
	f.add(bs...)
	is := ids(bs)
	f.take(is...)
	f.each(f.submitted, store.Accepted, is...)
	for i := 599; i > 590; i-- { // the last batches become final first
		f.tick()
		f.each(f.monitored, store.IsCommitted, is[i])
	}
	f.tick()
	f.each(f.monitored, store.IsCommitted, is[:591]...)
	f.pass(1)
	p := must(f.st.Prune(f.ctx, store.PruneQuery{Limit: 5}))(f)
	require.Equal(f, store.Pruned{Batches: 5}, p)
	for _, id := range is[595:] {
		f.absent(bt("s", id))
	}
	for _, id := range is[590:595] {
		f.get(id)
	}
	p = must(f.st.Prune(f.ctx, store.PruneQuery{}))(f)
	require.Equal(f, store.Pruned{Batches: store.DefaultPrune}, p)
	p = must(f.st.Prune(f.ctx, store.PruneQuery{Limit: 1000}))(f)
	require.Equal(f, store.Pruned{Batches: 95}, p)
	f.needs(store.CanList)
	rs, _ := must2(f.st.List(f.ctx, store.ListQuery{}))(f)
	assert.Empty(f, rs)
}

// committed makes batches final and lets some time pass.
func (f *fixture) committed(bs ...batch.Batch) {
	f.Helper()
	f.add(bs...)
	f.take(ids(bs)...)
	f.each(f.submitted, store.Accepted, ids(bs)...)
	f.each(f.monitored, store.IsCommitted, ids(bs)...)
	f.pass(1)
}

func pruneTombstone(f *fixture) {
	f.committed(bt("s", "a"), bt("s", "b"))
	require.Equal(f, 2, f.prune(0, true))
	f.add(bt("s", "a"), bt("s", "new"), bt("s", "b"))
	assert.Equal(f, []batch.ID{"new"}, laneIDs(f.view("s", 9)))
	other := bt("s", "a")
	other.Payload = []byte("other")
	for _, b := range []batch.Batch{other, bt("t", "a")} {
		require.ErrorIs(f, f.st.Add(f.ctx, b), batch.ErrConflict)
	}
	assert.Zero(f, f.prune(0, true))
	f.needs(store.CanList)
	rs, _ := must2(f.st.List(f.ctx, store.ListQuery{}))(f)
	assert.Equal(f, []batch.ID{"new"}, recordIDs(rs))
}

func pruneTombstones(f *fixture) {
	var all []batch.Batch
	for i := range 3 { // in turns, so that one call removes both kinds
		all = append(all, bt("keeps", batch.ID(fmt.Sprintf("k%d", i))), bt("forgets", batch.ID(fmt.Sprintf("f%d", i))))
	}
	f.committed(all...)
	asked := map[batch.ServiceID]bool{}
	p, err := f.st.Prune(f.ctx, store.PruneQuery{Tombstone: func(s batch.ServiceID, _ string) bool {
		asked[s] = true
		return s == "keeps"
	}})
	require.NoError(f, err)
	require.Equal(f, store.Pruned{Batches: len(all)}, p)
	assert.Equal(f, map[batch.ServiceID]bool{"keeps": true, "forgets": true}, asked)
	require.NoError(f, f.st.Add(f.ctx, all...))
	f.needs(store.CanList)
	rs, _, err := f.st.List(f.ctx, store.ListQuery{})
	require.NoError(f, err)
	assert.Equal(f, []batch.ID{"f0", "f1", "f2"}, recordIDs(rs), "what has a tombstone stays gone")
}

// pruneServed gets the recorded ledger of each service, and none of a service without one.
func pruneServed(f *fixture) {
	f.committed(bt("one", "a"), bt("two", "b"), bt("none", "c"))
	require.True(f, f.swap(store.Text{Kind: store.TextServed, Name: "one", Body: "first"}, store.Text{Kind: store.TextServed, Name: "two", Body: "second"}))
	asked := map[batch.ServiceID]string{}
	_, err := f.st.Prune(f.ctx, store.PruneQuery{Tombstone: func(s batch.ServiceID, ledger string) bool {
		asked[s] = ledger
		return false
	}})
	require.NoError(f, err)
	assert.Equal(f, map[batch.ServiceID]string{"one": "first", "two": "second", "none": ""}, asked)
}

// pruneMore is about one kind with more rows than a call removes, and all others with fewer.
func pruneMore(f *fixture) {
	q := store.PruneQuery{Limit: 3}
	all := func(one store.Pruned) {
		f.Helper()
		f.pass(1)
		total := store.Pruned{}
		for calls := 1; ; calls++ {
			p := must(f.st.Prune(f.ctx, q))(f)
			total.Batches, total.Orders, total.StreamIDs, total.LaneActs = total.Batches+p.Batches, total.Orders+p.Orders, total.StreamIDs+p.StreamIDs, total.LaneActs+p.LaneActs
			if !p.More(q) {
				assert.Equal(f, one, total)
				assert.Equal(f, 3, calls)
				return
			}
			require.Less(f, calls, 3, "%+v of %+v", total, one)
		}
	}
	f.committed(many("s", "b", 7)...)
	all(store.Pruned{Batches: 7})
	epoch := f.lease("events", "me", 90.5)
	f.entry(batch.StreamEntry{Stream: "events", Epoch: epoch, IDs: []string{"1", "2", "3", "4", "5", "6", "7"}})
	f.committed(bt("s", "one"))
	all(store.Pruned{Batches: 1, StreamIDs: 7})
	for i := range 7 {
		f.pause(batch.Only(batch.ServiceID(fmt.Sprint(i))))
	}
	all(store.Pruned{LaneActs: 7})
	if orders, ok := f.h.Store.(order.Store); ok { // f.st has the methods of a batch store only
		var os []order.Order
		for i := range 7 {
			os = append(os, order.Order{ID: order.ID(fmt.Sprint(i)), Party: "p", Payload: []byte("x"), Deadline: f.now().Add(-f.u(1))})
		}
		require.NoError(f, orders.AddOrders(f.ctx, os...))
		require.Len(f, must(orders.ExpireOrders(f.ctx, 9))(f), 7)
		all(store.Pruned{Orders: 7})
	}
}

func pruneForgets(f *fixture) {
	f.committed(bt("s", "a"))
	require.Equal(f, 1, f.prune(0, false))
	other := bt("t", "a")
	other.Payload = []byte("other")
	f.add(other)
	r := f.get("a")
	assert.Equal(f, batch.Queued, r.State)
	assert.Equal(f, int64(1), r.Version)
	f.take("a")
	got := must(f.st.Payloads(f.ctx, []store.Ref{{Key: other.Key()}}))(f)
	assert.Equal(f, [][]byte{[]byte("other")}, got)
}

func pruneGone(f *fixture) {
	f.add(bt("s", "a"))
	c := f.take("a")[0]
	f.each(f.submitted, store.Refused, "a")
	f.pass(1)
	require.Equal(f, 1, f.prune(0, false))
	o := store.Outcome{Ref: c.Ref, Version: c.Version, By: batch.BySubmitter, Finding: store.Accepted}
	assert.Equal(f, store.Gone, f.record(o)[0].Result)
	assert.Equal(f, [][]byte{nil}, must(f.st.Payloads(f.ctx, []store.Ref{c.Ref}))(f))
	require.NoError(f, f.st.Checked(f.ctx, []store.Due{{Ref: c.Ref, In: f.u(9)}}))

	f.add(bt("s", "a"))
	f.take("a") // of the same version
	assert.NotEqual(f, store.Written, must(f.st.Record(f.ctx, []store.Outcome{o}))(f)[0].Result, "it is about the batch that is gone")
	f.get("a")
}

// A commit is a fact about the id: a caller that knows the batch by its row from before the
// removal records the commit on its present row, alone or beside others.
func pruneAgain(f *fixture) {
	for i, others := range [][]batch.ID{nil, {"x", "y"}} {
		id := batch.ID(fmt.Sprint("again", i))
		f.add(bt("s", id))
		c := f.take(id)[0]
		f.each(f.submitted, store.Refused, id)
		f.pass(1)
		require.Equal(f, 1, f.prune(0, false))
		for _, other := range others {
			f.add(bt("s", other))
		}
		f.add(bt("s", id))
		outcomes := []store.Outcome{{Ref: c.Ref, Version: c.Version, Was: c.Was, By: batch.ByMonitor, Finding: store.IsCommitted}}
		for _, other := range others {
			f.take(other)
			outcomes = append(outcomes, f.submitted(other, store.Accepted))
		}
		applied := f.record(outcomes...)
		assert.Equal(f, store.Written, applied[0].Result)
		assert.Equal(f, batch.Committed, f.get(id).State)
		f.pass(1)
		f.prune(0, false)
	}
}
