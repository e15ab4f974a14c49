package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func textsTests() []test {
	return []test{
		{name: "from the first to the last change", run: testTextsChange},
		{name: "all or none", run: testTextsAll},
		{name: "one of several changes a text", run: testTextsRace},
		{name: "one of several is the first", run: testTextsFirst},
		{name: "many at once", run: testTextsMany},
		{name: "the list", run: testTextsList},
		{name: "what cannot be kept", run: testTextsBad},
		{name: "a text survives what it was kept for", run: testTextsPruned, needs: store.CanPrune},
		{name: "texts outlive the process", run: testTextsReopen, isInapplicable: func(h Harness) bool { return h.Volatile }},
	}
}

// texts calls ReadTexts for a kind.
func (f *fixture) texts(kind store.TextKind, names ...string) []store.Text {
	f.Helper()
	found, now, err := f.store.ReadTexts(f.ctx, kind, names...)
	require.NoError(f, err)
	require.True(f, f.isNear(f.now(), now), "%s", now)
	require.Len(f, found, len(names))
	for i, t := range found {
		require.Equal(f, kind, t.Kind)
		require.Equal(f, names[i], t.Name)
		if t.Version == 0 {
			require.Equal(f, store.Text{Kind: kind, Name: names[i]}, t)
		}
	}
	return found
}

func (f *fixture) text(kind store.TextKind, name string) store.Text {
	f.Helper()
	return f.texts(kind, name)[0]
}

func (f *fixture) swapTexts(all ...store.Text) bool {
	f.Helper()
	return must(f.store.SwapTexts(f.ctx, all...))(f)
}

func testTextsChange(f *fixture) {
	assert.Empty(f, f.texts("kind"))
	text := f.text("kind", "a")
	assert.Zero(f, text.Version)
	text.Body = "ä 'long' \"text\" \\u0000 " + strings.Repeat("ab", 50_000)
	require.True(f, f.swapTexts(text))
	first := f.text("kind", "a")
	assert.Equal(f, int64(1), first.Version)
	assert.Equal(f, text.Body, first.Body)
	assert.True(f, f.isNear(f.now(), first.Begun))
	assert.True(f, f.isNear(f.now(), first.Changed))
	assert.Zero(f, f.text("other", "a").Version, "another kind")
	f.passUnits(1)

	next := first
	next.Body = "next"
	require.True(f, f.swapTexts(next))
	next = f.text("kind", "a")
	assert.Equal(f, int64(2), next.Version)
	assert.Equal(f, "next", next.Body)
	assert.True(f, next.Begun.Equal(first.Begun))
	assert.True(f, f.isNear(f.now(), next.Changed))
	first.Body = "late"
	assert.False(f, f.swapTexts(first), "it has changed since")
	assert.Equal(f, next, f.text("kind", "a"))
	assert.False(f, f.swapTexts(store.Text{Kind: "kind", Name: "a", Body: "new"}), "it is kept already")
	assert.False(f, f.swapTexts(store.Text{Kind: "kind", Name: "b", Version: 1, Body: "b"}), "it was never kept")

	for _, name := range []string{"", "Ü", "A"} {
		require.True(f, f.swapTexts(store.Text{Kind: "kind", Name: name, Body: "of " + name}))
	}
	all := f.texts("kind", "Ü", "", "none", "a", "", "A")
	for i, want := range []string{"of Ü", "of ", "", "next", "of ", "of A"} {
		assert.Equal(f, want, all[i].Body)
	}

	first.Body = ""
	assert.False(f, f.swapTexts(first), "it has changed since")
	gone := next
	gone.Body = ""
	require.True(f, f.swapTexts(gone))
	assert.False(f, f.swapTexts(gone), "it is gone already")
	assert.Zero(f, f.text("kind", "a").Version)
	require.True(f, f.swapTexts(store.Text{Kind: "kind", Name: "a", Body: "again"}))
	assert.Equal(f, int64(1), f.text("kind", "a").Version)
}

func testTextsAll(f *fixture) {
	a, b, c := store.Text{Kind: "kind", Name: "a", Body: "a"}, store.Text{Kind: "other", Name: "b", Body: "b"}, store.Text{Kind: "kind", Name: "c", Body: "c"}
	require.True(f, f.swapTexts())
	require.True(f, f.swapTexts(c, a))
	require.False(f, f.swapTexts(b, a), "a is kept already")
	assert.Zero(f, f.text("other", "b").Version)
	a.Version, a.Body = 1, "next"
	c.Version, c.Body = 2, ""
	require.False(f, f.swapTexts(a, b, c), "c has another version")
	assert.Equal(f, "a", f.text("kind", "a").Body)
	assert.Equal(f, "c", f.text("kind", "c").Body)
	assert.Zero(f, f.text("other", "b").Version)
	c.Version = 1
	require.True(f, f.swapTexts(c, b, a))
	assert.Equal(f, "next", f.text("kind", "a").Body)
	assert.Equal(f, "b", f.text("other", "b").Body)
	assert.Zero(f, f.text("kind", "c").Version)
}

func testTextsRace(f *fixture) {
	require.True(f, f.swapTexts(store.Text{Kind: "kind", Name: "a", Body: "first"}, store.Text{Kind: "kind", Name: "b", Body: "first"}))
	var done atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := fmt.Sprint(i)
			all := []store.Text{{Kind: "kind", Name: "a", Version: 1, Body: body}, {Kind: "kind", Name: "b", Version: 1, Body: body}}
			if i%2 == 0 {
				slices.Reverse(all)
			}
			did, err := f.store.SwapTexts(f.ctx, all...)
			if assert.NoError(f, err) && did {
				done.Add(1)
			}
		})
	}
	wg.Wait()
	assert.Equal(f, int64(1), done.Load())
	now := f.texts("kind", "a", "b")
	assert.Equal(f, now[0].Body, now[1].Body)
	assert.NotEqual(f, "first", now[0].Body)
	assert.Equal(f, int64(2), now[0].Version)
}

// testTextsFirst: if several callers write some of the same texts at once, each writes all of its
// texts or none.
func testTextsFirst(f *fixture) {
	var wg sync.WaitGroup
	var did [8]bool
	name := func(i int) string { return fmt.Sprintf("%02d", i%8) }
	for i := range did {
		wg.Go(func() {
			var all []store.Text
			for k := range 3 {
				all = append(all, store.Text{Kind: "kind", Name: name(i + k), Body: fmt.Sprint(i)})
			}
			var err error
			did[i], err = f.store.SwapTexts(f.ctx, all...)
			assert.NoError(f, err)
		})
	}
	wg.Wait()
	assert.Contains(f, did, true)
	for i, mine := range did {
		for _, t := range f.texts("kind", name(i), name(i+1), name(i+2)) {
			assert.Equal(f, mine, t.Body == fmt.Sprint(i))
		}
	}
}

func testTextsMany(f *fixture) {
	var all []store.Text
	var names []string
	for i := range 1500 {
		names = append(names, fmt.Sprint("name ", i))
		all = append(all, store.Text{Kind: "kind", Name: names[i], Body: fmt.Sprint("body ", i)})
	}
	require.True(f, f.swapTexts(all...))
	slices.Reverse(names)
	for i, t := range f.texts("kind", names...) {
		require.Equal(f, all[len(all)-1-i].Body, t.Body)
	}
}

func testTextsList(f *fixture) {
	for _, name := range []string{"b", "a", "d", "c"} {
		require.True(f, f.swapTexts(store.Text{Kind: "kind", Name: name, Body: "of " + name}))
		f.passUnits(1)
	}
	require.True(f, f.swapTexts(store.Text{Kind: "other", Name: "x", Body: "x"}))
	list := func(unchanged time.Duration, limit int) (names []string) {
		f.Helper()
		found, now, err := f.store.ListTexts(f.ctx, store.TextsQuery{Kind: "kind", Unchanged: unchanged, Limit: limit})
		require.NoError(f, err)
		require.True(f, f.isNear(f.now(), now), "%s", now)
		for _, t := range found {
			assert.Equal(f, f.text("kind", t.Name), t)
			names = append(names, t.Name)
		}
		return names
	}
	assert.Equal(f, []string{"c", "d", "a", "b"}, list(0, 100))
	assert.Equal(f, []string{"c", "d"}, list(0, 2))
	assert.Empty(f, list(0, 0))
	assert.Empty(f, list(0, -1))
	b := f.text("kind", "b")
	b.Body = "changed"
	require.True(f, f.swapTexts(b))
	assert.Equal(f, []string{"b", "c", "d", "a"}, list(0, 100))
	assert.Equal(f, []string{"d", "a"}, list(f.units(1.5), 100))
	assert.Equal(f, []string{"d"}, list(f.units(1.5), 1))
	assert.Empty(f, list(f.units(9), 100))
}

func testTextsBad(f *fixture) {
	long := strings.Repeat("a", 1025)
	for _, t := range []store.Text{
		{Kind: "", Name: "a", Body: "b"},
		{Kind: "\xff", Name: "a", Body: "b"},
		{Kind: "kind", Name: "\xff", Body: "b"},
		{Kind: "kind", Name: "a\x00", Body: "b"},
		{Kind: "kind", Name: long, Body: "b"},
		{Kind: "kind", Name: "a", Body: "b\x00"},
		{Kind: "kind", Name: "a", Body: "\xff"},
		{Kind: "kind", Name: "a"}, // a removal of no text
		{Kind: "kind", Name: "a", Version: -1, Body: "b"},
		{Kind: "kind", Name: "twice", Body: "b"},
	} {
		_, err := f.store.SwapTexts(f.ctx, store.Text{Kind: "kind", Name: "twice", Body: "b"}, t)
		assert.ErrorIs(f, err, batch.ErrInvalidInput, "%q", t)
	}
	for _, name := range []string{"\xff", "a\x00", long} {
		_, _, err := f.store.ReadTexts(f.ctx, "kind", "a", name)
		assert.ErrorIs(f, err, batch.ErrInvalidInput, "%q", name)
	}
	_, _, err := f.store.ListTexts(f.ctx, store.TextsQuery{Limit: 9})
	assert.ErrorIs(f, err, batch.ErrInvalidInput)
	assert.Zero(f, f.text("kind", "twice").Version)
}

func testTextsPruned(f *fixture) {
	require.True(f, f.swapTexts(store.Text{Kind: store.TextServed, Name: "s", Body: "one"}))
	f.makeCommitted(newBatch("s", "a"))
	require.Equal(f, 1, f.prune(0, false))
	assert.Equal(f, "one", f.text(store.TextServed, "s").Body)
}

func testTextsReopen(f *fixture) {
	require.True(f, f.swapTexts(store.Text{Kind: "kind", Name: "a", Body: "first"}))
	first := f.text("kind", "a")
	first.Body = "second"
	require.True(f, f.swapTexts(first))
	want := f.text("kind", "a")
	f.reopen()
	assert.Equal(f, want, f.text("kind", "a"))
	assert.False(f, f.swapTexts(first))
	require.True(f, f.swapTexts(want))
}
