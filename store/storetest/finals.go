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
		{name: "what is final, what is missing, and nothing of what is open", run: finalsSorts},
		{name: "each key once", run: finalsOnce},
		{name: "what cannot be stored is missing", run: finalsNever},
		{name: "any number of keys", run: finalsMany},
		{name: "what was requeued is open again, and what was pruned is missing", run: finalsMoves},
	}
}

// finals asks for these keys, and compares with the model.
func (f *fixture) finals(keys ...batch.Key) (final []batch.ID, missing []batch.Key) {
	f.Helper()
	f.needs(store.CanReadFinals)
	rs, missing := must2(f.st.Finals(f.ctx, keys))(f)
	for _, r := range rs {
		if f.tombs[r.ID] != nil {
			f.remains(r)
			continue
		}
		require.NotNil(f, f.rows[r.ID])
		f.sameRecord(f.rows[r.ID], r)
	}
	final = recordIDs(rs)
	var wantFinal []batch.ID
	var wantMissing []batch.Key
	seen := map[batch.Key]bool{}
	for _, k := range keys {
		if s := f.rows[k.ID]; seen[k] {
			continue
		} else if t := f.tombs[k.ID]; t != nil && t.b.Key() == k {
			wantFinal = append(wantFinal, k.ID)
		} else if s == nil || s.b.Key() != k {
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
	for _, s := range f.inOrder(func(*shadow) bool { return true }) {
		keys = append(keys, s.b.Key())
	}
	return keys
}

func finalsSorts(f *fixture) {
	named := f.oneOfEach()
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
	final, missing = must2(f.justFinals())(f)
	assert.Empty(f, final)
	assert.Empty(f, missing)
}

func (f *fixture) justFinals(keys ...batch.Key) ([]batch.ID, []batch.Key, error) {
	f.needs(store.CanReadFinals)
	rs, missing, err := f.st.Finals(f.ctx, keys)
	return recordIDs(rs), missing, err
}

func finalsOnce(f *fixture) {
	f.committed(bt("s", "a"))
	a, none := bt("s", "a").Key(), bt("s", "none").Key()
	final, missing := must2(f.justFinals(a, none, a, none, a))(f)
	assert.Equal(f, []batch.ID{"a"}, final)
	assert.Equal(f, []batch.Key{none}, missing)
}

func finalsNever(f *fixture) {
	f.committed(bt("s", "a"), bt("s", "\ufffd"), bt("\ufffd", "b"))
	never := []batch.Key{
		{Service: "s"}, {Service: "s", ID: "\x00"}, {Service: "s", ID: "\xff"}, {Service: "\xff", ID: "b"},
		{Service: "s", ID: batch.ID(strings.Repeat("a", batch.MaxIDLen+1))}, {Service: "s", ID: `"`}, {Service: "s", ID: "{,}"},
	}
	final, missing, err := f.justFinals(append(never, bt("s", "a").Key())...)
	require.NoError(f, err, "one that asks for nonsense fails nobody else")
	assert.Equal(f, []batch.ID{"a"}, final)
	assert.ElementsMatch(f, never, missing)
}

func finalsMany(f *fixture) {
	bs := many("s", "b", 1201)
	f.add(bs...)
	is := ids(bs)
	f.take(is[:3]...)
	f.each(f.submitted, store.Refused, is[:3]...)
	var none []batch.Key
	for _, b := range many("s", "none", 700) {
		none = append(none, b.Key())
	}
	final, missing := f.finals(append(f.keys(), none...)...)
	assert.Len(f, final, 3)
	assert.Len(f, missing, 700)
}

func finalsMoves(f *fixture) {
	f.committed(bt("s", "a"), bt("s", "b"))
	f.add(bt("s", "c"))
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
