package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func addTests() []test {
	return []test{
		{name: "nil means stored", run: testAddStored},
		{name: "all or none", run: testAddAllOrNone},
		{name: "a known id with the same bytes changes nothing", run: testAddKnown},
		{name: "a known id with other bytes or service is a conflict", run: testAddConflict},
		{name: "the same id twice in a call", run: testAddTwice},
		{name: "bad input is named and nothing is stored", run: testAddBadInput},
		{name: "ids are bytes", run: testAddBytes},
		{name: "order within a call and across calls", run: testAddOrder},
		{name: "10,000 in one call", run: testAddMany},
		{name: "concurrent adds", run: testAddConcurrent},
		{name: "concurrent adds of one id", run: testAddRace},
		{name: "the payload is copied", run: testAddCopies},
		{name: "the trace context comes with the batch", run: testAddTrace},
	}
}

func testAddStored(f *fixture) {
	b := newBatch("s", "a")
	b.DataChangeID, b.SignerPublicKey, b.Trace = "change 1", "02ab", true
	b.Budget = batch.Budget{Attempts: 7, EveryTry: true}
	b.Transactions = []batch.Transaction{{ID: "t1", FamilyName: "grid", FamilyVersion: "2"}, {ID: "t2"}}
	f.add(b, newBatch("", "b"), newBatch("circuit::service", "c"))
	r := f.get("a")
	assert.Equal(f, batch.Queued, r.State)
	assert.Equal(f, int64(1), r.Version)
	assert.Zero(f, r.Attempt)
	f.get("b")
	f.get("c")
	require.NoError(f, f.store.Add(f.ctx), "nothing to add")
	_, err := f.store.Get(f.ctx, batch.Key{Service: "other", ID: "a"})
	require.ErrorIs(f, err, batch.ErrNotFound, "under another service")
}

func testAddAllOrNone(f *fixture) {
	f.add(newBatch("s", "known"))
	other := newBatch("s", "known")
	other.Payload = []byte("other")
	good := newBatches("s", "good", 20)
	for _, bad := range []batch.Batch{{Service: "s", ID: "bad"}, other, newBatch("t", "known")} {
		for _, call := range [][]batch.Batch{append(slices.Clone(good), bad), append([]batch.Batch{bad}, good...)} {
			require.Error(f, f.store.Add(f.ctx, call...), "Add took %s, which it has to refuse, among %d batches", bad.Key(), len(call))
			f.requireAbsent(good...)
		}
	}
	assert.Equal(f, []batch.ID{"known"}, laneIDs(f.viewLane("s", 100)))
	assert.Equal(f, []batch.ServiceID{"s"}, must(f.store.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 10}))(f))
	f.add(good...)
	assert.Len(f, f.viewLane("s", 100).Batches, 21)
}

func testAddKnown(f *fixture) {
	b := newBatch("s", "a")
	b.DataChangeID, b.Budget = "change", batch.Budget{Attempts: 3}
	f.add(b, newBatch("s", "z"))
	again := b
	again.DataChangeID, again.Budget, again.Trace = "another", batch.Budget{Attempts: 4}, true
	again.TraceParent, again.Tags = traceParent("another"), batch.Tags{"other": "tag"}
	f.add(again) // the model keeps the first trace context and the first tags
	f.get("a")
	f.claimExactly("a")
	f.add(again)
	f.recordEach(f.submitterOutcome, store.Accepted, "a")
	f.add(again, newBatch("s", "new"))
	f.recordEach(f.monitorOutcome, store.IsCommitted, "a")
	f.add(again, again)
	assert.Equal(f, batch.Committed, f.get("a").State)
	assert.Equal(f, []batch.ID{"z", "new"}, laneIDs(f.viewLane("s", 10)))
}

func testAddConflict(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"))
	f.claimExactly("b")
	f.recordEach(f.submitterOutcome, store.Accepted, "b")
	f.recordEach(f.monitorOutcome, store.IsCommitted, "b")
	for _, id := range []batch.ID{"a", "b"} {
		other := newBatch("s", id)
		other.Payload = append(other.Payload, 0)
		for _, b := range []batch.Batch{other, newBatch("", id), newBatch("S", id)} {
			require.ErrorIs(f, f.store.Add(f.ctx, b), batch.ErrConflict)
			require.ErrorIs(f, f.store.Add(f.ctx, newBatch("s", "new"), b), batch.ErrConflict)
		}
		f.get(id)
		f.requireAbsent(newBatch("", id), newBatch("S", id), newBatch("s", "new"))
	}
}

func testAddTwice(f *fixture) {
	f.add(newBatch("s", "a"), newBatch("s", "b"), newBatch("s", "a"))
	assert.Equal(f, []batch.ID{"a", "b"}, laneIDs(f.viewLane("s", 10)))
	other := newBatch("s", "c")
	other.Payload = []byte("other")
	for _, b := range []batch.Batch{other, newBatch("t", "c")} {
		require.ErrorIs(f, f.store.Add(f.ctx, newBatch("s", "c"), b), batch.ErrConflict)
		f.requireAbsent(newBatch("s", "c"), b)
	}
}

func testAddBadInput(f *fixture) {
	bad := func(field string, change func(*batch.Batch)) {
		b := newBatch("s", "bad")
		change(&b)
		err := f.store.Add(f.ctx, newBatch("s", "good"), b)
		var inputErr *batch.InputError
		require.ErrorAs(f, err, &inputErr, field)
		require.ErrorIs(f, err, batch.ErrInvalidInput)
		assert.Equal(f, field, inputErr.Field)
		if b.ID == "bad" {
			assert.Equal(f, b.Key(), inputErr.Key)
		}
		f.requireAbsent(newBatch("s", "good"))
	}
	bad("ID", func(b *batch.Batch) { b.ID = "" })
	bad("ID", func(b *batch.Batch) { b.ID = batch.ID(strings.Repeat("a", batch.MaxIDLen+1)) })
	bad("ID", func(b *batch.Batch) { b.ID = "a\x00b" })
	bad("ID", func(b *batch.Batch) { b.ID = "a\xff" })
	bad("Service", func(b *batch.Batch) { b.Service = batch.ServiceID(strings.Repeat("s", batch.MaxServiceLen+1)) })
	bad("Service", func(b *batch.Batch) { b.Service = "a\nb" })
	bad("Payload", func(b *batch.Batch) { b.Payload = nil })
	bad("Budget.Attempts", func(b *batch.Batch) { b.Budget.Attempts = -1 })
	bad("DataChangeID", func(b *batch.Batch) { b.DataChangeID = "\x00" })
	bad("TraceParent", func(b *batch.Batch) { b.TraceParent = strings.ToUpper(traceParent("a")) })
	bad("TraceParent", func(b *batch.Batch) { b.TraceParent = strings.Repeat("0", 8<<10) })
	bad("Tags", func(b *batch.Batch) { b.Tags = batch.Tags{"invoice": "\x00"} })
	bad("Tags", func(b *batch.Batch) { b.Tags = batch.Tags{"a=b": "c"} })
	bad("SignerPublicKey", func(b *batch.Batch) { b.SignerPublicKey = "\xc3" })
	bad("Transactions.ID", func(b *batch.Batch) { b.Transactions = []batch.Transaction{{ID: "t"}, {ID: "t"}} })
	bad("Transactions.FamilyName", func(b *batch.Batch) { b.Transactions = []batch.Transaction{{ID: "t", FamilyName: "\x00"}} })
	bad("Footprint.Reads", func(b *batch.Batch) { b.Footprint.Reads = []string{"\x00"} })
	bad("Footprint.Writes", func(b *batch.Batch) { b.Footprint.Writes = []string{strings.Repeat("0", 300)} })
	assert.Empty(f, f.storedIDs())
}

func testAddBytes(f *fixture) {
	long := batch.ID(strings.Repeat("é", batch.MaxIDLen/2))
	names := []batch.ID{"a", "A", "a ", " a", "ä", "a\u0308", "%", "a_", "a'--", `a"`, "\\", "0", "00", "🦆", long}
	services := []batch.ServiceID{"s", "S", "s ", "", " ", "'; drop table batches", batch.ServiceID(long)}
	for i, id := range names {
		f.add(newBatch(services[i%len(services)], id))
	}
	for _, id := range names {
		f.get(id)
	}
	for i, s := range services {
		var want []batch.ID
		for j := i; j < len(names); j += len(services) {
			want = append(want, names[j])
		}
		assert.Equal(f, want, laneIDs(f.viewLane(s, 100)), "lane %q", s)
	}
}

func testAddOrder(f *fixture) {
	var want []batch.ID
	for _, prefix := range []string{"z", "m", "a"} {
		bs := newBatches("s", prefix, 12)
		f.add(bs...)
		f.add(newBatches("t", "t"+prefix, 3)...)
		want = append(want, batchIDs(bs)...)
	}
	assert.Equal(f, want, laneIDs(f.viewLane("s", 100)))
	for i := range want[1:] {
		require.True(f, f.batches[want[i]].created.Before(f.batches[want[i+1]].created))
	}
	f.claimExactly(want[:5]...) // claims have the same order
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 100, Window: 100, TTL: f.units(1.5)}, chooseEveryReady)
	assert.Equal(f, want[5:], claimedIDs(got))
}

func testAddMany(f *fixture) {
	bs := newBatches("s", "b", 10_000)
	require.NoError(f, f.store.Add(f.ctx, bs...))
	require.Equal(f, batchIDs(bs), f.storedIDs())
	f.requireAbsent(newBatch("s", "b00000"))
	require.NoError(f, f.store.Add(f.ctx, bs...), "all of them again")
}

func testAddConcurrent(f *fixture) {
	const adders, calls = 8, 12
	var wg sync.WaitGroup
	errs := make([]error, adders)
	mine := func(a, call, i int) batch.ID { return batch.ID(fmt.Sprintf("%d/%02d/%d", a, calls-call, 9-i)) }
	for a := range adders {
		wg.Go(func() {
			for call := range calls {
				if err := f.store.Add(f.ctx, newBatch("s", mine(a, call, 0)), newBatch("s", mine(a, call, 1)), newBatch("t", mine(a, call, 2))); err != nil {
					errs[a] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(f, err)
	}
	for service, each := range map[batch.ServiceID][]int{"s": {0, 1}, "t": {2}} {
		var seen batch.Lane
		_, err := f.store.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 1000, TTL: f.units(1)},
			func(l batch.Lane) []batch.Run { seen = l; return nil })
		require.NoError(f, err)
		got := laneIDs(seen)
		require.Len(f, got, adders*calls*len(each))
		for a := range adders {
			var want, have []batch.ID
			for call := range calls {
				for _, i := range each {
					want = append(want, mine(a, call, i))
				}
			}
			for _, id := range got {
				if slices.Contains(want, id) {
					have = append(have, id)
				}
			}
			require.Equal(f, want, have, "calls that do not overlap keep their order")
		}
	}
}

func testAddRace(f *fixture) {
	for round := range 10 {
		id := batch.ID(fmt.Sprintf("id%d", round))
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				b := newBatch("s", id)
				b.Payload = []byte{byte(i / 4)} // four batches have one payload, and four have another
				errs[i] = f.store.Add(context.WithoutCancel(f.ctx), b)
			})
		}
		wg.Wait()
		winner := errs[0] != nil
		for i, err := range errs {
			if (i >= 4) == winner {
				require.NoError(f, err)
			} else {
				require.ErrorIs(f, err, batch.ErrConflict)
			}
		}
		require.Len(f, f.storedIDs(), round+1)
	}
}

func testAddCopies(f *fixture) {
	payload := []byte("as signed")
	b := batch.Batch{Service: "s", ID: "a", Payload: payload, Footprint: batch.Footprint{Writes: []string{"00"}}}
	b.Tags = batch.Tags{"invoice": "4711"}
	call := []batch.Batch{b, newBatch("s", "b")}
	f.add(call...)
	b.Tags["invoice"] = "another"
	f.batches["a"].batch.Tags = batch.Tags{"invoice": "4711"}
	payload[0] = 'X'
	b.Footprint.Writes[0] = "ff"
	call[1] = batch.Batch{}
	f.batches["a"].batch.Footprint = batch.Footprint{Writes: []string{"00"}}
	f.batches["a"].batch.Payload = []byte("as signed")
	f.viewLane("s", 10)
	claims := f.claimExactly("a")
	for range 2 {
		got := must(f.store.Payloads(f.ctx, []store.Ref{claims[0].Ref}))(f)
		require.Equal(f, [][]byte{[]byte("as signed")}, got)
		got[0][0] = 'Y'
	}
}

// testAddTrace: every call returns the trace context of the batch that was added first, also in
// another process after a claim that nobody ended.
func testAddTrace(f *fixture) {
	var all []batch.Batch
	for i := range 20 { // as many as a store may write together
		b := newBatch("s", batch.ID(fmt.Sprintf("b%02d", i)))
		if b.TraceParent = ""; i%3 != 0 {
			b.TraceParent = traceParent(string(b.ID))
		}
		all = append(all, b)
	}
	f.add(all...)
	again := slices.Clone(all)
	for i := range again {
		again[i].TraceParent = traceParent("another")
	}
	f.add(again...)
	if !f.harness.Volatile {
		f.reopen()
	}
	for i, c := range f.claimExactly(batchIDs(all)...) {
		assert.Equal(f, all[i].TraceParent, c.TraceParent, "claimed: %s", c.Key)
		assert.Equal(f, all[i].TraceParent, f.get(c.Key.ID).TraceParent)
	}
	if !f.harness.Volatile {
		f.reopen()
	}
	f.passUnits(2)
	for _, r := range f.pending(len(all), f.units(9.5)) {
		assert.Equal(f, f.batches[r.Key.ID].batch.TraceParent, r.TraceParent, "left behind: %s", r.Key)
	}
	f.recordEach(f.monitorOutcome, store.IsCommitted, batchIDs(all)...)
	for _, b := range all {
		assert.Equal(f, b.TraceParent, f.get(b.ID).TraceParent, "final: %s", b.ID)
	}
}
