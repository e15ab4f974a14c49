package splinter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
)

// A node has forgotten a batch, and no stream was open: its receipts prove whether the batch was
// committed or not.
func TestResolveByReceipts(t *testing.T) {
	for name, version := range map[string]int{"v1": 1, "v2": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestNetwork(t, splintertest.Options{Circuits: []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: version}}}, nil)
				w.newCommittedBatch()
				d, gone := w.postWithoutAnswer(splintertest.AcceptedFirst), w.postWithoutAnswer(splintertest.NotAccepted)
				w.waitForStatus(d.Batch, batch.ReportedCommitted)
				w.restartNode()
				require.NotEqual(t, dlt.NotCommitted, w.resolve(gone), "before LateArrival")
				w.requireEvidence(d, dlt.Committed)
				w.requireEvidence(gone, dlt.NotCommitted)
				assert.GreaterOrEqual(t, time.Since(gone.endedAt), testLateArrival)
			})
		})
	}
}

// In a circuit with one service, no other service refuses a batch of which the node has only the
// effect, because it died before it wrote the receipts: missing receipts prove nothing.
func TestReceiptsOfACircuitOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{Circuits: []splintertest.Circuit{{ID: "aaaaa-bbbbb", Services: []string{"a000"}}}}, nil)
		w.newCommittedBatch()
		d := w.postWithoutAnswer(splintertest.NotAccepted)
		w.restartNode()
		w.requireNoEvidence(d)
	})
}

// Missing receipts prove nothing either if the client may not ask which services the circuit has.
func TestReceiptsOfAnUnknownCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, nil)
		w.newCommittedBatch()
		w.refusesCircuitQueries.Store(true)
		d := w.postWithoutAnswer(splintertest.NotAccepted)
		w.restartNode()
		w.requireNoEvidence(d)
		w.refusesCircuitQueries.Store(false)
		w.requireEvidence(d, dlt.NotCommitted)
	})
}

// A node that replays other receipts than expected, or none, proves nothing.
func TestReceiptsOfAnotherStore(t *testing.T) {
	w := openTestNetwork(t, splintertest.Options{}, nil, nil)
	known := w.newCommittedBatch()
	d := w.postWithoutAnswer(splintertest.NotAccepted)
	w.restartNode()
	var frames []string
	fake := newClient(t, startStreamProxy(t, w.network.URL(0), func(ctx context.Context, c *websocket.Conn) {
		for _, f := range frames {
			_ = c.Write(ctx, websocket.MessageText, []byte(f))
		}
		for {
			kind, text, err := c.Read(ctx)
			if err != nil || c.Write(ctx, kind, text) != nil {
				return
			}
		}
	}), clientOptions(nil))
	w.client = fake
	w.requireNoEvidence(d) // no frame
	ids := w.network.Transactions(w.service)
	require.NotEmpty(t, ids, "of %s", known.ID)
	lowest := `{"id":"` + zeroID + `"}`
	frames = []string{lowest, `{"id":"` + ids[0] + `"}`}
	w.requireNoEvidence(d) // a frame with an id that is not greater than the cursor
}

const zeroID = "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"

// startStreamProxy returns the address of a node whose subscriptions are handled by h.
func startStreamProxy(t testing.TB, url string, h func(context.Context, *websocket.Conn)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			h(r.Context(), c)
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.RequestURI(), r.Body)
		if err != nil {
			return
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer func() { _ = resp.Body.Close() }()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Options.Evidence is asked last, after LateArrival, and not about a batch that may yet be
// executed.
func TestResolveByEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, nil)
		var asked int
		var wantText dlt.Evidence
		var fails error
		o := clientOptions(nil)
		o.Evidence = func(_ context.Context, _ splinter.State, d dlt.Doubt) (dlt.Evidence, error) {
			asked++
			assert.NotEmpty(t, d.Payload)
			return wantText, fails
		}
		w.client = w.newClient(o)
		w.newCommittedBatch()
		w.hidesStatuses.Store(true)
		d := w.postWithoutAnswer(splintertest.NotAccepted)
		w.restartNode()
		require.Equal(t, dlt.InFlight, w.resolve(d))
		require.Zero(t, asked, "before LateArrival")
		w.requireNoEvidence(d)
		require.NotZero(t, asked)
		fails = errors.New("the contract's reader is down")
		_, err := w.client.Resolve(t.Context(), dlt.Doubt{Attempt: firstAttempt(d.Batch), Since: time.Hour, Ended: time.Hour})
		require.ErrorIs(t, err, fails)
		fails, wantText = nil, dlt.NotCommitted
		require.Equal(t, wantText, w.resolve(d))
		wantText = dlt.Committed
		require.Equal(t, wantText, w.resolve(d))

		w.hidesStatuses.Store(false) // receipts are asked for before Options.Evidence
		require.True(t, pollUntil(10*time.Millisecond, 5*time.Second, func() bool { return w.resolve(d) == dlt.NotCommitted }))
	})
}
