package splintertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

func dial(t testing.TB, n *splintertest.Network, s batch.ServiceID, query string, o *websocket.DialOptions) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), path(n, s)+"/ws/subscribe"+query, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func read(t testing.TB, c *websocket.Conn) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, text, err := c.Read(ctx)
	require.NoError(t, err)
	return text
}

// event is the id of the next event.
func event(t testing.TB, c *websocket.Conn) string {
	t.Helper()
	var e struct {
		ID      string `json:"id"`
		Changes []any  `json:"state_changes"`
	}
	require.NoError(t, json.Unmarshal(read(t, c), &e))
	return e.ID
}

func txIDs(t testing.TB, b batch.Batch) (ids []string) {
	t.Helper()
	parsed, err := sawtooth.Parse(b.Payload, "")
	require.NoError(t, err)
	for _, x := range parsed.Transactions {
		ids = append(ids, x.ID)
	}
	return ids
}

// C8: everything is replayed, then told; text comes back, and a ping is answered by a ping.
func TestSubscribe(t *testing.T) {
	n := splintertest.Start(t, nil)
	s := n.Service(0)
	old := build(t, tx(splintertest.Inc("x", 1)), tx(splintertest.Inc("x", 1)))
	accepted(t, n, s, old)
	becomes(t, n, s, old, "Committed")
	pings := make(chan []byte, 1)
	c := dial(t, n, s, "", &websocket.DialOptions{OnPingReceived: func(_ context.Context, p []byte) bool {
		pings <- bytes.Clone(p)
		return true
	}})
	for _, id := range txIDs(t, old) {
		assert.Equal(t, id, event(t, c))
	}
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte("anything")))
	skip := func() string { // what the replay repeats
		text := string(read(t, c))
		for strings.Contains(text, "state_changes") {
			text = string(read(t, c))
		}
		return text
	}
	assert.Equal(t, "anything", skip())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	pinged := make(chan error, 1)
	go func() { pinged <- c.Ping(ctx) }()
	bad, good := build(t, tx(splintertest.Fail("x"))), inc(t)
	accepted(t, n, s, bad, good)
	assert.Equal(t, txIDs(t, good)[0], event(t, c), "never of what is invalid")
	b := inc(t)
	go func() { // while it is read, the pings are handled
		timer := time.NewTimer(100 * time.Millisecond)
		<-timer.C
		_ = post(t, n, n.Service(1), b)
	}()
	assert.Equal(t, txIDs(t, b)[0], event(t, c), "whoever sent it")
	assert.NoError(t, <-pinged, "its ping is no pong; the client answers that, and is answered a pong")
	assert.NotEmpty(t, <-pings)
	n.CutStreams(0)
	_, _, err := c.Read(t.Context())
	assert.Error(t, err)
}

// C8: last_seen_event is greater, not later, and pages use the same filter.
func TestReplay(t *testing.T) {
	n := splintertest.Start(t, &splintertest.Options{CommitInterval: 100 * time.Microsecond})
	s := n.Service(0)
	for range 100 {
		b := inc(t)
		for post(t, n, s, b).status != 202 {
		}
		becomes(t, n, s, b, "Committed")
	}
	all := n.Transactions(s)
	require.Len(t, all, 100)
	const end = "the end"
	replayed := func(query string) (out []string) {
		c := dial(t, n, s, query, nil)
		require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(end)))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		for {
			_, text, err := c.Read(ctx)
			if err != nil {
				return out // silence
			}
			var e struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(text, &e) == nil {
				out = append(out, e.ID)
			}
		}
	}
	got := replayed("")
	assert.Equal(t, all[:64], got[:64])
	for i := 65; i < len(got); i++ {
		assert.Greater(t, got[64], got[63], "the filter of the second page is the last id of the first")
	}
	missing := 0
	for _, id := range all {
		if !slices.Contains(got, id) {
			missing++
		}
	}
	assert.Positive(t, missing, "a full replay is not full")
	for _, id := range replayed("?last_seen_event=" + all[50]) {
		assert.Greater(t, id, all[50])
	}
	assert.Equal(t, 400, do(t, "GET", path(n, s)+"/ws/subscribe?last_seen_event=", nil).status)
}
