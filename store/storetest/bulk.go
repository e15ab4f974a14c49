package storetest

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func bulkTests() []test {
	return []test{
		{name: "an action and its parts, as they were set last", run: bulkParts},
		{name: "a known token changes nothing", run: bulkAgain},
		{name: "one of many at a version", run: bulkFence},
		{name: "what is not there", run: bulkNothing},
		{name: "the newest first", run: bulkList},
		{name: "old actions are forgotten", run: bulkForgotten, not: func(h Harness) bool { return h.NoClock }},
		{name: "outlives the process", run: bulkReopen, not: func(h Harness) bool { return h.Volatile }},
	}
}

func (f *fixture) addBulk(token string, parts ...string) store.Bulk {
	f.Helper()
	b := must(f.st.AddBulk(f.ctx, token, "text of "+token, parts, 0))(f)
	require.True(f, f.near(f.now(), b.Changed))
	return b
}

func (f *fixture) bulk(token string) store.Bulk {
	f.Helper()
	b := must(f.st.GetBulk(f.ctx, token))(f)
	return b
}

func (f *fixture) bulkPart(token string, place int) string {
	f.Helper()
	text := must(f.st.GetBulkPart(f.ctx, token, place))(f)
	return text
}

func bulkParts(f *fixture) {
	long := strings.Repeat("ä long text ", 10_000)
	b := f.addBulk("a", "one", "", long)
	assert.Equal(f, int64(1), b.Version)
	assert.Equal(f, b.Begun, b.Changed)
	assert.Equal(f, "text of a", b.Text)
	assert.Equal(f, b, f.bulk("a"))
	for i, want := range []string{"one", "", long} {
		assert.Equal(f, want, f.bulkPart("a", i))
	}
	f.tick()
	next := must(f.st.SetBulk(f.ctx, "a", 1, "next", &store.BulkPart{Place: 1, Text: "two"}))(f)
	assert.Equal(f, int64(2), next.Version)
	assert.Equal(f, b.Begun, next.Begun)
	assert.True(f, next.Changed.After(b.Changed))
	assert.Equal(f, next, f.bulk("a"))
	assert.Equal(f, "next", next.Text)
	assert.Equal(f, "two", f.bulkPart("a", 1))
	must(f.st.SetBulk(f.ctx, "a", 2, "end", nil))(f)
	assert.Equal(f, "one", f.bulkPart("a", 0))
	f.addBulk("b")
	assert.Equal(f, "end", f.bulk("a").Text)
}

func bulkAgain(f *fixture) {
	first := f.addBulk("a", "one")
	again, err := f.st.AddBulk(f.ctx, "a", "other", []string{"other", "more"}, 0)
	require.NoError(f, err)
	assert.Equal(f, first, again)
	assert.Equal(f, "one", f.bulkPart("a", 0))
	_, err = f.st.GetBulkPart(f.ctx, "a", 1)
	require.ErrorIs(f, err, batch.ErrNotFound)
}

func bulkFence(f *fixture) {
	f.addBulk("a", "one")
	var done atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := f.st.SetBulk(f.ctx, "a", 1, "mine", &store.BulkPart{Text: "mine"}); err != nil {
				assert.ErrorIs(f, err, batch.ErrMovedOn)
				return
			}
			done.Add(1)
		})
	}
	wg.Wait()
	assert.Equal(f, int64(1), done.Load())
	_, err := f.st.SetBulk(f.ctx, "a", 1, "late", &store.BulkPart{Text: "late"})
	require.ErrorIs(f, err, batch.ErrMovedOn)
	assert.Equal(f, int64(2), f.bulk("a").Version)
	assert.Equal(f, "mine", f.bulkPart("a", 0))
}

func bulkNothing(f *fixture) {
	f.addBulk("a", "one")
	for _, token := range []string{"b", "", "\xff", "\x00", "A"} {
		_, err := f.st.GetBulk(f.ctx, token)
		require.ErrorIs(f, err, batch.ErrNotFound, "%q", token)
		_, err = f.st.GetBulkPart(f.ctx, token, 0)
		require.ErrorIs(f, err, batch.ErrNotFound, "%q", token)
		_, err = f.st.SetBulk(f.ctx, token, 1, "t", nil)
		require.ErrorIs(f, err, batch.ErrNotFound, "%q", token)
	}
	for _, place := range []int{-1, 1} {
		_, err := f.st.SetBulk(f.ctx, "a", 1, "t", &store.BulkPart{Place: place})
		require.ErrorIs(f, err, batch.ErrNotFound)
		_, err = f.st.GetBulkPart(f.ctx, "a", place)
		require.ErrorIs(f, err, batch.ErrNotFound)
	}
	assert.Equal(f, "text of a", f.bulk("a").Text, "all of a change or nothing")
	for _, token := range []string{"", "\xff", "a b", "'", strings.Repeat("a", 129)} {
		_, err := f.st.AddBulk(f.ctx, token, "t", nil, 0)
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%q", token)
	}
}

func bulkList(f *fixture) {
	var want []string
	for _, token := range []string{"b", "a", "c"} {
		f.addBulk(token, "part")
		want = append([]string{token}, want...)
		f.tick()
	}
	list := func(limit int) (tokens []string) {
		all := must(f.st.ListBulks(f.ctx, limit))(f)
		for _, b := range all {
			assert.Equal(f, f.bulk(b.Token), b)
			tokens = append(tokens, b.Token)
		}
		return tokens
	}
	assert.Equal(f, want, list(1_000_000))
	assert.Equal(f, want[:2], list(2))
	assert.Empty(f, list(0))
	assert.Empty(f, list(-1))
}

func bulkForgotten(f *fixture) {
	f.addBulk("old", "part")
	f.addBulk("used", "part")
	f.pass(2)
	_, err := f.st.SetBulk(f.ctx, "used", 1, "t", nil)
	require.NoError(f, err)
	_, err = f.st.AddBulk(f.ctx, "new", "t", []string{"part"}, 3*time.Hour)
	require.NoError(f, err)
	f.bulk("old")
	_, err = f.st.AddBulk(f.ctx, "newer", "t", nil, time.Hour)
	require.NoError(f, err)
	_, err = f.st.GetBulk(f.ctx, "old")
	require.ErrorIs(f, err, batch.ErrNotFound)
	_, err = f.st.GetBulkPart(f.ctx, "old", 0)
	require.ErrorIs(f, err, batch.ErrNotFound)
	for _, token := range []string{"used", "new"} {
		assert.Equal(f, "part", f.bulkPart(token, 0))
	}
}

func bulkReopen(f *fixture) {
	f.addBulk("a", "one", "two")
	want := must(f.st.SetBulk(f.ctx, "a", 1, "next", &store.BulkPart{Place: 1, Text: "second"}))(f)
	f.reopen()
	assert.Equal(f, want, f.bulk("a"))
	assert.Equal(f, "second", f.bulkPart("a", 1))
}
