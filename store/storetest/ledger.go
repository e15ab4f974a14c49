package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store"
)

func ledgerTests() []test {
	return []test{
		{name: "the name is recorded once", run: ledgerOnce},
		{name: "one of several wins", run: ledgerRace},
		{name: "who serves a service is recorded once", run: servedOnce},
		{name: "one of several serves", run: servedRace},
		{name: "who serves survives what it was recorded for", run: servedPruned},
		{name: "traits are kept once", run: traitsKept},
		{name: "one of several replaces traits", run: traitsRace},
	}
}

func ledgerOnce(f *fixture) {
	for _, name := range []string{"sawtooth 1", "another", "sawtooth 1"} {
		assert.Equal(f, "sawtooth 1", must(f.st.Ledger(f.ctx, name))(f))
	}
}

func ledgerRace(f *fixture) {
	var wg sync.WaitGroup
	names, errs := make([]string, 8), make([]error, 8)
	for i := range names {
		wg.Go(func() { names[i], errs[i] = f.st.Ledger(f.ctx, fmt.Sprint("ledger ", i)) })
	}
	wg.Wait()
	for i := range names {
		require.NoError(f, errs[i])
		assert.Equal(f, names[0], names[i])
	}
	assert.Contains(f, names[0], "ledger ")
}

// serve records, and returns the recorded names.
func (f *fixture) serve(services ...store.Served) []string {
	f.Helper()
	f.needs(store.CanKeepLedgers)
	names := must(f.st.Serve(f.ctx, services))(f)
	return names
}

func servedOnce(f *fixture) {
	assert.Empty(f, f.serve())
	f.add(bt("waits", "w"))
	look := []store.Served{{Service: "waits"}, {Service: ""}, {Service: "Ü"}}
	assert.Equal(f, []string{"", "", ""}, f.serve(look...), "it only looked")
	assert.Equal(f, []string{"one", "two", "one"}, f.serve(
		store.Served{Service: "waits", Ledger: "one"}, store.Served{Service: "", Ledger: "two"}, store.Served{Service: "Ü", Ledger: "one"}))
	assert.Equal(f, []string{"one", "three", "two"}, f.serve(
		store.Served{Service: "waits", Ledger: "two"}, store.Served{Service: "new", Ledger: "three"}, store.Served{Service: "", Ledger: "one"}))
	assert.Equal(f, []string{"one", "two", "one"}, f.serve(look...))
}

func servedRace(f *fixture) {
	var wg sync.WaitGroup
	names, errs := make([][]string, 8), make([]error, 8)
	for i := range names {
		wg.Go(func() {
			services := []store.Served{{Service: "a", Ledger: fmt.Sprint(i)}, {Service: "b", Ledger: fmt.Sprint(i)}}
			if i%2 == 0 {
				slices.Reverse(services)
			}
			names[i], errs[i] = f.st.Serve(f.ctx, services)
			if i%2 == 0 {
				slices.Reverse(names[i])
			}
		})
	}
	wg.Wait()
	for i := range names {
		require.NoError(f, errs[i])
		assert.Equal(f, names[0], names[i])
	}
}

func servedPruned(f *fixture) {
	assert.Equal(f, []string{"one"}, f.serve(store.Served{Service: "s", Ledger: "one"}))
	f.committed(bt("s", "a"))
	require.Equal(f, 1, f.prune(0, false))
	if f.h.Reopen != nil {
		f.reopen()
	}
	assert.Equal(f, []string{"one"}, f.serve(store.Served{Service: "s", Ledger: "two"}))
}

// keepTraits keeps, and returns the text that is kept.
func (f *fixture) keepTraits(name, traits, seen string) string {
	f.Helper()
	f.needs(store.CanKeepLedgers)
	kept := must(f.st.KeepTraits(f.ctx, name, traits, seen))(f)
	return kept
}

func traitsKept(f *fixture) {
	const first, other = `the first "Ü" \u0000 'x'`, "the other"
	assert.Empty(f, f.keepTraits("one", "", ""), "it only looked")
	assert.Equal(f, first, f.keepTraits("one", first, ""), "nothing was kept")
	assert.Equal(f, first, f.keepTraits("one", first, ""), "the same")
	assert.Equal(f, first, f.keepTraits("one", other, ""), "it differs")
	assert.Equal(f, first, f.keepTraits("one", other, other), "another was seen")
	assert.Equal(f, other, f.keepTraits("two", other, first), "nothing was kept of it to be seen")
	assert.Equal(f, other, f.keepTraits("one", other, first), "it is replaced")
	assert.Equal(f, other, f.keepTraits("one", "", other), "it only looked")
	if f.h.Reopen != nil {
		f.reopen()
	}
	assert.Equal(f, other, f.keepTraits("one", first, first), "somebody else has replaced it")
	assert.Equal(f, first, f.keepTraits("two", first, other))
	assert.Equal(f, other, f.keepTraits("one", "", ""))
}

// Where several callers replace one text at once, one succeeds, and all get its text.
func traitsRace(f *fixture) {
	for _, seen := range []string{"", "before"} {
		name := "ledger " + seen
		if seen != "" {
			f.keepTraits(name, seen, "")
		}
		var wg sync.WaitGroup
		kept, errs := make([]string, 8), make([]error, 8)
		for i := range kept {
			wg.Go(func() { kept[i], errs[i] = f.st.KeepTraits(f.ctx, name, fmt.Sprint("traits ", i), seen) })
		}
		wg.Wait()
		for i := range kept {
			require.NoError(f, errs[i])
			assert.Equal(f, kept[0], kept[i])
		}
		assert.Contains(f, kept[0], "traits ")
	}
}
