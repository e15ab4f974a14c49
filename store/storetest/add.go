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
		{name: "nil means stored", run: addStored},
		{name: "all or none", run: addAllOrNone},
		{name: "a known id with the same bytes changes nothing", run: addKnown},
		{name: "a known id with other bytes or service is a conflict", run: addConflict},
		{name: "the same id twice in a call", run: addTwice},
		{name: "bad input is named and nothing is stored", run: addBadInput},
		{name: "ids are bytes", run: addBytes},
		{name: "order within a call and across calls", run: addOrder},
		{name: "10,000 in one call", run: addMany},
		{name: "concurrent adds", run: addConcurrent},
		{name: "concurrent adds of one id", run: addRace},
		{name: "the payload is copied", run: addCopies},
		{name: "the trace context comes with the batch", run: addTrace},
	}
}

func addStored(f *fixture) {
	b := bt("s", "a")
	b.DataChangeID, b.SignerPublicKey, b.Trace = "change 1", "02ab", true
	b.Budget = batch.Budget{Attempts: 7, EveryTry: true}
	b.Transactions = []batch.Transaction{{ID: "t1", FamilyName: "grid", FamilyVersion: "2"}, {ID: "t2"}}
	f.add(b, bt("", "b"), bt("circuit::service", "c"))
	r := f.get("a")
	assert.Equal(f, batch.Queued, r.State)
	assert.Equal(f, int64(1), r.Version)
	assert.Zero(f, r.Attempt)
	f.get("b")
	f.get("c")
	require.NoError(f, f.st.Add(f.ctx), "nothing to add")
	_, err := f.st.Get(f.ctx, batch.Key{Service: "other", ID: "a"})
	require.ErrorIs(f, err, batch.ErrNotFound, "under another service")
}

func addAllOrNone(f *fixture) {
	f.add(bt("s", "known"))
	other := bt("s", "known")
	other.Payload = []byte("other")
	good := many("s", "good", 20)
	for _, bad := range []batch.Batch{{Service: "s", ID: "bad"}, other, bt("t", "known")} {
		for _, call := range [][]batch.Batch{append(slices.Clone(good), bad), append([]batch.Batch{bad}, good...)} {
			require.Error(f, f.st.Add(f.ctx, call...), "Add took %s, which it has to refuse, among %d batches", bad.Key(), len(call))
			f.absent(good...)
		}
	}
	assert.Equal(f, []batch.ID{"known"}, laneIDs(f.view("s", 100)))
	assert.Equal(f, []batch.ServiceID{"s"}, must(f.st.Lanes(f.ctx, store.LanesQuery{Start: true, Limit: 10}))(f))
	f.add(good...)
	assert.Len(f, f.view("s", 100).Batches, 21)
}

func addKnown(f *fixture) {
	b := bt("s", "a")
	b.DataChangeID, b.Budget = "change", batch.Budget{Attempts: 3}
	f.add(b, bt("s", "z"))
	again := b
	again.DataChangeID, again.Budget, again.Trace = "another", batch.Budget{Attempts: 4}, true
	again.TraceParent, again.Tags = traceParent("another"), batch.Tags{"other": "tag"}
	f.add(again) // the model keeps the first
	f.get("a")
	f.take("a")
	f.add(again)
	f.each(f.submitted, store.Accepted, "a")
	f.add(again, bt("s", "new"))
	f.each(f.monitored, store.IsCommitted, "a")
	f.add(again, again)
	assert.Equal(f, batch.Committed, f.get("a").State)
	assert.Equal(f, []batch.ID{"z", "new"}, laneIDs(f.view("s", 10)))
}

func addConflict(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"))
	f.take("b")
	f.each(f.submitted, store.Accepted, "b")
	f.each(f.monitored, store.IsCommitted, "b")
	for _, id := range []batch.ID{"a", "b"} {
		other := bt("s", id)
		other.Payload = append(other.Payload, 0)
		for _, b := range []batch.Batch{other, bt("", id), bt("S", id)} {
			require.ErrorIs(f, f.st.Add(f.ctx, b), batch.ErrConflict)
			require.ErrorIs(f, f.st.Add(f.ctx, bt("s", "new"), b), batch.ErrConflict)
		}
		f.get(id)
		f.absent(bt("", id), bt("S", id), bt("s", "new"))
	}
}

func addTwice(f *fixture) {
	f.add(bt("s", "a"), bt("s", "b"), bt("s", "a"))
	assert.Equal(f, []batch.ID{"a", "b"}, laneIDs(f.view("s", 10)))
	other := bt("s", "c")
	other.Payload = []byte("other")
	for _, b := range []batch.Batch{other, bt("t", "c")} {
		require.ErrorIs(f, f.st.Add(f.ctx, bt("s", "c"), b), batch.ErrConflict)
		f.absent(bt("s", "c"), b)
	}
}

func addBadInput(f *fixture) {
	bad := func(field string, change func(*batch.Batch)) {
		b := bt("s", "bad")
		change(&b)
		err := f.st.Add(f.ctx, bt("s", "good"), b)
		var in *batch.InputError
		require.ErrorAs(f, err, &in, field)
		require.ErrorIs(f, err, batch.ErrInvalidInput)
		assert.Equal(f, field, in.Field)
		if b.ID == "bad" {
			assert.Equal(f, b.Key(), in.Key)
		}
		f.absent(bt("s", "good"))
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
	assert.Empty(f, f.stored())
}

func addBytes(f *fixture) {
	long := batch.ID(strings.Repeat("é", batch.MaxIDLen/2))
	names := []batch.ID{"a", "A", "a ", " a", "ä", "a\u0308", "%", "a_", "a'--", `a"`, "\\", "0", "00", "🦆", long}
	services := []batch.ServiceID{"s", "S", "s ", "", " ", "'; drop table batches", batch.ServiceID(long)}
	for i, id := range names {
		f.add(bt(services[i%len(services)], id))
	}
	for _, id := range names {
		f.get(id)
	}
	for i, s := range services {
		var want []batch.ID
		for j := i; j < len(names); j += len(services) {
			want = append(want, names[j])
		}
		assert.Equal(f, want, laneIDs(f.view(s, 100)), "lane %q", s)
	}
}

func addOrder(f *fixture) {
	var want []batch.ID
	for _, prefix := range []string{"z", "m", "a"} {
		bs := many("s", prefix, 12)
		f.add(bs...)
		f.add(many("t", "t"+prefix, 3)...)
		want = append(want, ids(bs)...)
	}
	assert.Equal(f, want, laneIDs(f.view("s", 100)))
	for i := range want[1:] {
		require.True(f, f.rows[want[i]].created.Before(f.rows[want[i+1]].created))
	}
	f.take(want[:5]...) // the order of claiming is the same
	got := f.claim(store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 100, Window: 100, TTL: f.u(1.5)}, everyReady)
	assert.Equal(f, want[5:], claimedIDs(got))
}

func addMany(f *fixture) {
	bs := many("s", "b", 10_000)
	require.NoError(f, f.st.Add(f.ctx, bs...))
	require.Equal(f, ids(bs), f.stored())
	f.absent(bt("s", "b00000"))
	require.NoError(f, f.st.Add(f.ctx, bs...), "all of them again")
}

func addConcurrent(f *fixture) {
	const adders, calls = 8, 12
	var wg sync.WaitGroup
	errs := make([]error, adders)
	mine := func(a, call, i int) batch.ID { return batch.ID(fmt.Sprintf("%d/%02d/%d", a, calls-call, 9-i)) }
	for a := range adders {
		wg.Go(func() {
			for call := range calls {
				if err := f.st.Add(f.ctx, bt("s", mine(a, call, 0)), bt("s", mine(a, call, 1)), bt("t", mine(a, call, 2))); err != nil {
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
		_, err := f.st.Claim(f.ctx, store.ClaimQuery{Lanes: []batch.ServiceID{service}, Limit: 1, Window: 1000, TTL: f.u(1)},
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

func addRace(f *fixture) {
	for round := range 10 {
		id := batch.ID(fmt.Sprintf("id%d", round))
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() {
				b := bt("s", id)
				b.Payload = []byte{byte(i / 4)} // four batches have one payload, and four another
				errs[i] = f.st.Add(context.WithoutCancel(f.ctx), b)
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
		require.Len(f, f.stored(), round+1)
	}
}

func addCopies(f *fixture) {
	payload := []byte("as signed")
	b := batch.Batch{Service: "s", ID: "a", Payload: payload, Footprint: batch.Footprint{Writes: []string{"00"}}}
	b.Tags = batch.Tags{"invoice": "4711"}
	call := []batch.Batch{b, bt("s", "b")}
	f.add(call...)
	b.Tags["invoice"] = "another"
	f.rows["a"].b.Tags = batch.Tags{"invoice": "4711"}
	payload[0] = 'X'
	b.Footprint.Writes[0] = "ff"
	call[1] = batch.Batch{}
	f.rows["a"].b.Footprint = batch.Footprint{Writes: []string{"00"}}
	f.rows["a"].b.Payload = []byte("as signed")
	f.view("s", 10)
	claims := f.take("a")
	for range 2 {
		got := must(f.st.Payloads(f.ctx, []store.Ref{claims[0].Ref}))(f)
		require.Equal(f, [][]byte{[]byte("as signed")}, got)
		got[0][0] = 'Y'
	}
}

// In another process, too, after a claim that nobody ended. Every call compares what the store
// hands out with the batch that was added first.
func addTrace(f *fixture) {
	var all []batch.Batch
	for i := range 20 { // as many as a store may write together
		b := bt("s", batch.ID(fmt.Sprintf("b%02d", i)))
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
	if !f.h.Volatile {
		f.reopen()
	}
	for i, c := range f.take(ids(all)...) {
		assert.Equal(f, all[i].TraceParent, c.TraceParent, "claimed: %s", c.Key)
		assert.Equal(f, all[i].TraceParent, f.get(c.Key.ID).TraceParent)
	}
	if !f.h.Volatile {
		f.reopen()
	}
	f.pass(2)
	for _, r := range f.pending(len(all), f.u(9.5)) {
		assert.Equal(f, f.rows[r.Key.ID].b.TraceParent, r.TraceParent, "left behind: %s", r.Key)
	}
	f.each(f.monitored, store.IsCommitted, ids(all)...)
	for _, b := range all {
		assert.Equal(f, b.TraceParent, f.get(b.ID).TraceParent, "final: %s", b.ID)
	}
}
