package sawtooth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// startWebsocketNode returns a node whose websocket does what speak does, and then reads until the
// client leaves. The channel gets each message that the node reads.
func startWebsocketNode(t *testing.T, speak func(ctx context.Context, c *websocket.Conn)) (*httptest.Server, <-chan string) {
	t.Helper()
	heard := make(chan string, 100)
	var served sync.WaitGroup
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		defer served.Done()
		assert.Equal(t, "/prefix/subscriptions", r.URL.Path)
		assert.Equal(t, "Bearer "+secret, r.Header.Get("Authorization"))
		c, err := websocket.Accept(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		defer func() { _ = c.CloseNow() }()
		ctx := context.WithoutCancel(r.Context())
		_, text, err := c.Read(ctx)
		if !assert.NoError(t, err) {
			return
		}
		heard <- string(text)
		speak(ctx, c)
		for {
			_, text, err := c.Read(ctx)
			if err != nil {
				return
			}
			heard <- string(text)
		}
	}))
	t.Cleanup(func() { node.Close(); served.Wait() })
	return node, heard
}

func sendMessages(t *testing.T, ctx context.Context, c *websocket.Conn, messages ...string) {
	t.Helper()
	for _, m := range messages {
		assert.NoError(t, c.Write(ctx, websocket.MessageText, []byte(m)))
	}
}

func blockMessage(id, previous int, more string) string {
	return fmt.Sprintf(`{"block_id":"%0128x","block_num":"%d","previous_block_id":"%0128x","state_changes":[]%s}`, id, id, previous, more)
}

// startEvents opens a stream, whose events come out of the channel. stop ends it, and returns its
// error.
func startEvents(t *testing.T, c *sawtooth.Client) (events <-chan dlt.Event, ended <-chan error, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan dlt.Event, 100), make(chan error, 1)
	go func() {
		done <- c.Events(ctx, nil, func(e dlt.Event) error { out <- e; return nil })
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return out, done, func() error { cancel(); return receiveSoon(t, done) }
}

func receiveSoon[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		require.FailNow(t, "it never came")
		panic("unreachable")
	}
}

func newStreamClient(t *testing.T, node *httptest.Server, o sawtooth.Options) *sawtooth.Client {
	o.Header = secretHeader()
	return newClient(t, node.URL+"/prefix/", &o)
}

// Only the answer to a ping, or an event, which may never come, acknowledges a subscription. At
// its end the client unsubscribes.
func TestEventsOnTheWire(t *testing.T) {
	node, heard := startWebsocketNode(t, func(context.Context, *websocket.Conn) {})
	events, _, stop := startEvents(t, newStreamClient(t, node, sawtooth.Options{}))
	assert.JSONEq(t, `{"action":"subscribe","address_prefixes":["`+strings.Repeat("f", 70)+`"]}`, receiveSoon(t, heard))
	assert.Equal(t, dlt.Event{Live: true}, receiveSoon(t, events))
	require.NoError(t, stop())
	assert.JSONEq(t, `{"action":"unsubscribe"}`, receiveSoon(t, heard))
	assert.Empty(t, events)
}

// Every block is an event without Live. Only a gap in the chain of blocks is an event with Live.
func TestEventsOfBlocks(t *testing.T) {
	next := make(chan string)
	node, _ := startWebsocketNode(t, func(ctx context.Context, c *websocket.Conn) {
		go func() { // pings are answered only while somebody reads, which speak does not do
			for m := range next {
				_ = c.Write(ctx, websocket.MessageText, []byte(m))
			}
		}()
	})
	defer close(next)
	events, ended, stop := startEvents(t, newStreamClient(t, node, sawtooth.Options{}))
	assert.Equal(t, dlt.Event{Live: true}, receiveSoon(t, events))
	for _, c := range []struct {
		name, say string
		want      []dlt.Event
	}{
		{"the head", blockMessage(8, 7, ""), []dlt.Event{{}}},
		{"a block", blockMessage(9, 8, ""), []dlt.Event{{}}},
		{"a false alarm", blockMessage(10, 9, `,"fork_detected":true`), []dlt.Event{{}}},
		{"a warning", `{"warning":"Validator unavailable"}`, nil},
		{"the same again", blockMessage(10, 9, ""), nil},
		{"after a gap", blockMessage(12, 11, ""), []dlt.Event{{Live: true}}},
		{"on", blockMessage(13, 12, ""), []dlt.Event{{}}},
		{"a fork that nobody calls one", blockMessage(99, 12, ""), []dlt.Event{{Live: true}}},
	} {
		next <- c.say
		for _, want := range c.want {
			assert.Equal(t, want, receiveSoon(t, events), c.name)
		}
	}
	assert.Empty(t, events)
	assert.Empty(t, ended)
	require.NoError(t, stop())
}

func TestEventsThatEndTheStream(t *testing.T) {
	for name, speak := range map[string]func(context.Context, *websocket.Conn){
		"an error": func(ctx context.Context, c *websocket.Conn) {
			sendMessages(t, ctx, c, `{"error":"Unknown action `+secret+`"}`)
		},
		"no JSON":   func(ctx context.Context, c *websocket.Conn) { sendMessages(t, ctx, c, `{"block_id":`+secret) },
		"something": func(ctx context.Context, c *websocket.Conn) { sendMessages(t, ctx, c, `{"hello":1}`) },
		"a number":  func(ctx context.Context, c *websocket.Conn) { sendMessages(t, ctx, c, `1`) },
		"too much": func(ctx context.Context, c *websocket.Conn) {
			sendMessages(t, ctx, c, blockMessage(1, 0, strings.Repeat(" ", 100_000)))
		},
		"closed":        func(_ context.Context, c *websocket.Conn) { _ = c.Close(websocket.StatusNormalClosure, secret) },
		"cut":           func(_ context.Context, c *websocket.Conn) { _ = c.CloseNow() },
		"not even text": func(ctx context.Context, c *websocket.Conn) { _ = c.Write(ctx, websocket.MessageBinary, []byte("{}")) },
	} {
		t.Run(name, func(t *testing.T) {
			node, _ := startWebsocketNode(t, speak)
			_, ended, _ := startEvents(t, newStreamClient(t, node, sawtooth.Options{MaxResponse: 50_000}))
			err := receiveSoon(t, ended)
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			requireNoSecrets(t, err)
		})
	}
}

// A stream ends when the node sends nothing and does not answer a ping.
func TestEventsOfADeadNode(t *testing.T) {
	release := make(chan struct{})
	node, _ := startWebsocketNode(t, func(context.Context, *websocket.Conn) { <-release })
	t.Cleanup(func() { close(release) })
	begin := time.Now()
	events, ended, _ := startEvents(t, newStreamClient(t, node, sawtooth.Options{KeepAlive: 50 * time.Millisecond}))
	require.Error(t, receiveSoon(t, ended))
	assert.Empty(t, events, "nothing shows that the subscription stands")
	assert.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)
}

// A slow yield does not end the stream, because pongs are read in the meantime. The blocks of that
// time are one event.
func TestEventsAndASlowYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := sawtoothtest.Listen(&sawtoothtest.Options{InMemory: true, BlockInterval: time.Second})
		require.NoError(t, err)
		defer n.Close()
		c := newClient(t, "http://node", &sawtooth.Options{Client: n.Client()})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls []time.Duration
		begin := time.Now()
		done := make(chan error, 1)
		go func() {
			done <- c.Events(ctx, nil, func(dlt.Event) error {
				calls = append(calls, time.Since(begin))
				if len(calls) == 1 {
					time.Sleep(time.Hour)
				}
				return nil
			})
		}()
		for i := range 20 {
			b := settingBatch(t, fmt.Sprint("n", i))
			require.NoError(t, c.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * time.Hour)
		cancel()
		require.NoError(t, <-done)
		require.Len(t, calls, 2)
		assert.GreaterOrEqual(t, calls[1], time.Hour)
	})
}

func TestEventsYield(t *testing.T) {
	node, _ := startWebsocketNode(t, func(ctx context.Context, c *websocket.Conn) { sendMessages(t, ctx, c, blockMessage(1, 0, "")) })
	enough := errors.New("enough")
	got := newStreamClient(t, node, sawtooth.Options{}).Events(context.Background(), nil, func(dlt.Event) error { return enough })
	assert.Same(t, enough, got, "as it is")
	assert.PanicsWithValue(t, "boom", func() {
		_ = newStreamClient(t, node, sawtooth.Options{}).Events(context.Background(), nil, func(dlt.Event) error { panic("boom") })
	})
}

func TestEventsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		wantKind batch.ErrorKind
	}{
		"401": {401, batch.KindMisconfigured}, "403": {403, batch.KindMisconfigured}, "404": {404, batch.KindMisconfigured},
		"302": {302, batch.KindMisconfigured}, "429": {429, batch.KindBusy}, "503": {503, batch.KindDoubt}, "200": {200, batch.KindDoubt},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte("no " + secret))
			}))
			defer node.Close()
			err := newStreamClient(t, node, sawtooth.Options{}).Events(context.Background(), nil, func(dlt.Event) error { return nil })
			assert.Equal(t, c.wantKind, dlt.Kind(err), "%v", err)
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, c.status, e.StatusCode)
			assert.Equal(t, 1, asked)
			requireNoSecrets(t, err)
		})
	}
	err := newClient(t, deadURL(t), nil).Events(context.Background(), nil, func(dlt.Event) error { return nil })
	assert.Equal(t, batch.KindUnavailable, dlt.Kind(err))
}

// While the first node cannot be reached, the stream comes from a fallback.
func TestEventsOfAFallback(t *testing.T) {
	n := sawtoothtest.Start(t, nil)
	c := newClient(t, deadURL(t), &sawtooth.Options{Fallbacks: []string{n.URL()}})
	events, _, stop := startEvents(t, c)
	assert.True(t, receiveSoon(t, events).Live)
	require.NoError(t, stop())
}

// When a node's validator goes away, or its chain forks, the stream has an event with Live. The
// number of a block has no influence.
func TestEventsOfANode(t *testing.T) {
	n := sawtoothtest.Start(t, &sawtoothtest.Options{BlockInterval: 10 * time.Millisecond})
	c := newClient(t, n.URL(), nil)
	events, ended, stop := startEvents(t, c)
	assert.True(t, receiveSoon(t, events).Live)
	assert.False(t, receiveSoon(t, events).Live, "the head")
	for i := range 11 { // more than ten, where the node's own fork detection is wrong
		commitSetting(t, n, c, fmt.Sprint("n", i))
		assert.False(t, receiveSoon(t, events).Live)
	}
	n.LoseEvents()
	commitSetting(t, n, c, "unheard")
	n.RestoreEvents()
	commitSetting(t, n, c, "heard")
	assert.True(t, receiveSoon(t, events).Live, "one is missing")
	n.Fork(1)
	assert.True(t, receiveSoon(t, events).Live, "the chain is another")
	assert.Equal(t, 1, n.Sockets())
	n.DropSockets()
	require.Error(t, receiveSoon(t, ended))
	require.NoError(t, stop())
	require.Eventually(t, func() bool { return n.Sockets() == 0 }, 30*time.Second, time.Millisecond)
}

// A stream without a socket, in a bubble of testing/synctest, lasts through days with pings alone,
// and ends with the node.
func TestEventsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := sawtoothtest.Listen(&sawtoothtest.Options{InMemory: true, BlockInterval: time.Second})
		require.NoError(t, err)
		defer n.Close()
		c := newClient(t, "http://node", &sawtooth.Options{Client: n.Client()})
		events := make(chan dlt.Event, 10)
		done := make(chan error, 1)
		go func() {
			done <- c.Events(t.Context(), nil, func(e dlt.Event) error { events <- e; return nil })
		}()
		assert.True(t, (<-events).Live)
		assert.False(t, (<-events).Live, "the head")
		time.Sleep(48 * time.Hour)
		begin := time.Now()
		b := settingBatch(t, "x")
		require.NoError(t, c.Submit(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
		assert.False(t, (<-events).Live)
		assert.LessOrEqual(t, time.Since(begin), 2*time.Second)
		assert.Equal(t, sawtoothtest.Committed, n.Status(b.ID))
		n.Restart()
		require.Error(t, <-done)
		assert.Empty(t, events)
	})
}
