package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// otherProcessPathEnv is the environment variable with the path of a database. If it is set, the
// test's binary acts as another process on that database.
const otherProcessPathEnv = "DLTBATCH_SQLITE_OTHER"

// TestMain acts as the other process if the variable is set: it does what each line of its input
// says.
func TestMain(m *testing.M) {
	path := os.Getenv(otherProcessPathEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := runAsOtherProcess(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runAsOtherProcess(path string) error {
	db, err := sqliteopen.Open(path)
	if err != nil {
		return err
	}
	s, err := New(db, nil)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := runCommand(context.Background(), s, strings.Fields(in.Text())); err != nil {
			return fmt.Errorf("%s: %w", in.Text(), err)
		}
		fmt.Println("did " + in.Text())
	}
	return db.Close()
}

// runCommand does what a line says. The line is a command, and then a lane, a batch or an order.
func runCommand(ctx context.Context, s *Store, words []string) error {
	by := batch.By{Actor: "somebody", Reason: "a test"}
	one := func(lane batch.ServiceID, id string) batch.Batch {
		return batch.Batch{Service: lane, ID: batch.ID(id), Payload: []byte("p")}
	}
	switch words[0] {
	case "add":
		for _, id := range words[2:] {
			if err := s.Add(ctx, one(batch.ServiceID(words[1]), id)); err != nil {
				return err
			}
		}
		return nil
	case "addtx":
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		return errors.Join(s.Tx(tx).Add(ctx, one(batch.ServiceID(words[1]), words[2])), tx.Commit())
	case "reject":
		got, err := s.Claim(ctx, claimQuery(batch.ServiceID(words[1])), chooseSerially)
		if err != nil {
			return err
		}
		c := got.Runs[0].Batches[0]
		_, err = s.Record(ctx, []store.Outcome{{Ref: c.Ref, Version: c.Version, Finding: store.Refused, By: batch.BySubmitter, Attempt: c.Attempt,
			Error: &batch.SubmissionError{Kind: batch.KindRejected, Message: "no"}}})
		return err
	case "requeue":
		rec, err := s.Get(ctx, batch.Key{Service: batch.ServiceID(words[1]), ID: batch.ID(words[2])})
		if err != nil {
			return err
		}
		_, err = s.Requeue(ctx, rec, store.Requeue{}, by)
		return err
	case "pause":
		_, _, err := s.Steer(ctx, store.Steering{Scope: batch.Everything(), Action: batch.ActionPause, By: by})
		return err
	case "order":
		return s.AddOrders(ctx, order.Order{ID: order.ID(words[2]), Party: batch.ServiceID(words[1]), Payload: []byte("p")})
	case "truncate":
		_, err := s.db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	}
	return fmt.Errorf("what is %q", words)
}

// otherProcess is another process.
type otherProcess struct {
	t           *testing.T
	stdin       io.WriteCloser
	stdout      *bufio.Scanner
	waitForExit func() error
}

func startOtherProcess(t *testing.T, path string) *otherProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), otherProcessPathEnv+"="+path), os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return &otherProcess{t, in, bufio.NewScanner(out), cmd.Wait}
}

// requireRun makes the process do something, and waits until it is done.
func (o *otherProcess) requireRun(line string) {
	o.t.Helper()
	require.NoError(o.t, o.run(line))
}

// run is requireRun for use in any goroutine.
func (o *otherProcess) run(line string) error {
	if _, err := fmt.Fprintln(o.stdin, line); err != nil {
		return err
	}
	for o.stdout.Scan() {
		if o.stdout.Text() == "did "+line {
			return nil
		}
	}
	return fmt.Errorf("the other process ended at %q", line)
}

func (o *otherProcess) requireEnd() {
	o.t.Helper()
	require.NoError(o.t, o.close())
}

// close is requireEnd for use in any goroutine.
func (o *otherProcess) close() error {
	if err := o.stdin.Close(); err != nil {
		return err
	}
	for o.stdout.Scan() {
	}
	return o.waitForExit()
}

// testListener is a call of Hear, with a listener for all topics.
type testListener struct {
	t      *testing.T
	hints  chan store.Hint
	result chan error
}

// startTestListener calls Hear, and returns when hints arrive.
func startTestListener(t *testing.T, s *Store) *testListener {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	e := &testListener{t, make(chan store.Hint, 1000), make(chan error, 1)}
	live, gone := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(gone)
		e.result <- s.Hear(ctx, store.Listener{ID: "me", Wants: store.AllTopics, Heard: func(h store.Hint) { e.hints <- h }, Live: func(string) { live <- struct{}{} }})
	}()
	t.Cleanup(func() { stop(); <-gone })
	select {
	case <-live:
	case err := <-e.result:
		require.Fail(t, "Hear ended", "%v", err)
	}
	return e
}

// hintsUntil returns all hints up to the first for which fits is true.
func (e *testListener) hintsUntil(what string, fits func(store.Hint) bool) (all []store.Hint) {
	e.t.Helper()
	for limit := time.After(time.Minute); ; {
		select {
		case h := <-e.hints:
			if all = append(all, h); fits(h) {
				return all
			}
		case err := <-e.result:
			require.Fail(e.t, "Hear ended", "%v", err)
		case <-limit:
			require.Fail(e.t, "not heard: "+what)
		}
	}
}

func isAboutLane(s batch.ServiceID) func(store.Hint) bool {
	return func(h store.Hint) bool { return slices.Contains(h.Lanes, s) }
}

// A process gets a hint about everything that another process does and that is new to it. The
// commits of the other process suffice for that.
func TestHearAnotherProcess(t *testing.T) {
	s, _, path := newTestStore(t)
	e, o := startTestListener(t, s), startOtherProcess(t, path)
	for _, c := range []struct {
		line string
		fits func(store.Hint) bool
	}{
		{"add lane1 a", isAboutLane("lane1")},
		{"add lane1 b", isAboutLane("lane1")},
		{"addtx lane2 c", isAboutLane("lane2")},
		{"reject lane1", func(h store.Hint) bool { return slices.Contains(h.Finals, store.KeyHash("lane1", "a")) }},
		{"requeue lane1 a", isAboutLane("lane1")},
		{"pause", func(h store.Hint) bool { return h.WholeTopics.Has(store.TopicLanes) }},
		{"order party d", func(h store.Hint) bool { return h.WholeTopics.Has(store.TopicOrders) }},
		{"truncate", nil},
		{"add lane3 e", isAboutLane("lane3")}, // in a log that SQLite began anew
	} {
		o.requireRun(c.line)
		if c.fits != nil {
			e.hintsUntil(c.line, c.fits)
		}
	}
	o.requireEnd()
}

// A store does not name a lane to which only it has added, because the caller of its Add has named
// the lane.
func TestHearNothingOfOwnAdds(t *testing.T) {
	s, _, path := newTestStore(t)
	e, o := startTestListener(t, s), startOtherProcess(t, path)
	require.NoError(t, s.Add(t.Context(), newBatch("own", 1), newBatch("own", 2)))
	o.requireRun("add theirs a")
	require.NoError(t, s.Add(t.Context(), newBatch("own", 3)))
	o.requireRun("add last b")
	var lanes []batch.ServiceID
	for _, h := range e.hintsUntil("last", isAboutLane("last")) {
		lanes = append(lanes, h.Lanes...)
	}
	assert.Contains(t, lanes, batch.ServiceID("theirs"))
	assert.NotContains(t, lanes, batch.ServiceID("own"))
	assert.Equal(t, []numberSpan{{3, 3}, {5, 5}}, s.ownSpans.gaps(1, 5))
	o.requireEnd()
}

// The last connection that is closed removes the log. The next connection makes another log, and
// Hear notices writes to it.
func TestHearThroughALogThatIsMadeAnew(t *testing.T) {
	s, _, path := newTestStore(t)
	s.db.SetMaxIdleConns(-1) // the pool keeps no idle connection
	e := startTestListener(t, s)
	for i := range 3 {
		o := startOtherProcess(t, path)
		line := fmt.Sprintf("add lane%d batch%d", i, i)
		o.requireRun(line)
		o.requireEnd()
		e.hintsUntil(line, isAboutLane(batch.ServiceID(fmt.Sprint("lane", i))))
	}
}

// Hear returns when the file was replaced, since nothing in the new file concerns this store.
func TestHearEndsWithItsFile(t *testing.T) {
	s, _, path := newTestStore(t)
	e := startTestListener(t, s)
	require.NoError(t, os.Rename(path, path+".old"))
	select {
	case err := <-e.result:
		var gone *FileError
		require.ErrorAs(t, err, &gone)
	case <-time.After(time.Minute):
		require.Fail(t, "it goes on")
	}
}

// For a database in memory Hear is not supported, because no other process can write to it.
func TestHearInMemory(t *testing.T) {
	db, err := sqliteopen.Open(sqliteopen.Memory)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	s, err := New(db, nil)
	require.NoError(t, err)
	assert.False(t, s.Abilities().Has(store.CanHint))
	require.ErrorIs(t, s.Hear(t.Context(), store.Listener{}), store.ErrUnsupported)
	require.ErrorIs(t, s.Tell(t.Context(), store.Hint{}), store.ErrUnsupported)
}

// The store tells its own additions from those of others by their numbers.
func TestGaps(t *testing.T) {
	var s ownSpans
	assert.Equal(t, []numberSpan{{1, 9}}, s.gaps(1, 9))
	assert.Empty(t, s.gaps(1, 0))
	s.add([]numberSpan{{2, 3}})
	s.add([]numberSpan{{4, 4}, {7, 8}})
	assert.Equal(t, []numberSpan{{1, 1}, {5, 6}, {9, 9}}, s.gaps(1, 9))
	assert.Empty(t, s.gaps(2, 4))
	assert.Equal(t, []numberSpan{{5, 6}}, s.gaps(3, 7))
	s.add([]numberSpan{{9, 12}})
	s.remove([]numberSpan{{9, 12}}) // a part of a longer span
	assert.Equal(t, []numberSpan{{1, 1}, {5, 6}, {9, 9}}, s.gaps(1, 9))
	for i := range int64(2 * maxSpans) {
		s.add([]numberSpan{{10 + 2*i, 10 + 2*i}})
	}
	assert.LessOrEqual(t, len(s.all), maxSpans)
	assert.Len(t, s.gaps(9, 5000), 1, "too many to read one by one")
}
