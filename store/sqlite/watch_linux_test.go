package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store"
)

// A watch loses no event: neither an event that comes together with that of the watch's own test,
// nor one that comes after a wait has ended without an event.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	f := &databaseFiles{path: filepath.Join(dir, "q.db")}
	write := func(path string) { require.NoError(t, os.WriteFile(path, []byte("x"), 0o600)) }
	write(f.path)
	w, err := newWatch(f)
	require.NoError(t, err)
	see := func(want observation, d time.Duration) {
		t.Helper()
		saw, err := w.wait(d)
		require.NoError(t, err)
		assert.Equal(t, want, saw)
	}
	see(observation{}, time.Millisecond)
	see(observation{}, 0)
	write(f.logPath())
	see(observation{isWritten: true}, 0)
	require.NoError(t, w.touch())
	see(observation{isTouched: true}, time.Minute)
	write(f.path)
	require.NoError(t, w.touch())
	see(observation{isWritten: true, isTouched: true}, time.Minute)
	write(filepath.Join(dir, "another.db"))
	see(observation{}, time.Millisecond)
	see(observation{}, -time.Second)
	require.NoError(t, os.Remove(f.logPath()))
	require.NoError(t, w.touch())
	see(observation{isWritten: true, isTouched: true}, time.Minute)

	time.AfterFunc(time.Millisecond, w.close)
	_, err = w.wait(time.Minute)
	require.Error(t, err, "it is closed")
	_, err = w.wait(0)
	require.Error(t, err, "it is closed")
}

// Hear reports a commit even if its event came together with the event of a test.
func TestHearDuringTheTest(t *testing.T) {
	s, _, path := newTestStore(t)
	w, err := newWatch(s.files)
	require.NoError(t, err)
	e := &testListener{t, make(chan store.Hint, 1000), make(chan error, 1)}
	h := &hearCall{store: s, watch: w, listener: store.Listener{Wants: store.AllTopics, Heard: func(h store.Hint) { e.hints <- h }, Live: func(string) {}}}
	require.NoError(t, h.readNews(t.Context()))
	o := startOtherProcess(t, path)
	o.requireRun("add lane1 a")
	go func() { e.result <- h.listen(t.Context()) }()
	e.hintsUntil("the commit before the test", isAboutLane("lane1"))
	w.close()
	require.Error(t, <-e.result)
	o.requireEnd()
}
