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

// silentListener is a listener to which nobody connects, so that a network works in virtual time:
// the tests call the handlers of its nodes.
type silentListener struct {
	closed chan struct{}
	once   sync.Once
}

func (m *silentListener) Accept() (net.Conn, error) { <-m.closed; return nil, net.ErrClosed }
func (m *silentListener) Close() error              { m.once.Do(func() { close(m.closed) }); return nil }
func (m *silentListener) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4zero, Port: 80} }

// runInVirtualTime runs f in virtual time.
func runInVirtualTime(t *testing.T, o *splintertest.Options, f func(t *testing.T, n *splintertest.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Listen = func(string) (net.Listener, error) { return &silentListener{closed: make(chan struct{})}, nil }
		n := splintertest.Start(t, o)
		f(t, n)
	})
}

// optionsOfRealNodes returns the options of real nodes, with two circuits.
func optionsOfRealNodes(version int) *splintertest.Options {
	o := splintertest.RealTimes()
	o.Circuits = []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}, {ID: "ccccc-ddddd", Version: version}}
	return o
}

func newRequest(t testing.TB, s batch.ServiceID, body []byte) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodPost, servicePath(s)+"/batches", bytes.NewReader(body))
}

func servicePath(s batch.ServiceID) string {
	return "/scabbard/" + strings.Replace(string(s), "::", "/", 1)
}

// sendInProcess makes a request to a service's node without a socket. It returns nil if the
// connection ended.
func sendInProcess(ctx context.Context, n *splintertest.Network, s batch.ServiceID, method, rest string, body []byte) *response {
	return serveInProcess(n, s, httptest.NewRequestWithContext(ctx, method, servicePath(s)+rest, bytes.NewReader(body)))
}

func serveInProcess(n *splintertest.Network, s batch.ServiceID, r *http.Request) (out *response) {
	w := httptest.NewRecorder()
	defer func() {
		if recover() != nil { // the panic is http.ErrAbortHandler
			out = nil
		}
	}()
	n.Handler(n.NodeOf(s)).ServeHTTP(w, r)
	return &response{status: w.Code, body: w.Body.String()}
}

func postInProcess(t *testing.T, n *splintertest.Network, s batch.ServiceID, bs ...batch.Batch) {
	t.Helper()
	r := sendInProcess(t.Context(), n, s, http.MethodPost, "/batches", batchList(bs...))
	require.NotNil(t, r)
	require.Equal(t, http.StatusAccepted, r.status, r.body)
}

// statusWord asks for the status of a batch.
func statusWord(t *testing.T, n *splintertest.Network, s batch.ServiceID, b batch.Batch) string {
	t.Helper()
	r := sendInProcess(t.Context(), n, s, http.MethodGet, "/batch_statuses?ids="+string(b.ID), nil)
	require.NotNil(t, r)
	var doc []struct {
		Status struct {
			StatusType string `json:"statusType"`
		} `json:"status"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &doc))
	return doc[0].Status.StatusType
}

func stateRoot(t *testing.T, n *splintertest.Network, s batch.ServiceID) string {
	t.Helper()
	r := sendInProcess(t.Context(), n, s, http.MethodGet, "/state_root", nil)
	require.NotNil(t, r)
	return r.body
}

// postAndLeave sends a POST whose client gives up after three seconds.
func postAndLeave(t *testing.T, n *splintertest.Network, s batch.ServiceID, b batch.Batch) (answered bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		sendInProcess(ctx, n, s, http.MethodPost, "/batches", batchList(b))
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

func entriesOfKind(n *splintertest.Network, k splintertest.Kind) (out []splintertest.Entry) {
	for _, e := range n.Journal() {
		if e.Kind == k {
			out = append(out, e)
		}
	}
	return out
}
