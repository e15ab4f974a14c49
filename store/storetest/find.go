package storetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func findTests() []test {
	return []test{
		{name: "one batch by its id or its key, open or final", run: findEach},
		{name: "by the beginning of an id", run: findBeginnings},
		{name: "one of many ids that begin alike", run: findAlike},
		{name: "by the beginning of a key, in all lanes", run: findKeys},
		{name: "no more than asked for", run: findLimit},
		{name: "nothing", run: findNothing},
		{name: "what a tombstone keeps", run: findRemoved, needs: store.CanPrune},
		{name: "lanes that anybody knows", run: findLanes},
	}
}

// found returns what Find finds, compared with the model.
func (f *fixture) found(q store.FindQuery) (ids []batch.ID) {
	f.Helper()
	recs, more := must2(f.st.Find(f.ctx, q))(f)
	require.False(f, more, "%+v", q)
	for _, r := range recs {
		if f.rows[r.ID] != nil {
			assert.Equal(f, f.get(r.ID), r)
		} else {
			f.remains(r)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func service(s batch.ServiceID) *batch.ServiceID { return &s }

func findEach(f *fixture) {
	final := ch("s", "final", "older change", "p")
	f.add(ch("s", "ours", "change", "p"), ch("t", "theirs", "change", "p"), bt("s", "plain"))
	f.committed(final)
	for _, id := range []batch.ID{"ours", "theirs", "final", "plain"} {
		assert.Equal(f, []batch.ID{id}, f.found(store.FindQuery{ID: id}))
	}
	assert.Equal(f, []batch.ID{"ours"}, f.found(store.FindQuery{Service: service("s"), DataChangeID: "change"}))
	assert.Equal(f, []batch.ID{"theirs"}, f.found(store.FindQuery{Service: service("t"), DataChangeID: "change"}))
	assert.Equal(f, []batch.ID{"ours", "theirs"}, f.found(store.FindQuery{DataChangeID: "change"}), "a key without its lane")
	assert.Equal(f, []batch.ID{"final"}, f.found(store.FindQuery{DataChangeID: "older change"}))
}

func findBeginnings(f *fixture) {
	long := batch.ID(strings.Repeat("0123456789abcdef", 8))
	for _, id := range []batch.ID{"a", "ab", "abcde", "abcdef", "abcdefg", "abcdefgh", "abd", "ä", "b", long} {
		f.add(bt("s", id))
	}
	f.committed(bt("t", "abcfinal"))
	for begin, want := range map[batch.ID][]batch.ID{
		"a":       {"a", "ab", "abcde", "abcdef", "abcdefg", "abcdefgh", "abcfinal", "abd"},
		"abc":     {"abcde", "abcdef", "abcdefg", "abcdefgh", "abcfinal"},
		"abcdef":  {"abcdef", "abcdefg", "abcdefgh"},
		"abcdefg": {"abcdefg", "abcdefgh"},
		"abcf":    {"abcfinal"}, "abd": {"abd"}, "ä": {"ä"}, "b": {"b"}, "ac": nil, "abcdefghi": nil, "B": nil, "ab%": nil, "a_": nil,
		long[:1]: {long}, long[:12]: {long}, long: {long}, long + "0": nil,
	} {
		assert.Equal(f, want, f.found(store.FindQuery{ID: begin, Begins: true}), begin)
	}
}

// findAlike looks for ids that differ only at the end.
func findAlike(f *fixture) {
	const n = 2500
	all := make([]batch.Batch, n)
	for i := range all {
		all[i] = bt("s", batch.ID(fmt.Sprintf("invoice-%05d", i)))
	}
	f.add(all...)
	assert.Equal(f, []batch.ID{"invoice-02499"}, f.found(store.FindQuery{ID: "invoice-02499", Begins: true}))
	assert.Len(f, f.found(store.FindQuery{ID: "invoice-0002", Begins: true}), 10)
	recs, more := must2(f.st.Find(f.ctx, store.FindQuery{ID: "invoice-0", Begins: true, Limit: 3}))(f)
	assert.Len(f, recs, 3)
	assert.True(f, more)
}

func findKeys(f *fixture) {
	f.add(ch("s", "a", "order 1", "p"), ch("t", "b", "order 1", "p"), ch("s", "c", "order 10", "p"), ch("s", "d", "order", "p"), bt("s", "order 1"))
	f.committed(ch("u", "e", "order 1/final", "p"))
	assert.Equal(f, []batch.ID{"d", "a", "b", "e", "c"}, f.found(store.FindQuery{DataChangeID: "order", Begins: true}))
	assert.Equal(f, []batch.ID{"a", "b", "e", "c"}, f.found(store.FindQuery{DataChangeID: "order 1", Begins: true}))
	assert.Equal(f, []batch.ID{"a", "b"}, f.found(store.FindQuery{DataChangeID: "order 1"}))
	assert.Empty(f, f.found(store.FindQuery{DataChangeID: "order 2", Begins: true}))
}

func findLimit(f *fixture) {
	for i := range 12 {
		f.add(ch("s", batch.ID(fmt.Sprintf("b%03d", i)), fmt.Sprintf("c%03d", i), "p"))
	}
	for _, q := range []store.FindQuery{{ID: "b", Begins: true}, {DataChangeID: "c", Begins: true}} {
		for limit, want := range map[int]int{0: 10, 3: 3} {
			q.Limit = limit
			recs, more := must2(f.st.Find(f.ctx, q))(f)
			assert.Len(f, recs, want)
			assert.True(f, more)
		}
		q.Limit = 12
		assert.Len(f, f.found(q), 12)
	}
	assert.Equal(f, 100, store.FindQuery{Limit: 1e6}.Bounded().Limit)
	assert.Equal(f, 100, store.FindLanesQuery{Limit: 1e6}.Bounded().Limit)
}

func findNothing(f *fixture) {
	f.add(ch("s", "a", "change", "p"), bt("s", "plain"))
	for _, q := range []store.FindQuery{
		{ID: "b"}, {ID: "\xff"}, {ID: "\xff", Begins: true}, {Service: service("s"), DataChangeID: "a"}, {Service: service("t"), DataChangeID: "change"},
		{Service: service(""), DataChangeID: "change"}, {Service: service("\x00"), DataChangeID: "change"}, {Service: service("s"), DataChangeID: "\xff"},
		{DataChangeID: "chang"}, {ID: "change"}, {DataChangeID: "a", Begins: true},
	} {
		assert.Empty(f, f.found(q), "%+v", q)
	}
	for _, q := range []store.FindQuery{
		{}, {Begins: true}, {Service: service("s")}, {ID: "a", DataChangeID: "change"}, {Service: service("s"), ID: "a"},
		{Service: service("s"), DataChangeID: "change", Begins: true},
	} {
		_, _, err := f.st.Find(f.ctx, q)
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", q)
	}
}

func findLanes(f *fixture) {
	f.add(bt("payments", "a"), bt("payments", "b"), bt("pay", "c"), bt("", "d"), bt("refunds", "e"))
	f.committed(bt("paid", "f"))
	lanes := func(q store.FindLanesQuery) []batch.ServiceID {
		f.Helper()
		return must(f.st.FindLanes(f.ctx, q))(f)
	}
	assert.Equal(f, []batch.ServiceID{"paid", "pay", "payments"}, lanes(store.FindLanesQuery{Name: "pa", Begins: true}))
	assert.Equal(f, []batch.ServiceID{"pay", "payments"}, lanes(store.FindLanesQuery{Name: "pay", Begins: true}))
	assert.Equal(f, []batch.ServiceID{"pay"}, lanes(store.FindLanesQuery{Name: "pay"}))
	assert.Equal(f, []batch.ServiceID{""}, lanes(store.FindLanesQuery{}))
	assert.Equal(f, []batch.ServiceID{"", "paid"}, lanes(store.FindLanesQuery{Begins: true, Limit: 2}))
	for _, none := range []batch.ServiceID{"p", "PAY", "payments2", "\xff", "\x00"} {
		assert.Empty(f, lanes(store.FindLanesQuery{Name: none}), "%q", none)
	}
	if f.has(store.CanControl) {
		f.pause(batch.Only("paused"))
		f.pause(batch.Everything())
		assert.Equal(f, []batch.ServiceID{"paused", "pay", "payments"}, lanes(store.FindLanesQuery{Name: "pa", Begins: true})[1:])
	}
	if f.has(store.CanKeepTexts) {
		require.True(f, must(f.st.SwapTexts(f.ctx, store.Text{Kind: store.TextServed, Name: "served", Body: "ledger"}))(f))
		assert.Equal(f, []batch.ServiceID{"served"}, lanes(store.FindLanesQuery{Name: "served"}))
	}
}
