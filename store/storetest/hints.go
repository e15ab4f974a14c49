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
		{name: "a listener hears of what another told after its Add", run: testHeardLanes},
		{name: "a listener hears of batches that became final", run: testHeardFinals},
		{name: "names that are too long for a hint are heard all the same", run: testHeardLongNames},
		{name: "several listeners hear the same hint", run: testHeardByAll},
		{name: "a listener ends with its context", run: testHearingEnds},
	}
}

// testListener is the listener of a test.
type testListener struct {
	fixture *fixture
	hints   chan store.Hint
	result  chan error
	stop    context.CancelFunc
}

// listen begins to listen, and waits until hints arrive.
func (f *fixture) listen(id string, wants store.Topics) *testListener {
	f.Helper()
	ctx, stop := context.WithCancel(f.ctx)
	e := &testListener{f, make(chan store.Hint, 100), make(chan error, 1), stop}
	live := make(chan string, 100)
	l := store.Listener{ID: id, Wants: wants, Heard: func(h store.Hint) { e.hints <- h }, Live: func(way string) { live <- way }}
	go func() { e.result <- f.store.Hear(ctx, l) }()
	f.Cleanup(stop)
	select {
	case way := <-live:
		require.NotEmpty(f, way, "Live does not say how hints arrive")
	case err := <-e.result:
		require.FailNow(f, "Hear ended before it was live", "%v", err)
	case <-time.After(testTimeLimit):
		require.FailNow(f, "Hear is not live")
	}
	return e
}

// hintThat returns the first hint for which fits is true. Other hints may name more, or be about
// listeners.
func (e *testListener) hintThat(fits func(store.Hint) bool) store.Hint {
	e.fixture.Helper()
	limit := time.After(testTimeLimit)
	for {
		select {
		case h := <-e.hints:
			if fits(h) {
				return h
			}
		case <-limit:
			require.FailNow(e.fixture, "the hint did not arrive")
		}
	}
}

func (e *testListener) end() {
	e.fixture.Helper()
	e.stop()
	select {
	case err := <-e.result:
		require.ErrorIs(e.fixture, err, context.Canceled)
	case <-time.After(testTimeLimit):
		require.FailNow(e.fixture, "Hear does not end")
	}
}

// isAbout returns a func that reports whether a hint covers a lane.
func isAbout(s batch.ServiceID) func(store.Hint) bool {
	return func(h store.Hint) bool {
		return slices.Contains(h.Lanes, s) || h.WholeTopics.Has(store.TopicLanes)
	}
}

func testHeardLanes(f *fixture) {
	e := f.listen("runs", store.TopicLanes)
	require.NoError(f, f.store.Add(f.ctx, newBatch("s", "a")))
	require.NoError(f, f.store.Tell(f.ctx, store.Hint{From: "adds", Lanes: []batch.ServiceID{"s"}}))
	e.hintThat(isAbout("s"))
	e.end()
}

func testHeardFinals(f *fixture) {
	e := f.listen("waits", store.TopicFinals|store.TopicOrderFinals)
	require.NoError(f, f.store.Add(f.ctx, newBatch("s", "a")))
	hash := store.KeyHash("s", "a")
	require.NoError(f, f.store.Tell(f.ctx, store.Hint{From: "runs", Finals: []uint64{hash}}))
	e.hintThat(func(h store.Hint) bool {
		return h.WholeTopics.Has(store.TopicFinals) || len(h.Finals) == 1 && h.Finals[0] == hash
	})
	e.end()
}

func testHeardLongNames(f *fixture) {
	e := f.listen("runs", store.TopicLanes)
	var lanes []batch.ServiceID
	for range 40 {
		lanes = append(lanes, batch.ServiceID(strings.Repeat("\"🚢", batch.MaxIDLen/5)))
	}
	lanes = append(lanes, "last")
	require.NoError(f, f.store.Add(f.ctx, newBatch("last", "a")))
	for range 40 {
		require.NoError(f, f.store.Tell(f.ctx, store.Hint{From: "adds", Lanes: lanes, Finals: make([]uint64, 2000)}))
	}
	e.hintThat(isAbout("last"))
	e.end()
}

func testHeardByAll(f *fixture) {
	first, second := f.listen("first", store.TopicLanes), f.listen("second", store.TopicLanes)
	require.NoError(f, f.store.Add(f.ctx, newBatch("s", "a")))
	require.NoError(f, f.store.Tell(f.ctx, store.Hint{From: "adds", Lanes: []batch.ServiceID{"s"}}))
	first.hintThat(isAbout("s"))
	second.hintThat(isAbout("s"))
	first.end()
	require.NoError(f, f.store.Add(f.ctx, newBatch("t", "b")))
	require.NoError(f, f.store.Tell(f.ctx, store.Hint{From: "adds", Lanes: []batch.ServiceID{"t"}}))
	second.hintThat(isAbout("t"))
	second.end()
}

func testHearingEnds(f *fixture) {
	e := f.listen("runs", store.TopicLanes)
	e.end()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	require.ErrorIs(f, f.store.Hear(ctx, store.Listener{ID: "runs", Heard: func(store.Hint) {}, Live: func(string) {}}), context.Canceled)
	require.ErrorIs(f, f.store.Tell(ctx, store.Hint{WholeTopics: store.TopicLanes}), context.Canceled)
}
