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

// exchange is a server that only passes notifications on.
type exchange struct {
	conns.Pool
	mu       sync.Mutex
	sessions map[*hearer]bool
	opened   int
	told     []string
	deaf     bool // true if LISTEN is carried out on another connection
}

var errGone = errors.New("terminated")

func (x *exchange) Acquire(context.Context) (conns.Conn, error) { return teller{x: x}, nil }

func (x *exchange) Listen(context.Context) (conns.Listener, string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := &hearer{x, make(chan string, 1000), make(chan struct{})}
	x.sessions[h] = true
	x.opened++
	return h, "the exchange", nil
}

// end closes all sessions, as a server does when it stops.
func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for h := range x.sessions {
		close(h.gone)
		delete(x.sessions, h)
	}
}

func (x *exchange) open() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.sessions)
}

func (x *exchange) silence(deaf bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deaf = deaf
}

type teller struct {
	conns.Conn
	x *exchange
}

func (c teller) Exec(_ context.Context, _ string, args ...any) (int64, error) {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	c.x.told = append(c.x.told, args[1].(string))
	for h := range c.x.sessions {
		if !c.x.deaf {
			h.heard <- args[1].(string)
		}
	}
	return 1, nil
}

func (teller) Release() {}

type hearer struct {
	x     *exchange
	heard chan string
	gone  chan struct{}
}

func (h *hearer) Listen(context.Context, string) error { return nil }

func (h *hearer) Next(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-h.gone:
		return "", errGone
	case p := <-h.heard:
		return p, nil
	}
}

func (h *hearer) Close(error) {
	h.x.mu.Lock()
	defer h.x.mu.Unlock()
	delete(h.x.sessions, h)
}

// ofTest is the listener of a test.
type ofTest struct {
	mu    sync.Mutex
	lives int
	heard []store.Hint
	ended chan error
}

func (s *Store) forTest(ctx context.Context, id string, wants store.Topics) *ofTest {
	o := &ofTest{ended: make(chan error, 1)}
	go func() {
		o.ended <- s.Hear(ctx, store.Listener{
			ID: id, Wants: wants,
			Heard: func(h store.Hint) { o.mu.Lock(); defer o.mu.Unlock(); o.heard = append(o.heard, h) },
			Live:  func(string) { o.mu.Lock(); defer o.mu.Unlock(); o.lives++ },
		})
	}()
	return o
}

func (o *ofTest) now() (lives int, heard []store.Hint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lives, o.heard
}

func onExchange(t *testing.T) (*Store, *exchange) {
	x := &exchange{sessions: map[*hearer]bool{}}
	s, _, err := Over(x, nil)
	require.NoError(t, err)
	return s, x
}

// All listeners of a store share one session. The session tests itself each minute, tells other
// processes of each listener, and goes on for a moment after the last listener has gone.
func TestListenersShareASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x := onExchange(t)
		ctx, stop := context.WithCancel(t.Context())
		first := s.forTest(ctx, "first", store.TopicLanes)
		synctest.Wait()
		second := s.forTest(ctx, "second", store.TopicFinals)
		synctest.Wait()
		assert.Equal(t, 1, x.opened)
		for _, o := range []*ofTest{first, second} {
			lives, _ := o.now()
			assert.Equal(t, 1, lives)
		}
		_, heard := first.now()
		assert.Contains(t, heard, store.Hint{From: "second", Hears: store.TopicFinals})
		require.NoError(t, s.Tell(ctx, store.Hint{From: "second", WholeTopics: store.TopicLanes}))
		require.NoError(t, s.Tell(ctx, store.Hint{From: "first", WholeTopics: store.AllTopics}))
		synctest.Wait()
		_, heard = first.now()
		assert.Equal(t, store.Hint{From: "second", WholeTopics: store.TopicLanes}, heard[len(heard)-1])
		_, heard = second.now()
		assert.Equal(t, store.Hint{From: "first", WholeTopics: store.AllTopics}, heard[len(heard)-1])
		time.Sleep(10*time.Minute + time.Second)
		lives, _ := first.now()
		assert.Equal(t, 11, lives)
		assert.Len(t, x.told, 2+2*11)
		stop()
		require.ErrorIs(t, <-first.ended, context.Canceled)
		require.ErrorIs(t, <-second.ended, context.Canceled)

		again := s.forTest(t.Context(), "first", store.TopicLanes)
		synctest.Wait()
		lives, _ = again.now()
		assert.Equal(t, 1, lives, "at once: the session was tested within the minute")
		assert.Len(t, x.told, 2+2*11)
		x.end()
		require.ErrorIs(t, <-again.ended, errGone)
		time.Sleep(pauseAfterLoss)
		ctx, stop = context.WithCancel(t.Context())
		last := s.forTest(ctx, "first", store.TopicLanes)
		synctest.Wait()
		assert.Equal(t, 2, x.opened)
		stop()
		<-last.ended
		time.Sleep(sessionLinger + time.Second)
		assert.Zero(t, x.open(), "nobody listens")
	})
}

// A test finds out if notifications never arrive, or do not arrive any more.
func TestASessionThatIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, x := onExchange(t)
		x.silence(true)
		began := time.Now()
		o := s.forTest(t.Context(), "runs", store.TopicLanes)
		require.ErrorIs(t, <-o.ended, ErrDeaf)
		assert.Equal(t, hearTestLimit, time.Since(began))
		lives, _ := o.now()
		assert.Zero(t, lives)
		assert.Zero(t, x.open())
		require.ErrorIs(t, s.Hear(t.Context(), store.Listener{ID: "runs"}), ErrDeaf)
		assert.Equal(t, 1, x.opened, "no other session so soon: it would be as deaf")

		time.Sleep(pauseWhenDeaf)
		x.silence(false)
		o = s.forTest(t.Context(), "runs", store.TopicLanes)
		time.Sleep(10 * time.Second)
		lives, _ = o.now()
		assert.Equal(t, 1, lives)
		x.silence(true) // the connection hangs
		since := time.Now()
		err := <-o.ended
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
