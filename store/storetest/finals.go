package storetest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func finalsTests() []test {
	return []test{
		{name: "what is final, what is missing, and nothing of what is open", run: testFinalsSorts},
		{name: "each key once", run: testFinalsOnce},
		{name: "what cannot be stored is missing", run: testFinalsNever},
		{name: "any number of keys", run: testFinalsMany},
		{name: "what was requeued is open again, and what was pruned is missing", run: testFinalsMoves},
	}
}

// finals calls Finals for these keys, and compares the result with the model.
func (f *fixture) finals(keys ...batch.Key) (final []batch.ID, missing []batch.Key) {
	f.Helper()
	f.endWithout(store.CanReadFinals)
	rs, missing := must2(f.store.Finals(f.ctx, keys))(f)
	for _, r := range rs {
		if f.tombstones[r.ID] != nil {
			f.requireSameAsTombstone(r)
			continue
		}
		require.NotNil(f, f.batches[r.ID])
		f.requireSameRecord(f.batches[r.ID], r)
	}
	final = recordIDs(rs)
	var wantFinal []batch.ID
	var wantMissing []batch.Key
	seen := map[batch.Key]bool{}
	for _, k := range keys {
		if s := f.batches[k.ID]; seen[k] {
			continue
		} else if t := f.tombstones[k.ID]; t != nil && t.batch.Key() == k {
			wantFinal = append(wantFinal, k.ID)
		} else if s == nil || s.batch.Key() != k {
			wantMissing = append(wantMissing, k)
		} else if s.row.Final() {
			wantFinal = append(wantFinal, k.ID)
		}
		seen[k] = true
	}
	require.ElementsMatch(f, wantFinal, final, "final")
	require.ElementsMatch(f, wantMissing, missing, "missing")
	return final, missing
}

func (f *fixture) keys() []batch.Key {
	var keys []batch.Key
	for _, s := range f.modelBatches(func(*modelBatch) bool { return true }) {
		keys = append(keys, s.batch.Key())
	}
	return keys
}

func testFinalsSorts(f *fixture) {
	named := f.makeOneOfEach()
	none := batch.Key{Service: "s", ID: "none"}
	other := batch.Key{Service: "other", ID: named["committed"]}
	final, missing := f.finals(append(f.keys(), none, other)...)
	var want []batch.ID
	for _, name := range []string{"invalid", "committed", "rejected", "cancelled", "quarantined"} {
		if named[name] != "" {
			want = append(want, named[name])
		}
	}
	assert.ElementsMatch(f, want, final)
	assert.ElementsMatch(f, []batch.Key{none, other}, missing, "an id under another service is not it")
	final, missing = must2(f.finalsUncompared())(f)
	assert.Empty(f, final)
	assert.Empty(f, missing)
}

func (f *fixture) finalsUncompared(keys ...batch.Key) ([]batch.ID, []batch.Key, error) {
	f.endWithout(store.CanReadFinals)
	rs, missing, err := f.store.Finals(f.ctx, keys)
	return recordIDs(rs), missing, err
}

func testFinalsOnce(f *fixture) {
	f.makeCommitted(newBatch("s", "a"))
	a, none := newBatch("s", "a").Key(), newBatch("s", "none").Key()
	final, missing := must2(f.finalsUncompared(a, none, a, none, a))(f)
	assert.Equal(f, []batch.ID{"a"}, final)
	assert.Equal(f, []batch.Key{none}, missing)
}

func testFinalsNever(f *fixture) {
	f.makeCommitted(newBatch("s", "a"), newBatch("s", "\ufffd"), newBatch("\ufffd", "b"))
	never := []batch.Key{
		{Service: "s"}, {Service: "s", ID: "\x00"}, {Service: "s", ID: "\xff"}, {Service: "\xff", ID: "b"},
		{Service: "s", ID: batch.ID(strings.Repeat("a", batch.MaxIDLen+1))}, {Service: "s", ID: `"`}, {Service: "s", ID: "{,}"},
	}
	final, missing, err := f.finalsUncompared(append(never, newBatch("s", "a").Key())...)
	require.NoError(f, err, "one that asks for nonsense fails nobody else")
	assert.Equal(f, []batch.ID{"a"}, final)
	assert.ElementsMatch(f, never, missing)
}

func testFinalsMany(f *fixture) {
	bs := newBatches("s", "b", 1201)
	f.add(bs...)
	is := batchIDs(bs)
	f.claimExactly(is[:3]...)
	f.recordEach(f.submitterOutcome, store.Refused, is[:3]...)
	var none []batch.Key
	for _, b := range newBatches("s", "none", 700) {
		none = append(none, b.Key())
	}
	final, missing := f.finals(append(f.keys(), none...)...)
	assert.Len(f, final, 3)
	assert.Len(f, missing, 700)
}

func testFinalsMoves(f *fixture) {
	f.makeCommitted(newBatch("s", "a"), newBatch("s", "b"))
	f.add(newBatch("s", "c"))
	require.NoError(f, f.cancel("c", ""))
	final, _ := f.finals(f.keys()...)
	assert.Len(f, final, 3)
	require.NoError(f, f.requeue("c", 0))
	f.finals(f.keys()...)
	keys := f.keys()
	require.Equal(f, 2, f.prune(0, true))
	final, missing := f.finals(keys...)
	assert.ElementsMatch(f, []batch.ID{"a", "b"}, final, "what a tombstone keeps")
	assert.Empty(f, missing)
}
