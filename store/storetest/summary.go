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

func summaryTests() []test {
	return []test{
		{name: "the text that was kept last", run: summaryText},
		{name: "one of many at a turn", run: summaryTurn},
		{name: "names that are none", run: summaryNames},
		{name: "outlives the process", run: summaryReopen, not: func(h Harness) bool { return h.Volatile }},
	}
}

func (f *fixture) summary(name string) store.Summary {
	f.Helper()
	s := must(f.st.Summary(f.ctx, name))(f)
	require.True(f, f.near(f.now(), s.Now))
	s.Now = time.Time{}
	return s
}

func (f *fixture) keepSummary(name string, turn int64, next store.Summary) bool {
	f.Helper()
	kept := must(f.st.KeepSummary(f.ctx, name, turn, next))(f)
	return kept
}

func summaryText(f *fixture) {
	assert.Equal(f, store.Summary{}, f.summary("a"))
	at := f.now().Truncate(time.Microsecond)
	first := store.Summary{StatsTurn: store.StatsTurn{Turn: 1, At: at, Rest: at.Add(time.Minute)}, Text: strings.Repeat("ä long text ", 10_000)}
	require.True(f, f.keepSummary("a", 0, first))
	assert.Equal(f, first, f.summary("a"))
	assert.Equal(f, store.Summary{}, f.summary("b"), "another name")
	taken := first
	taken.Turn, taken.Rest, taken.Text = 2, at.Add(time.Hour), ""
	require.True(f, f.keepSummary("a", 1, taken))
	taken.Text = first.Text
	assert.Equal(f, taken, f.summary("a"), "no text leaves the text")
	taken.Text = "next"
	require.False(f, f.keepSummary("a", 1, taken), "another process has taken the turn")
	require.True(f, f.keepSummary("a", 2, taken))
	assert.Equal(f, taken, f.summary("a"))
}

func summaryTurn(f *fixture) {
	require.True(f, f.keepSummary("a", 0, store.Summary{StatsTurn: store.StatsTurn{Turn: 1}, Text: "first"}))
	var done atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			kept, err := f.st.KeepSummary(f.ctx, "a", 1, store.Summary{StatsTurn: store.StatsTurn{Turn: 2}})
			if assert.NoError(f, err) && kept {
				done.Add(1)
			}
		})
	}
	wg.Wait()
	assert.Equal(f, int64(1), done.Load())
}

func summaryNames(f *fixture) {
	for _, name := range []string{"", "\xff", "\x00", strings.Repeat("a", batch.MaxInstanceLen+1)} {
		_, err := f.st.Summary(f.ctx, name)
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%q", name)
		_, err = f.st.KeepSummary(f.ctx, name, 0, store.Summary{})
		require.ErrorIs(f, err, batch.ErrInvalidInput, "%q", name)
	}
}

func summaryReopen(f *fixture) {
	want := store.Summary{StatsTurn: store.StatsTurn{Turn: 7}, Text: "text"}
	require.True(f, f.keepSummary("a", 0, want))
	f.reopen()
	assert.Equal(f, want, f.summary("a"))
}
