package splinter_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter"
)

// The client has one open request for each service, since each request about a stalled service
// occupies one of the node's few threads.
func TestOneRequestOfAService(t *testing.T) {
	var (
		mu               sync.Mutex
		open, maxAllowed int
	)
	stalled := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/a000/") {
			mu.Lock()
			open++
			maxAllowed = max(maxAllowed, open)
			mu.Unlock()
			<-stalled
			mu.Lock()
			open--
			mu.Unlock()
		}
		_, _ = w.Write([]byte("[]"))
	}))
	defer node.Close()
	c := newClient(t, node.URL, nil)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(stalled)
	asking.Go(func() { _ = c.Submit(t.Context(), firstAttempt(incBatch(t, service, "x"))) })
	require.True(t, pollUntil(time.Millisecond, 5*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return open == 1
	}))
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := c.BatchStatuses(ctx, service, []batch.Attempt{{Key: batch.Key{Service: service, ID: testID('a')}}})
		cancel()
		require.Equal(t, batch.KindUnavailable, dlt.Kind(err), "it was not sent: %v", err)
	}
	other := batch.ServiceID("ccccc-ddddd::b000")
	_, err := c.BatchStatuses(t.Context(), other, []batch.Attempt{{Key: batch.Key{Service: other, ID: testID('a')}}})
	require.NoError(t, err, "another service")
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 1, maxAllowed)
}

// While some threads of a node do not answer, a batch is posted only on a connection that has just
// answered: otherwise it would be in doubt, and be executed minutes later.
func TestAConnectionIsCheckedBeforeAPost(t *testing.T) {
	t.Parallel()
	var (
		posts, seen atomic.Int64
		good        atomic.Bool
	)
	ends := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen.Add(1); !good.Load() {
			<-ends
			return
		}
		if r.Method == http.MethodPost {
			posts.Add(1)
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = w.Write([]byte("[]"))
	}))
	defer node.Close()
	defer close(ends)
	c := newClient(t, node.URL, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	_, err := c.BatchStatuses(ctx, service, []batch.Attempt{{Key: batch.Key{Service: service, ID: testID('a')}}})
	require.Error(t, err)
	other := batch.ServiceID("ccccc-ddddd::b000")
	bounded, end := context.WithTimeout(t.Context(), 4*time.Second)
	defer end()
	err = c.Submit(bounded, firstAttempt(incBatch(t, other, "x")))
	require.Equal(t, batch.KindUnavailable, dlt.Kind(err), "certainly not sent: %v", err)
	good.Store(true)
	third := batch.ServiceID("ccccc-eeeee::b000")
	require.NoError(t, c.Submit(t.Context(), firstAttempt(incBatch(t, third, "x"))))
	require.EqualValues(t, 1, posts.Load())
	require.EqualValues(t, 4, seen.Load(), "each has looked")
}

// A POST to such a node uses the very connection that has just answered. On another connection it
// might wait behind a stall, so nothing of it is sent there.
func TestThePostTakesTheConnectionThatAnswered(t *testing.T) {
	t.Parallel()
	var (
		mu                sync.Mutex
		answered          string // the address of the client that was answered last
		posts, strangers  int
		closes, suspected = 0, false
	)
	ends := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		hangs := !suspected
		suspected = true
		mu.Unlock()
		if hangs {
			<-ends
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return // the request has no body, so a node executes nothing
			}
			posts++
			if r.RemoteAddr != answered {
				strangers++
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if answered = r.RemoteAddr; closes > 0 {
			closes--
			w.Header().Set("Connection", "close") // so that the next request gets another connection
		}
		_, _ = w.Write([]byte("[]"))
	}))
	defer node.Close()
	defer close(ends)
	c := newClient(t, node.URL, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	_, err := c.BatchStatuses(ctx, service, []batch.Attempt{{Key: batch.Key{Service: service, ID: testID('a')}}})
	require.Error(t, err)
	set := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		closes = n
	}
	other := batch.ServiceID("ccccc-ddddd::b000")
	set(2)
	require.NoError(t, c.Submit(t.Context(), firstAttempt(incBatch(t, other, "x"))))
	set(1000)
	err = c.Submit(t.Context(), firstAttempt(incBatch(t, other, "y")))
	require.Equal(t, batch.KindUnavailable, dlt.Kind(err), "certainly not sent: %v", err)
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 1, posts)
	assert.Zero(t, strangers)
}

// A request that waits for its connection holds no thread: the service whose request was sent
// first rests.
func TestTheServiceThatWasAskedFirstRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stalled, healthy, other = batch.ServiceID("aaaaa-bbbbb::a000"), batch.ServiceID("ccccc-ddddd::b000"), batch.ServiceID("ccccc-eeeee::c000")
		over := make(chan struct{})
		defer close(over)
		node := func(conn net.Conn) { // answers only requests about the third service
			defer func() { _ = conn.Close() }()
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil || !strings.Contains(r.URL.Path, "/c000/") {
				<-over
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")
		}
		var dialled atomic.Int64
		c := newClient(t, "http://node", &splinter.Options{Client: &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				if dialled.Add(1) == 1 {
					time.Sleep(100 * time.Millisecond)
				}
				near, far := net.Pipe()
				go node(far)
				return near, nil
			},
		}}})
		ask := func(s batch.ServiceID) error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := c.BatchStatuses(ctx, s, []batch.Attempt{{Key: batch.Key{Service: s, ID: testID('a')}}})
			return err
		}
		var asking sync.WaitGroup
		for _, s := range []batch.ServiceID{healthy, stalled} {
			asking.Go(func() { assert.Error(t, ask(s)) })
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		require.NoError(t, ask(other))
		asking.Wait()
		var e *dlt.Error
		require.ErrorAs(t, ask(stalled), &e)
		assert.Greater(t, e.RetryAfter, 5*time.Minute)
		require.ErrorAs(t, ask(healthy), &e)
		assert.Zero(t, e.RetryAfter, "it was asked again")
	})
}
