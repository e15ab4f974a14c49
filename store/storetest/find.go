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
		{name: "one batch by its id or its key, open or final", run: testFindEach},
		{name: "by the beginning of an id", run: testFindBeginnings},
		{name: "one of many ids that begin alike", run: testFindAlike},
		{name: "by the beginning of a key, in all lanes", run: testFindKeys},
		{name: "no more than asked for", run: testFindLimit},
		{name: "nothing", run: testFindNothing},
		{name: "what a tombstone keeps", run: testFindRemoved, needs: store.CanPrune},
		{name: "lanes that anybody knows", run: testFindLanes},
	}
}

// findIDs calls Find, and compares the result with the model.
func (f *fixture) findIDs(q store.FindQuery) (ids []batch.ID) {
	f.Helper()
	recs, more := must2(f.store.Find(f.ctx, q))(f)
	require.False(f, more, "%+v", q)
	for _, r := range recs {
		if f.batches[r.ID] != nil {
			assert.Equal(f, f.get(r.ID), r)
		} else {
			f.requireSameAsTombstone(r)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func servicePtr(s batch.ServiceID) *batch.ServiceID { return &s }

func testFindEach(f *fixture) {
	final := newKeyedBatch("s", "final", "older change", "p")
	f.add(newKeyedBatch("s", "ours", "change", "p"), newKeyedBatch("t", "theirs", "change", "p"), newBatch("s", "plain"))
	f.makeCommitted(final)
	for _, id := range []batch.ID{"ours", "theirs", "final", "plain"} {
		assert.Equal(f, []batch.ID{id}, f.findIDs(store.FindQuery{ID: id}))
	}
	assert.Equal(f, []batch.ID{"ours"}, f.findIDs(store.FindQuery{Service: servicePtr("s"), DataChangeID: "change"}))
	assert.Equal(f, []batch.ID{"theirs"}, f.findIDs(store.FindQuery{Service: servicePtr("t"), DataChangeID: "change"}))
	assert.Equal(f, []batch.ID{"ours", "theirs"}, f.findIDs(store.FindQuery{DataChangeID: "change"}), "a key without its lane")
	assert.Equal(f, []batch.ID{"final"}, f.findIDs(store.FindQuery{DataChangeID: "older change"}))
}

func testFindBeginnings(f *fixture) {
	long := batch.ID(strings.Repeat("0123456789abcdef", 8))
	for _, id := range []batch.ID{"a", "ab", "abcde", "abcdef", "abcdefg", "abcdefgh", "abd", "ä", "b", long} {
		f.add(newBatch("s", id))
	}
	f.makeCommitted(newBatch("t", "abcfinal"))
	for begin, want := range map[batch.ID][]batch.ID{
		"a":       {"a", "ab", "abcde", "abcdef", "abcdefg", "abcdefgh", "abcfinal", "abd"},
		"abc":     {"abcde", "abcdef", "abcdefg", "abcdefgh", "abcfinal"},
		"abcdef":  {"abcdef", "abcdefg", "abcdefgh"},
		"abcdefg": {"abcdefg", "abcdefgh"},
		"abcf":    {"abcfinal"}, "abd": {"abd"}, "ä": {"ä"}, "b": {"b"}, "ac": nil, "abcdefghi": nil, "B": nil, "ab%": nil, "a_": nil,
		long[:1]: {long}, long[:12]: {long}, long: {long}, long + "0": nil,
	} {
		assert.Equal(f, want, f.findIDs(store.FindQuery{ID: begin, Begins: true}), begin)
	}
}

// testFindAlike searches for ids that differ only in their last characters.
func testFindAlike(f *fixture) {
	const n = 2500
	all := make([]batch.Batch, n)
	for i := range all {
		all[i] = newBatch("s", batch.ID(fmt.Sprintf("invoice-%05d", i)))
	}
	f.add(all...)
	assert.Equal(f, []batch.ID{"invoice-02499"}, f.findIDs(store.FindQuery{ID: "invoice-02499", Begins: true}))
	assert.Len(f, f.findIDs(store.FindQuery{ID: "invoice-0002", Begins: true}), 10)
	recs, more := must2(f.store.Find(f.ctx, store.FindQuery{ID: "invoice-0", Begins: true, Limit: 3}))(f)
	assert.Len(f, recs, 3)
	assert.True(f, more)
}

func testFindKeys(f *fixture) {
	f.add(newKeyedBatch("s", "a", "order 1", "p"), newKeyedBatch("t", "b", "order 1", "p"), newKeyedBatch("s", "c", "order 10", "p"), newKeyedBatch("s", "d", "order", "p"), newBatch("s", "order 1"))
	f.makeCommitted(newKeyedBatch("u", "e", "order 1/final", "p"))
	assert.Equal(f, []batch.ID{"d", "a", "b", "e", "c"}, f.findIDs(store.FindQuery{DataChangeID: "order", Begins: true}))
	assert.Equal(f, []batch.ID{"a", "b", "e", "c"}, f.findIDs(store.FindQuery{DataChangeID: "order 1", Begins: true}))
	assert.Equal(f, []batch.ID{"a", "b"}, f.findIDs(store.FindQuery{DataChangeID: "order 1"}))
	assert.Empty(f, f.findIDs(store.FindQuery{DataChangeID: "order 2", Begins: true}))
}

func testFindLimit(f *fixture) {
	for i := range 12 {
		f.add(newKeyedBatch("s", batch.ID(fmt.Sprintf("b%03d", i)), fmt.Sprintf("c%03d", i), "p"))
	}
	for _, q := range []store.FindQuery{{ID: "b", Begins: true}, {DataChangeID: "c", Begins: true}} {
		for limit, want := range map[int]int{0: 10, 3: 3} {
			q.Limit = limit
			recs, more := must2(f.store.Find(f.ctx, q))(f)
			assert.Len(f, recs, want)
			assert.True(f, more)
		}
		q.Limit = 12
		assert.Len(f, f.findIDs(q), 12)
	}
	assert.Equal(f, 100, store.FindQuery{Limit: 1e6}.Bounded().Limit)
	assert.Equal(f, 100, store.FindLanesQuery{Limit: 1e6}.Bounded().Limit)
}

func testFindNothing(f *fixture) {
	f.add(newKeyedBatch("s", "a", "change", "p"), newBatch("s", "plain"))
	for _, q := range []store.FindQuery{
		{ID: "b"}, {ID: "\xff"}, {ID: "\xff", Begins: true}, {Service: servicePtr("s"), DataChangeID: "a"}, {Service: servicePtr("t"), DataChangeID: "change"},
		{Service: servicePtr(""), DataChangeID: "change"}, {Service: servicePtr("\x00"), DataChangeID: "change"}, {Service: servicePtr("s"), DataChangeID: "\xff"},
		{DataChangeID: "chang"}, {ID: "change"}, {DataChangeID: "a", Begins: true},
	} {
		assert.Empty(f, f.findIDs(q), "%+v", q)
	}
	for _, q := range []store.FindQuery{
		{}, {Begins: true}, {Service: servicePtr("s")}, {ID: "a", DataChangeID: "change"}, {Service: servicePtr("s"), ID: "a"},
		{Service: servicePtr("s"), DataChangeID: "change", Begins: true},
	} {
		_, _, err := f.store.Find(f.ctx, q)
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%+v", q)
	}
}

func testFindLanes(f *fixture) {
	f.add(newBatch("payments", "a"), newBatch("payments", "b"), newBatch("pay", "c"), newBatch("", "d"), newBatch("refunds", "e"))
	f.makeCommitted(newBatch("paid", "f"))
	lanes := func(q store.FindLanesQuery) []batch.ServiceID {
		f.Helper()
		return must(f.store.FindLanes(f.ctx, q))(f)
	}
	assert.Equal(f, []batch.ServiceID{"paid", "pay", "payments"}, lanes(store.FindLanesQuery{Name: "pa", Begins: true}))
	assert.Equal(f, []batch.ServiceID{"pay", "payments"}, lanes(store.FindLanesQuery{Name: "pay", Begins: true}))
	assert.Equal(f, []batch.ServiceID{"pay"}, lanes(store.FindLanesQuery{Name: "pay"}))
	assert.Equal(f, []batch.ServiceID{""}, lanes(store.FindLanesQuery{}))
	assert.Equal(f, []batch.ServiceID{"", "paid"}, lanes(store.FindLanesQuery{Begins: true, Limit: 2}))
	for _, none := range []batch.ServiceID{"p", "PAY", "payments2", "\xff", "\x00"} {
		assert.Empty(f, lanes(store.FindLanesQuery{Name: none}), "%q", none)
	}
	if f.hasAbilities(store.CanControl) {
		f.pause(batch.Only("paused"))
		f.pause(batch.Everything())
		assert.Equal(f, []batch.ServiceID{"paused", "pay", "payments"}, lanes(store.FindLanesQuery{Name: "pa", Begins: true})[1:])
	}
	if f.hasAbilities(store.CanKeepTexts) {
		require.True(f, must(f.store.SwapTexts(f.ctx, store.Text{Kind: store.TextServed, Name: "served", Body: "ledger"}))(f))
		assert.Equal(f, []batch.ServiceID{"served"}, lanes(store.FindLanesQuery{Name: "served"}))
	}
}
