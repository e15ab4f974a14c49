package splintertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// mute is a listener to which nobody connects, so that a network works in virtual time: the tests
// call the handlers of its nodes.
type mute struct {
	closed chan struct{}
	once   sync.Once
}

func (m *mute) Accept() (net.Conn, error) { <-m.closed; return nil, net.ErrClosed }
func (m *mute) Close() error              { m.once.Do(func() { close(m.closed) }); return nil }
func (m *mute) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4zero, Port: 80} }

// virtual runs f in virtual time.
func virtual(t *testing.T, o *splintertest.Options, f func(t *testing.T, n *splintertest.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Listen = func(string) (net.Listener, error) { return &mute{closed: make(chan struct{})}, nil }
		n := splintertest.Start(t, o)
		f(t, n)
	})
}

// measured returns the options of real nodes, with two circuits.
func measured(version int) *splintertest.Options {
	o := splintertest.RealTimes()
	o.Circuits = []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}, {ID: "ccccc-ddddd", Version: version}}
	return o
}

func newRequest(t testing.TB, s batch.ServiceID, body []byte) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, path0(s)+"/batches", bytes.NewReader(body))
}

func path0(s batch.ServiceID) string { return "/scabbard/" + strings.Replace(string(s), "::", "/", 1) }

// call makes a request to a service's node without a socket. It returns nil if the connection
// ended.
func call(ctx context.Context, n *splintertest.Network, s batch.ServiceID, method, rest string, body []byte) *response {
	return serve(n, s, httptest.NewRequestWithContext(ctx, method, path0(s)+rest, bytes.NewReader(body)))
}

func serve(n *splintertest.Network, s batch.ServiceID, r *http.Request) (out *response) {
	w := httptest.NewRecorder()
	defer func() {
		if recover() != nil { // the panic is http.ErrAbortHandler
			out = nil
		}
	}()
	n.Handler(n.NodeOf(s)).ServeHTTP(w, r)
	return &response{status: w.Code, body: w.Body.String()}
}

func send(t *testing.T, n *splintertest.Network, s batch.ServiceID, bs ...batch.Batch) {
	t.Helper()
	r := call(t.Context(), n, s, http.MethodPost, "/batches", list(bs...))
	require.NotNil(t, r)
	require.Equal(t, http.StatusAccepted, r.status, r.body)
}

// statusWord asks for the status of a batch.
func statusWord(t *testing.T, n *splintertest.Network, s batch.ServiceID, b batch.Batch) string {
	t.Helper()
	r := call(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(b.ID), nil)
	require.NotNil(t, r)
	var doc []struct {
		Status struct {
			StatusType string `json:"statusType"`
		} `json:"status"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &doc))
	return doc[0].Status.StatusType
}

func root(t *testing.T, n *splintertest.Network, s batch.ServiceID) string {
	t.Helper()
	r := call(t.Context(), n, s, http.MethodGet, "/state_root", nil)
	require.NotNil(t, r)
	return r.body
}

// leave sends a POST whose client gives up after three seconds.
func leave(t *testing.T, n *splintertest.Network, s batch.ServiceID, b batch.Batch) (answered bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call(ctx, n, s, http.MethodPost, "/batches", list(b))
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func kinds(n *splintertest.Network, k splintertest.Kind) (out []splintertest.Entry) {
	for _, e := range n.Journal() {
		if e.Kind == k {
			out = append(out, e)
		}
	}
	return out
}
