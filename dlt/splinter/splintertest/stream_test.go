package splintertest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

func dialStream(t testing.TB, n *splintertest.Network, s batch.ServiceID, query string, o *websocket.DialOptions) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), serviceURL(n, s)+"/ws/subscribe"+query, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

func readMessage(t testing.TB, c *websocket.Conn) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, text, err := c.Read(ctx)
	require.NoError(t, err)
	return text
}

// readEventID returns the id of the next event.
func readEventID(t testing.TB, c *websocket.Conn) string {
	t.Helper()
	var e struct {
		ID      string `json:"id"`
		Changes []any  `json:"state_changes"`
	}
	require.NoError(t, json.Unmarshal(readMessage(t, c), &e))
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

// A subscriber gets the whole history and then new events. The node echoes text, and answers a
// ping with a ping.
func TestSubscribe(t *testing.T) {
	n := splintertest.Start(t, nil)
	s := n.Service(0)
	old := buildBatch(t, newTransaction(splintertest.Inc("x", 1)), newTransaction(splintertest.Inc("x", 1)))
	postAccepted(t, n, s, old)
	waitForStatus(t, n, s, old, "Committed")
	pings := make(chan []byte, 1)
	c := dialStream(t, n, s, "", &websocket.DialOptions{OnPingReceived: func(_ context.Context, p []byte) bool {
		pings <- bytes.Clone(p)
		return true
	}})
	for _, id := range txIDs(t, old) {
		assert.Equal(t, id, readEventID(t, c))
	}
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte("anything")))
	skip := func() string { // reads the receipts that the replay repeats
		text := string(readMessage(t, c))
		for strings.Contains(text, "state_changes") {
			text = string(readMessage(t, c))
		}
		return text
	}
	assert.Equal(t, "anything", skip())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	pinged := make(chan error, 1)
	go func() { pinged <- c.Ping(ctx) }()
	bad, good := buildBatch(t, newTransaction(splintertest.Invalid("x"))), incBatch(t)
	postAccepted(t, n, s, bad, good)
	assert.Equal(t, txIDs(t, good)[0], readEventID(t, c), "never of what is invalid")
	b := incBatch(t)
	go func() { // pings are answered only while the connection is read
		assert.NotEmpty(t, <-pings, "a ping is answered by a ping")
		_ = postBatches(t, n, n.Service(1), b)
	}()
	assert.Equal(t, txIDs(t, b)[0], readEventID(t, c), "whoever sent it")
	cancel()
	<-pinged
	n.CutStreams(0)
	_, _, err := c.Read(t.Context())
	assert.Error(t, err)
}

// replayedIDs returns the events that a subscriber gets from the history. The echo of a text marks
// their end, because the node reads the subscriber's messages only after the history.
func replayedIDs(t *testing.T, n *splintertest.Network, s batch.ServiceID, query string) (out []string) {
	t.Helper()
	const end = "the end"
	c := dialStream(t, n, s, query, nil)
	defer func() { _ = c.CloseNow() }()
	require.NoError(t, c.Write(t.Context(), websocket.MessageText, []byte(end)))
	for {
		text := readMessage(t, c)
		if string(text) == end {
			return out
		}
		var e struct {
			ID string `json:"id"`
		}
		require.NoError(t, json.Unmarshal(text, &e))
		out = append(out, e.ID)
	}
}

// A page is the first 64, in the order of their commits, of the receipts whose id is greater than
// the last id of the page before. The last page is empty. A restart does not change the pages.
func TestReplay(t *testing.T) {
	tier.Plain(t)
	n := splintertest.Start(t, &splintertest.Options{CommitInterval: 100 * time.Microsecond})
	s := n.Service(0)
	var txs []sawtooth.Transaction
	for range 150 {
		txs = append(txs, newTransaction(splintertest.Inc("x", 1)))
	}
	for i := range 3 {
		b := buildBatch(t, txs[50*i:50*i+50]...)
		postAccepted(t, n, s, b)
		waitForStatus(t, n, s, b, "Committed")
	}
	waitForStatus(t, n, n.Service(1), buildBatch(t, txs[100:]...), "Committed")
	all := n.Transactions(s)
	require.Len(t, all, 150)
	expected := func(after string) (out []string) {
		for {
			greater := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return after != "" && id <= after })
			if len(greater) == 0 {
				return out
			}
			out = append(out, greater[:min(64, len(greater))]...)
			after = out[len(out)-1]
		}
	}
	sorted := slices.Sorted(slices.Values(all))
	for range 2 {
		full := replayedIDs(t, n, s, "")
		assert.Equal(t, expected(""), full)
		assert.Equal(t, all[:64], full[:64])
		assert.False(t, slices.Contains(full[64:], sorted[0]), "the least is in the first page or nowhere")
		for _, from := range []string{all[0], all[63], all[149], sorted[0], sorted[140], sorted[149], "0", "f", strings.Repeat("8", 128)} {
			assert.Equal(t, expected(from), replayedIDs(t, n, s, "?last_seen_event="+from), "after %.12s", from)
		}
		assert.Greater(t, len(replayedIDs(t, n, s, "?last_seen_event="+sorted[140])), 8, "a short one comes again in part")
		n.Restart(0)
	}
	assert.Equal(t, expected(""), replayedIDs(t, n, n.Service(1), ""), "as the peer has it")
	r := sendRequest(t, "GET", serviceURL(n, s)+"/ws/subscribe?last_seen_event=%20", nil)
	assert.Equal(t, 400, r.status)
	assert.Equal(t, "last_seen_event must not be empty", r.decode(t)["message"])
}

// An event between the first page and the registration is lost, unless its id is greater than the
// last one of the page. If there is no history, it is always lost.
func TestSubscribeGap(t *testing.T) {
	for name, had := range map[string]bool{"with a history": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			o := optionsOfRealNodes(2)
			o.SubscribeGap, o.PingInterval = time.Minute, time.Hour
			runInVirtualTime(t, o, func(t *testing.T, n *splintertest.Network) {
				s := n.Service(0)
				if had {
					postInProcess(t, n, s, incBatch(t))
					time.Sleep(2 * time.Second)
				}
				got := startSubscriber(t, n, s)
				time.Sleep(time.Second)
				for range 8 {
					postInProcess(t, n, s, incBatch(t))
				}
				time.Sleep(2 * time.Minute)
				all, want := n.Transactions(s), []string(nil)
				if had {
					require.Len(t, all, 9)
					want = append(want, all[0])
					for after := all[0]; ; after = want[len(want)-1] {
						greater := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id <= after })
						if len(greater) == 0 {
							break
						}
						want = append(want, greater...)
					}
				}
				assert.Equal(t, want, got())
				postInProcess(t, n, s, incBatch(t))
				time.Sleep(time.Minute)
				assert.Equal(t, append(want, n.Transactions(s)[len(all)]), got(), "and then what is new")
			})
		})
	}
}

// startSubscriber opens a stream without a socket. got returns the ids of its events so far.
func startSubscriber(t *testing.T, n *splintertest.Network, s batch.ServiceID) (got func() []string) {
	t.Helper()
	near, far := net.Pipe()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, servicePath(s)+"/ws/subscribe", nil)
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	var running sync.WaitGroup
	running.Go(func() { n.Handler(n.NodeOf(s)).ServeHTTP(&hijackableRecorder{httptest.NewRecorder(), far}, r) })
	var lock sync.Mutex
	var ids []string
	running.Go(func() {
		in := bufio.NewReader(near)
		res, err := http.ReadResponse(in, r)
		if err != nil {
			return
		}
		_ = res.Body.Close()
		for {
			var head [4]byte // each event has more than 125 bytes and less than 64 KiB
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return
			}
			text := make([]byte, int(head[2])<<8|int(head[3]))
			if _, err := io.ReadFull(in, text); err != nil {
				return
			}
			var e struct {
				ID string `json:"id"`
			}
			_ = json.Unmarshal(text, &e)
			lock.Lock()
			ids = append(ids, e.ID)
			lock.Unlock()
		}
	})
	t.Cleanup(func() { _ = near.Close(); n.Close(); running.Wait() })
	return func() []string { lock.Lock(); defer lock.Unlock(); return slices.Clone(ids) }
}

// hijackableRecorder is a response writer whose connection is a pipe.
type hijackableRecorder struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h *hijackableRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// A node that is shut down sends a close frame; one that is killed sends none.
func TestStreamsEndWithACloseFrame(t *testing.T) {
	n := splintertest.Start(t, nil)
	s := n.Service(0)
	c := dialStream(t, n, s, "", nil)
	require.Eventually(t, func() bool { return n.Streams(0) == 1 }, 30*time.Second, time.Millisecond)
	n.Shutdown(0)
	_, _, err := c.Read(t.Context())
	assert.Equal(t, websocket.StatusGoingAway, websocket.CloseStatus(err), "%v", err)
	require.NoError(t, n.Start(0))
	c = dialStream(t, n, s, "", nil)
	n.Kill(0)
	_, _, err = c.Read(t.Context())
	assert.Equal(t, websocket.StatusCode(-1), websocket.CloseStatus(err), "%v", err)
	require.NoError(t, n.Start(0))
	postAccepted(t, n, s, incBatch(t))
}

// A node closes a connection without requests after KeepAliveTimeout, which is 5 s on real nodes.
func TestIdleConnections(t *testing.T) {
	n := splintertest.Start(t, &splintertest.Options{KeepAliveTimeout: 50 * time.Millisecond})
	begun := time.Now()                                                // read before the node can begin to wait
	c, err := net.Dial("tcp", strings.TrimPrefix(n.URL(0), "http://")) //nolint:noctx // it is there
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	text, err := io.ReadAll(c) // reads until the connection is closed
	require.NoError(t, err)
	assert.Contains(t, string(text), "endpoint not found")
	assert.GreaterOrEqual(t, time.Since(begun), 50*time.Millisecond)
}

// With sockets a stall has the same effect as in virtual time: every second connection hangs,
// whatever is asked.
func TestStallOverSockets(t *testing.T) {
	n := splintertest.Start(t, &splintertest.Options{UnservedHold: time.Hour})
	sick, healthy := n.Service(0), n.Services()[2]
	postAccepted(t, n, sick, buildBatch(t, newTransaction(splintertest.Trap("x"))))
	require.Eventually(t, func() bool { return len(entriesOfKind(n, splintertest.Stalled)) == 1 }, 30*time.Second, time.Millisecond)
	say := func(s batch.ServiceID, method, rest string, body []byte) {
		c, err := net.Dial("tcp", strings.TrimPrefix(n.URL(0), "http://")) //nolint:noctx // it is there
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = fmt.Fprintf(c, "%s %s%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, servicePath(s), rest, len(body), body)
		require.NoError(t, err)
	}
	say(sick, http.MethodGet, "/batch_statuses?ids=ab", nil)
	require.Eventually(t, func() bool { return len(entriesOfKind(n, splintertest.Held)) == 1 }, 30*time.Second, time.Millisecond)
	for range 6 {
		say(healthy, http.MethodPost, "/batches", batchList(incBatch(t)))
	}
	require.Eventually(t, func() bool { return postCount(n, healthy) == 6 && len(n.Executions(healthy)) == 3 }, 30*time.Second, time.Millisecond)
	taken := slices.DeleteFunc(entriesOfKind(n, splintertest.Accepted), func(e splintertest.Entry) bool { return e.Service != healthy })
	assert.Len(t, taken, 3)
	n.Restart(0)
	postAccepted(t, n, healthy, incBatch(t))
}

// postCount returns how many POSTs a service got.
func postCount(n *splintertest.Network, s batch.ServiceID) (count int) {
	for _, e := range entriesOfKind(n, splintertest.PostStart) {
		if e.Service == s {
			count++
		}
	}
	return count
}
