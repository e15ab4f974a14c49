package ordertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

const traceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func addTests() []test {
	return []test{
		{name: "all that was given comes back", run: addKeeps},
		{name: "the trace context comes with the order", run: addTrace},
		{name: "the order of the slice, and of the calls", run: addOrder},
		{name: "a clock that steps back changes no order", run: addClock, exempt: func(h Harness) bool { return h.NoClock }},
		{name: "again is harmless", run: addAgain},
		{name: "another payload is a conflict, and nothing of the call is stored", run: addConflict},
		{name: "a key is unique in its party", run: addKeys},
		{name: "twins in one call", run: addTwins},
		{name: "a Key in a call that is stored nowhere hides no order", run: addTwinOfKnownID},
		{name: "what cannot be stored", run: addInvalid},
		{name: "many in one call", run: addMany},
	}
}

func addKeeps(f *fixture) {
	at := f.now().Add(f.units(9)).Truncate(time.Microsecond)
	o := order.Order{ID: "o 'ö", Party: "p", Payload: []byte{0, 1, 255}, Priority: -7, Urgent: true, Deadline: at, Key: `k"\`, TraceParent: traceParent}
	f.add(o, newOrder("", "plain"))
	q := f.nextOrders("p", 9)
	require.Len(f, q, 1)
	assert.Equal(f, o, q[0].Order)
	assert.Equal(f, int64(1), q[0].Version)
	r := f.record("p", o.ID)
	assert.InDelta(f, 0, f.now().Sub(r.CreatedAt).Seconds(), f.units(0.5).Seconds())
	assert.Equal(f, time.UTC, r.CreatedAt.Location())
	assert.Equal(f, order.Record{
		ID: o.ID, Party: "p", Key: o.Key, Priority: -7, Urgent: true, Deadline: at, State: order.Queued, Version: 1, CreatedAt: r.CreatedAt,
		TraceParent: traceParent,
	}, r)
	assert.Equal(f, r.CreatedAt, q[0].Created)
	assert.Equal(f, []byte("payload of plain"), f.nextOrders("", 9)[0].Payload)
	o.Payload[0] = 9
	assert.Equal(f, byte(0), f.nextOrders("p", 9)[0].Payload[0], "the slice is not kept")
}

// addTrace gives every second order a trace context, and checks it until the order is final.
func addTrace(f *fixture) {
	os := newOrders("p", "a", 6)
	want := make([]string, len(os))
	for i := range os {
		if i%2 == 0 {
			want[i] = fmt.Sprintf("00-%032x-00f067aa0ba902b7-01", i+1)
		}
		os[i].TraceParent = want[i]
	}
	f.add(os...)
	again := slices.Clone(os)
	for i := range again {
		again[i].TraceParent = traceParent
	}
	f.add(again...)
	f.add(newOrder("q", "none"))
	of := func(rs []order.Record) (got []string) {
		for _, r := range rs {
			got = append(got, r.TraceParent)
		}
		return got
	}
	assert.Equal(f, want, of(f.list("p")), "the first stays")
	assert.Equal(f, []string{""}, of(f.list("q")))
	var got []string
	for _, o := range f.nextOrders("p", 9) {
		got = append(got, o.TraceParent)
	}
	assert.Equal(f, want, got)
	b, _ := f.prepare("p", "b", 9)
	f.finish(b, store.IsCommitted)
	settleable, recs := f.settleable(), f.list("p")
	require.Len(f, settleable.Orders, len(os))
	for i, o := range settleable.Orders {
		assert.Equal(f, want[i], o.TraceParent)
		assert.Equal(f, recs[i].CreatedAt, o.Created)
	}
	require.True(f, f.settle(settlement(settleable, order.Verdict{State: order.Confirmed})))
	assert.Equal(f, want, of(f.list("p")), "of orders that are final")
	for _, bad := range []string{"malformed", strings.Repeat("0", 8<<10), strings.ToUpper(traceParent)} {
		o := newOrder("p", "bad")
		o.TraceParent = bad
		var in *batch.InputError
		require.ErrorAs(f, f.store.AddOrders(f.ctx, newOrder("p", "beside"), o), &in)
		assert.Equal(f, "Order.TraceParent", in.Field)
		assert.Less(f, len(in.Error()), 300)
	}
	assert.Len(f, f.list("p"), len(os), "nothing of those calls was stored")
}

func addOrder(f *fixture) {
	var want []order.ID
	for _, prefix := range []string{"z", "m", "a"} {
		os := newOrders("p", prefix, 40)
		f.add(os...)
		want = append(want, orderIDs(os)...)
	}
	rs := f.list("p")
	require.Equal(f, want, recordIDs(rs))
	for i := 1; i < len(rs); i++ {
		assert.True(f, rs[i].CreatedAt.After(rs[i-1].CreatedAt), "one microsecond apart at least")
	}
	assert.Equal(f, want, queuedIDs(f.nextOrders("p", 1000)))
}

func addClock(f *fixture) {
	f.add(newOrders("p", "z", 3)...)
	f.passUnits(-2)
	f.add(newOrders("p", "a", 3)...)
	f.add(newOrder("other", "early"))
	want := append(orderIDs(newOrders("p", "z", 3)), orderIDs(newOrders("p", "a", 3))...)
	assert.Equal(f, want, recordIDs(f.list("p")))
	assert.Equal(f, want, queuedIDs(f.nextOrders("p", 9)))
	assert.True(f, f.record("other", "early").CreatedAt.Before(f.record("p", want[0]).CreatedAt), "that is its own party's matter")
}

func addAgain(f *fixture) {
	o := newOrder("p", "a")
	o.Key = "k"
	f.add(o)
	was := f.list("p")
	other := o
	other.Priority, other.Urgent = 5, true
	f.add(o)
	f.add(other, o)
	assert.Equal(f, was, f.list("p"), "what is stored stays")
	f.prepare("p", "b", 9)
	was = f.list("p")
	f.add(o)
	assert.Equal(f, was, f.list("p"), "wherever it is by now")
}

func addConflict(f *fixture) {
	f.add(newOrder("p", "a"))
	changed, moved := newOrder("p", "a"), newOrder("q", "a")
	changed.Payload = []byte("other")
	for _, o := range []order.Order{changed, moved} {
		require.ErrorIs(f, f.store.AddOrders(f.ctx, newOrder("p", "new1"), o, newOrder("p", "new2")), batch.ErrConflict)
		require.ErrorIs(f, f.store.AddOrders(f.ctx, newOrder("p", "new1"), newOrder("p", "x"), func() order.Order {
			o := o
			o.ID = "x"
			o.Payload = []byte("third")
			return o
		}()), batch.ErrConflict, "within a call, too")
	}
	assert.Equal(f, []order.ID{"a"}, recordIDs(f.list("p")))
	assert.Empty(f, f.list("q"))
}

func addKeys(f *fixture) {
	keyed := func(party batch.ServiceID, id order.ID, payload string) order.Order {
		return order.Order{ID: id, Party: party, Payload: []byte(payload), Key: "k"}
	}
	f.add(keyed("p", "first", "x"))
	f.add(keyed("p", "second", "x"), keyed("q", "third", "y"))
	assert.Equal(f, []order.ID{"first"}, recordIDs(f.list("p")), "a retry that made a new id")
	assert.Equal(f, []order.ID{"third"}, recordIDs(f.list("q")))
	require.ErrorIs(f, f.store.AddOrders(f.ctx, keyed("p", "fourth", "y")), batch.ErrConflict)
	_, missing := must2(f.store.FinalOrders(f.ctx, []order.ID{"second", "fourth"}))(f)
	assert.ElementsMatch(f, []order.ID{"second", "fourth"}, missing)
	f.add(newOrder("p", "no key"), newOrder("p", "none either"))
	assert.Len(f, f.list("p"), 3)
}

func addTwins(f *fixture) {
	a, b := newOrder("p", "a"), newOrder("p", "b")
	a.Key, b.Key, b.Payload = "k", "k", a.Payload
	f.add(a, a, b, newOrder("p", "c"), a)
	assert.Equal(f, []order.ID{"a", "c"}, recordIDs(f.list("p")))
	b.ID, b.Payload = "d", []byte("other")
	fresh := a
	fresh.ID, fresh.Key, b.Key = "e", "fresh", "fresh"
	require.ErrorIs(f, f.store.AddOrders(f.ctx, fresh, b), batch.ErrConflict)
	assert.Len(f, f.list("p"), 2)
}

func addTwinOfKnownID(f *fixture) {
	o := func(id order.ID, key string) order.Order {
		return order.Order{ID: id, Party: "p", Key: key, Payload: []byte("x")}
	}
	f.add(o("a", ""), o("b", ""))
	f.add(o("z", ""), o("a", "k"), o("b", "k"), o("e", "k"), o("d", "k"), o("d", ""), o("y", ""))
	want := []order.ID{"a", "b", "z", "e", "d", "y"}
	assert.Equal(f, want, recordIDs(f.list("p")), "in the order of the call")
	f.add(o("e", "k"))
	f.add(o("c", "k"))
	f.add(o("a", "k"), o("c", "k"))
	assert.Equal(f, want, recordIDs(f.list("p")), "a retry is harmless")
}

func addInvalid(f *fixture) {
	long := strings.Repeat("x", batch.MaxIDLen+1)
	for name, spoil := range map[string]func(*order.Order){
		"no id":          func(o *order.Order) { o.ID = "" },
		"long id":        func(o *order.Order) { o.ID = order.ID(long) },
		"nul id":         func(o *order.Order) { o.ID = "a\x00" },
		"bytes id":       func(o *order.Order) { o.ID = "\xff" },
		"long party":     func(o *order.Order) { o.Party = batch.ServiceID(long) },
		"nul party":      func(o *order.Order) { o.Party = "\x00" },
		"long key":       func(o *order.Order) { o.Key = long },
		"nul key":        func(o *order.Order) { o.Key = "\x00" },
		"no payload":     func(o *order.Order) { o.Payload = nil },
		"early deadline": func(o *order.Order) { o.Deadline = time.Unix(-1, 0) },
		// In the databases 0 microseconds means "no deadline", and a caller may set that time,
		// too.
		"deadline at the epoch":  func(o *order.Order) { o.Deadline = time.Unix(0, 0) },
		"deadline just after it": func(o *order.Order) { o.Deadline = time.Unix(0, 999) },
		"deadline far before it": func(o *order.Order) { o.Deadline = time.Time{}.Add(1) },
		"late deadline":          func(o *order.Order) { o.Deadline = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"high priority":          func(o *order.Order) { o.Priority = 1 << 40 },
	} {
		o := newOrder("p", "o")
		spoil(&o)
		var in *batch.InputError
		require.ErrorAs(f, f.store.AddOrders(f.ctx, newOrder("p", "good"), o), &in, name)
		assert.Contains(f, in.Field, "Order.", name)
	}
	assert.Empty(f, f.list("p"))
	require.NoError(f, f.store.AddOrders(f.ctx), "none")
}

func addMany(f *fixture) {
	os := newOrders("p", "o", 2500)
	for i := range os {
		os[i].Payload = []byte(strings.Repeat("x", 1+i%3000))
	}
	f.add(os...)
	got := must(f.store.NextOrders(f.ctx, "p", storeNext(3000)))(f)
	require.Equal(f, orderIDs(os), queuedIDs(got))
	for i := range got {
		require.Len(f, got[i].Payload, len(os[i].Payload))
	}
}
