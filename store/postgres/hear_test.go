package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// notifyServer is a server that only passes notifications on.
type notifyServer struct {
	conns.Pool
	mu             sync.Mutex
	sessions       map[*fakeListener]bool
	openedSessions int
	toldPayloads   []string
	isDeaf         bool // true if LISTEN is carried out on another connection
}

var errSessionTerminated = errors.New("terminated")

func (x *notifyServer) Acquire(context.Context) (conns.Conn, error) {
	return notifyConn{server: x}, nil
}

func (x *notifyServer) Listen(context.Context) (conns.Listener, string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := &fakeListener{x, make(chan string, 1000), make(chan struct{})}
	x.sessions[h] = true
	x.openedSessions++
	return h, "the exchange", nil
}

// endSessions closes all sessions, as a server does when it stops.
func (x *notifyServer) endSessions() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for h := range x.sessions {
		close(h.ended)
		delete(x.sessions, h)
	}
}

func (x *notifyServer) openSessions() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.sessions)
}

func (x *notifyServer) setDeaf(deaf bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.isDeaf = deaf
}

type notifyConn struct {
	conns.Conn
	server *notifyServer
}

func (c notifyConn) Exec(_ context.Context, _ string, args ...any) (int64, error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.toldPayloads = append(c.server.toldPayloads, args[1].(string))
	for h := range c.server.sessions {
		if !c.server.isDeaf {
			h.payloads <- args[1].(string)
		}
	}
	return 1, nil
}

func (notifyConn) Release() {}

type fakeListener struct {
	server   *notifyServer
	payloads chan string
	ended    chan struct{}
}

func (h *fakeListener) Listen(context.Context, string) error { return nil }

func (h *fakeListener) Next(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-h.ended:
		return "", errSessionTerminated
	case p := <-h.payloads:
		return p, nil
	}
}

func (h *fakeListener) Close(error) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	delete(h.server.sessions, h)
}

// testListener is the listener of a test.
type testListener struct {
	mu        sync.Mutex
	liveCalls int
	hints     []store.Hint
	result    chan error
}

func (s *Store) startTestListener(ctx context.Context, id string, wants store.Topics) *testListener {
	o := &testListener{result: make(chan error, 1)}
	go func() {
		o.result <- s.Hear(ctx, store.Listener{
			ID: id, Wants: wants,
			Heard: func(h store.Hint) { o.mu.Lock(); defer o.mu.Unlock(); o.hints = append(o.hints, h) },
			Live:  func(string) { o.mu.Lock(); defer o.mu.Unlock(); o.liveCalls++ },
		})
	}()
	return o
}

func (o *testListener) seen() (lives int, heard []store.Hint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.liveCalls, o.hints
}

func newStoreOnNotifyServer(t *testing.T) (*Store, *notifyServer) {
	x := &notifyServer{sessions: map[*fakeListener]bool{}}
	s, _, err := Over(x, nil)
	require.NoError(t, err)
	return s, x
}

// All listeners of a store share one session. The session tests itself each minute, tells other
// processes of each listener, and goes on for a moment after the last listener has gone.
func TestListenersShareASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x := newStoreOnNotifyServer(t)
		ctx, stop := context.WithCancel(t.Context())
		first := s.startTestListener(ctx, "first", store.TopicLanes)
		synctest.Wait()
		second := s.startTestListener(ctx, "second", store.TopicFinals)
		synctest.Wait()
		assert.Equal(t, 1, x.openedSessions)
		for _, o := range []*testListener{first, second} {
			lives, _ := o.seen()
			assert.Equal(t, 1, lives)
		}
		_, heard := first.seen()
		assert.Contains(t, heard, store.Hint{From: "second", Hears: store.TopicFinals})
		require.NoError(t, s.Tell(ctx, store.Hint{From: "second", WholeTopics: store.TopicLanes}))
		require.NoError(t, s.Tell(ctx, store.Hint{From: "first", WholeTopics: store.AllTopics}))
		synctest.Wait()
		_, heard = first.seen()
		assert.Equal(t, store.Hint{From: "second", WholeTopics: store.TopicLanes}, heard[len(heard)-1])
		_, heard = second.seen()
		assert.Equal(t, store.Hint{From: "first", WholeTopics: store.AllTopics}, heard[len(heard)-1])
		time.Sleep(10*time.Minute + time.Second)
		lives, _ := first.seen()
		assert.Equal(t, 11, lives)
		assert.Len(t, x.toldPayloads, 2+2*11)
		stop()
		require.ErrorIs(t, <-first.result, context.Canceled)
		require.ErrorIs(t, <-second.result, context.Canceled)

		again := s.startTestListener(t.Context(), "first", store.TopicLanes)
		synctest.Wait()
		lives, _ = again.seen()
		assert.Equal(t, 1, lives, "at once: the session was tested within the minute")
		assert.Len(t, x.toldPayloads, 2+2*11)
		x.endSessions()
		require.ErrorIs(t, <-again.result, errSessionTerminated)
		time.Sleep(pauseAfterLoss)
		ctx, stop = context.WithCancel(t.Context())
		last := s.startTestListener(ctx, "first", store.TopicLanes)
		synctest.Wait()
		assert.Equal(t, 2, x.openedSessions)
		stop()
		<-last.result
		time.Sleep(sessionLinger + time.Second)
		assert.Zero(t, x.openSessions(), "nobody listens")
	})
}

// A test finds out if notifications never arrive, or do not arrive any more.
func TestASessionThatIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x := newStoreOnNotifyServer(t)
		x.setDeaf(true)
		began := time.Now()
		o := s.startTestListener(t.Context(), "runs", store.TopicLanes)
		require.ErrorIs(t, <-o.result, ErrDeaf)
		assert.Equal(t, hearTestLimit, time.Since(began))
		lives, _ := o.seen()
		assert.Zero(t, lives)
		assert.Zero(t, x.openSessions())
		require.ErrorIs(t, s.Hear(t.Context(), store.Listener{ID: "runs"}), ErrDeaf)
		assert.Equal(t, 1, x.openedSessions, "no other session so soon: it would be as deaf")

		time.Sleep(pauseWhenDeaf)
		x.setDeaf(false)
		o = s.startTestListener(t.Context(), "runs", store.TopicLanes)
		time.Sleep(10 * time.Second)
		lives, _ = o.seen()
		assert.Equal(t, 1, lives)
		x.setDeaf(true) // the connection hangs
		since := time.Now()
		err := <-o.result
		require.ErrorIs(t, err, errStalled)
		require.NotErrorIs(t, err, ErrDeaf, "no pooler is between: it worked before")
		assert.LessOrEqual(t, time.Since(since), hearTestInterval+hearTestLimit)
	})
}

// Each schema, with each prefix, has its own channel, and PostgreSQL accepts the channel's name.
func TestChannels(t *testing.T) {
	seen := map[string]bool{}
	for _, n := range []names{
		{"dltbatch", ""}, {"dltbatch", "a"}, {"dltbatcha", ""}, {strings.Repeat("s", 63), ""},
		{strings.Repeat("s", 63), strings.Repeat("p", 30)}, {strings.Repeat("s", 62) + "t", strings.Repeat("p", 30)},
	} {
		assert.LessOrEqual(t, len(n.channel()), 63)
		seen[n.channel()] = true
	}
	assert.Len(t, seen, 6)
	assert.Equal(t, "dltbatch:dltbatch:", names{"dltbatch", ""}.channel())
}
