package storetest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func hintTests() []test {
	return []test{
		{name: "a listener hears of what another told after its Add", run: heardLanes},
		{name: "a listener hears of batches that became final", run: heardFinals},
		{name: "names that are too long for a hint are heard all the same", run: heardLongNames},
		{name: "several listeners hear the same hint", run: heardByAll},
		{name: "a listener ends with its context", run: hearingEnds},
	}
}

// ear is a listener of a test.
type ear struct {
	f     *fixture
	heard chan store.Hint
	ended chan error
	stop  context.CancelFunc
}

// listen begins to hear, and waits until hints arrive.
func (f *fixture) listen(id string, wants store.Topics) *ear {
	f.Helper()
	ctx, stop := context.WithCancel(f.ctx)
	e := &ear{f, make(chan store.Hint, 100), make(chan error, 1), stop}
	live := make(chan string, 100)
	l := store.Listener{ID: id, Wants: wants, Heard: func(h store.Hint) { e.heard <- h }, Live: func(way string) { live <- way }}
	go func() { e.ended <- f.st.Hear(ctx, l) }()
	f.Cleanup(stop)
	select {
	case way := <-live:
		require.NotEmpty(f, way, "Live does not say how hints arrive")
	case err := <-e.ended:
		require.FailNow(f, "Hear ended before it was live", "%v", err)
	case <-time.After(patience):
		require.FailNow(f, "Hear is not live")
	}
	return e
}

// until returns the first hint that fits; the others say too much, or who listens.
func (e *ear) until(fits func(store.Hint) bool) store.Hint {
	e.f.Helper()
	limit := time.After(patience)
	for {
		select {
		case h := <-e.heard:
			if fits(h) {
				return h
			}
		case <-limit:
			require.FailNow(e.f, "the hint did not arrive")
		}
	}
}

func (e *ear) end() {
	e.f.Helper()
	e.stop()
	select {
	case err := <-e.ended:
		require.ErrorIs(e.f, err, context.Canceled)
	case <-time.After(patience):
		require.FailNow(e.f, "Hear does not end")
	}
}

// about reports whether a hint covers a lane.
func about(s batch.ServiceID) func(store.Hint) bool {
	return func(h store.Hint) bool {
		return slices.Contains(h.Lanes, s) || h.Many.Has(store.TopicLanes)
	}
}

func heardLanes(f *fixture) {
	e := f.listen("runs", store.TopicLanes)
	require.NoError(f, f.st.Add(f.ctx, bt("s", "a")))
	require.NoError(f, f.st.Tell(f.ctx, store.Hint{From: "adds", Lanes: []batch.ServiceID{"s"}}))
	e.until(about("s"))
	e.end()
}

func heardFinals(f *fixture) {
	e := f.listen("waits", store.TopicFinals|store.TopicOrderFinals)
	require.NoError(f, f.st.Add(f.ctx, bt("s", "a")))
	hash := store.KeyHash("s", "a")
	require.NoError(f, f.st.Tell(f.ctx, store.Hint{From: "runs", Finals: []uint64{hash}}))
	e.until(func(h store.Hint) bool {
		return h.Many.Has(store.TopicFinals) || len(h.Finals) == 1 && h.Finals[0] == hash
	})
	e.end()
}

func heardLongNames(f *fixture) {
	e := f.listen("runs", store.TopicLanes)
	var lanes []batch.ServiceID
	for range 40 {
		lanes = append(lanes, batch.ServiceID(strings.Repeat("\"🚢", batch.MaxIDLen/5)))
	}
	lanes = append(lanes, "last")
	require.NoError(f, f.st.Add(f.ctx, bt("last", "a")))
	for range 40 {
		require.NoError(f, f.st.Tell(f.ctx, store.Hint{From: "adds", Lanes: lanes, Finals: make([]uint64, 2000)}))
	}
	e.until(about("last"))
	e.end()
}

func heardByAll(f *fixture) {
	first, second := f.listen("first", store.TopicLanes), f.listen("second", store.TopicLanes)
	require.NoError(f, f.st.Add(f.ctx, bt("s", "a")))
	require.NoError(f, f.st.Tell(f.ctx, store.Hint{From: "adds", Lanes: []batch.ServiceID{"s"}}))
	first.until(about("s"))
	second.until(about("s"))
	first.end()
	require.NoError(f, f.st.Add(f.ctx, bt("t", "b")))
	require.NoError(f, f.st.Tell(f.ctx, store.Hint{From: "adds", Lanes: []batch.ServiceID{"t"}}))
	second.until(about("t"))
	second.end()
}

func hearingEnds(f *fixture) {
	e := f.listen("runs", store.TopicLanes)
	e.end()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	require.ErrorIs(f, f.st.Hear(ctx, store.Listener{ID: "runs", Heard: func(store.Hint) {}, Live: func(string) {}}), context.Canceled)
	require.ErrorIs(f, f.st.Tell(ctx, store.Hint{Many: store.TopicLanes}), context.Canceled)
}
