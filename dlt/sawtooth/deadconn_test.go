package sawtooth_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// A client leaves a connection that a load balancer forgot without a reset, and opens another one.
// Over HTTP/2 a request whose context ends leaves its connection open, so the client itself must
// find out that the connection is dead.
func TestADeadConnectionIsLeft(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	var isDead atomic.Bool
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var relays sync.WaitGroup
	relays.Go(func() {
		for first := true; ; first = false {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				return
			}
			relay := func(to, from net.Conn) {
				defer func() { _, _ = to.Close(), from.Close() }()
				b := make([]byte, 4096)
				for {
					n, err := from.Read(b)
					if err != nil {
						return
					}
					if first && isDead.Load() {
						continue // the bytes are dropped
					}
					if _, err := to.Write(b[:n]); err != nil {
						return
					}
				}
			}
			relays.Go(func() { relay(in, out) })
			relays.Go(func() { relay(out, in) })
		}
	})
	c, err := sawtooth.New("https://"+l.Addr().String(), &sawtooth.Options{TLSConfig: &tls.Config{InsecureSkipVerify: true}})
	require.NoError(t, err)
	defer func() {
		ended := make(chan struct{})
		go func() { defer close(ended); relays.Wait() }()
		for {
			c.CloseIdleConnections() // a connection whose answer has just come may not be idle yet
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	defer func() { _ = l.Close() }()
	post := func(i int) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.Submit(ctx, batch.Attempt{Key: batch.Key{Service: "s", ID: batch.ID(fmt.Sprintf("%0128x", i))}, Number: 1, Payload: []byte("abc")})
	}
	require.NoError(t, post(0))
	isDead.Store(true)
	require.Equal(t, batch.KindDoubt, dlt.Kind(post(1)))
	for i := 2; ; i++ {
		if err := post(i); err == nil {
			return
		}
		require.Less(t, i, 60, "requests that went down the dead connection")
	}
}

// A node that reads the chain again after the loss of its disk does not know any batch. Its answer
// is no evidence.
func TestANodeThatIsBehindProvesNothing(t *testing.T) {
	var hasBatch atomic.Bool // true if the node knows an earlier commit of the lane
	id, witness, never := fmt.Sprintf("%0128x", 1), fmt.Sprintf("%0128x", 2), fmt.Sprintf("%0128x", 3)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/batch_statuses":
			_, _ = fmt.Fprintf(w, `{"data":[{"id":%q,"status":"UNKNOWN","invalid_transactions":[]}]}`, id)
		case "/batches/" + witness:
			if hasBatch.Load() {
				_, _ = fmt.Fprintf(w, `{"data":{"header_signature":%q}}`, witness)
				return
			}
			fallthrough
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"code":71,"message":"","title":"Batch Not Found"}}`)
		}
	}))
	defer s.Close()
	c, err := sawtooth.New(s.URL, nil)
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	doubt := dlt.Doubt{
		Attempt: batch.Attempt{Key: batch.Key{Service: "s", ID: batch.ID(id)}, Number: 1, Payload: []byte("abc")},
		Since:   25 * time.Minute, Ended: 25 * time.Minute, Witnesses: []batch.ID{batch.ID(never), batch.ID(witness)},
	}
	got, err := c.Resolve(t.Context(), doubt)
	require.Error(t, err)
	require.Equal(t, dlt.CannotTell, got)
	hasBatch.Store(true)
	got, err = c.Resolve(t.Context(), doubt)
	require.NoError(t, err)
	require.Equal(t, dlt.NotCommitted, got)
	hasBatch.Store(false)
	doubt.Witnesses = nil // as for the first batch of a lane
	got, err = c.Resolve(t.Context(), doubt)
	require.NoError(t, err)
	require.Equal(t, dlt.NotCommitted, got)
}
