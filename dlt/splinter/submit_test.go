package splinter_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

const jsonType = "application/json"

// outcomeOf returns what the engine decides about a batch after an error.
func outcomeOf(err error, b batch.Budget) store.Outcome {
	return submitter.Judge(store.Claim{Attempt: 1, From: batch.Queued, Budget: b}, err, true, submitter.Rules{
		Delay: func(batch.ServiceID, int) time.Duration { return time.Second },
	})
}

// TestSubmitAnswers shows the effect of each row of docs/ledgers/splinter.md#submitting.
func TestSubmitAnswers(t *testing.T) {
	b := incBatch(t, service, "x")
	for name, row := range map[string]struct {
		status      int
		contentType string
		body        string
		headers     []string
		wantKind    batch.ErrorKind
		code        int
		after       time.Duration
	}{
		"202":                                {status: 202, contentType: jsonType, body: `{"link":"/scabbard/aaaaa-bbbbb/a000/batch_statuses?ids=x"}`},
		"202 without a body":                 {status: 202},
		"202 with a page":                    {status: 202, contentType: "text/html", body: "<html>"},
		"400 body":                           {status: 400, contentType: jsonType, body: `{"code":"400","message":"Invalid body: x"}`, wantKind: batch.KindRejected, code: 400},
		"400 verification":                   {status: 400, contentType: jsonType, body: `{"code":"400","message":"No valid batches provided"}`, wantKind: batch.KindRejected, code: 400},
		"400 version":                        {status: 400, contentType: jsonType, body: `{"message":"m","requested_protocol":2,"splinter_protocol":1,"libsplinter_version":"0.6.14"}`, wantKind: batch.KindMisconfigured},
		"400 version is no integer":          {status: 400, contentType: jsonType, body: `{"message":"m"}`, wantKind: batch.KindMisconfigured},
		"400 of somebody in between":         {status: 400, contentType: "text/plain", body: `bad`, wantKind: batch.KindMisconfigured},
		"400 without a body":                 {status: 400, wantKind: batch.KindMisconfigured},
		"401":                                {status: 401, contentType: jsonType, body: `{"code":"401","message":"m"}`, wantKind: batch.KindMisconfigured, code: 401},
		"403 of a proxy":                     {status: 403, wantKind: batch.KindMisconfigured},
		"404 service":                        {status: 404, contentType: jsonType, body: `{"message":"scabbard service a000 on circuit aaaaa-bbbbb not found"}`, wantKind: batch.KindUnavailable},
		"404 route":                          {status: 404, contentType: jsonType, body: `{"code":"404","message":"m"}`, wantKind: batch.KindUnavailable, code: 404},
		"429":                                {status: 429, wantKind: batch.KindBusy},
		"429 of a proxy":                     {status: 429, headers: []string{"Retry-After", "3"}, wantKind: batch.KindBusy, after: 3 * time.Second},
		"500":                                {status: 500, contentType: jsonType, body: `{"code":"500","message":"The server encountered an error"}`, wantKind: batch.KindDoubt, code: 500},
		"500 without a body":                 {status: 500, wantKind: batch.KindDoubt},
		"502":                                {status: 502, wantKind: batch.KindDoubt},
		"503 of a proxy":                     {status: 503, headers: []string{"Retry-After", "3"}, wantKind: batch.KindDoubt},
		"504":                                {status: 504, wantKind: batch.KindDoubt},
		"408 of a proxy":                     {status: 408, wantKind: batch.KindDoubt},
		"413 of a proxy":                     {status: 413, wantKind: batch.KindNotYet},
		"200, which it never says":           {status: 200, wantKind: batch.KindDoubt},
		"303 says done":                      {status: 303, headers: []string{"Location", "/"}, wantKind: batch.KindDoubt},
		"307 elsewhere":                      {status: 307, headers: []string{"Location", "/"}, wantKind: batch.KindMisconfigured},
		"an answer that nobody knows":        {status: 418, wantKind: batch.KindDoubt},
		"500 whose code is another":          {status: 500, contentType: jsonType, body: `{"code":"400","message":"m"}`, wantKind: batch.KindDoubt, code: 400},
		"429 with a body that is no JSON":    {status: 429, contentType: jsonType, body: "{", wantKind: batch.KindBusy},
		"400 with a code that is no string":  {status: 400, contentType: jsonType, body: `{"code":400,"message":"m"}`, wantKind: batch.KindMisconfigured, code: 400},
		"400 with a document of another API": {status: 400, contentType: jsonType, body: `{"error":{"code":30}}`, wantKind: batch.KindMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			node := startNodeThatAnswers(t, row.status, row.contentType, row.body, row.headers...)
			err := newClient(t, node.URL, nil).Submit(t.Context(), firstAttempt(b))
			require.Equal(t, row.wantKind, dlt.Kind(err), "%v", err)

			unlimited, everyTry := outcomeOf(err, batch.Budget{}), outcomeOf(err, batch.Budget{Attempts: 5, EveryTry: true})
			want := map[batch.ErrorKind]store.Finding{
				"": store.Accepted, batch.KindRejected: store.Refused, batch.KindBusy: store.Failed, batch.KindUnavailable: store.Failed,
				batch.KindMisconfigured: store.Failed, batch.KindNotYet: store.Failed, batch.KindDoubt: store.Doubtful,
			}[row.wantKind]
			assert.Equal(t, want, unlimited.Finding)
			assert.Equal(t, row.wantKind == batch.KindRejected, unlimited.Spend, "only a refusal is the batch's own fault")
			assert.Equal(t, row.wantKind == batch.KindMisconfigured || row.wantKind == batch.KindNotYet, everyTry.Refund, "what is not the batch's fault costs nothing")
			if row.wantKind == "" {
				return
			}
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.status, e.StatusCode)
			assert.Equal(t, row.code, e.Code)
			assert.Equal(t, row.after, e.RetryAfter)
			if row.wantKind == batch.KindBusy {
				assert.Equal(t, max(row.after, time.Second), unlimited.Delay)
			}
		})
	}
}

// TestSubmitConnections shows the effect of requests that get no answer.
func TestSubmitConnections(t *testing.T) {
	b := incBatch(t, service, "x")
	t.Run("refused connection", func(t *testing.T) {
		err := newClient(t, deadURL(t), nil).Submit(t.Context(), firstAttempt(b))
		assert.Equal(t, batch.KindUnavailable, dlt.Kind(err), "%v", err)
	})
	t.Run("closed before an answer", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		posts := make(chan struct{}, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					posts <- struct{}{}
				}
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close(); <-done })
		err = newClient(t, "http://"+l.Addr().String(), nil).Submit(t.Context(), firstAttempt(b))
		assert.Equal(t, batch.KindDoubt, dlt.Kind(err), "%v", err)
		assert.Len(t, posts, 1, "a transparent retry")
	})
	t.Run("own timeout", func(t *testing.T) {
		node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		t.Cleanup(node.Close)
		client := newClient(t, node.URL, nil)
		var err error
		for limit := 50 * time.Millisecond; ; limit *= 2 { // a busy machine may send nothing in so short a time
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			err = client.Submit(ctx, firstAttempt(b))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if dlt.Kind(err) != batch.KindUnavailable {
				break
			}
		}
		assert.Equal(t, batch.KindDoubt, dlt.Kind(err), "%v", err)
	})
	t.Run("done before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := newClient(t, deadURL(t), nil).Submit(ctx, firstAttempt(b))
		assert.Equal(t, batch.KindUnavailable, dlt.Kind(err), "%v", err)
	})
	t.Run("plain HTTP where TLS is wanted", func(t *testing.T) {
		node := startNodeThatAnswers(t, 202, "", "")
		err := newClient(t, strings.Replace(node.URL, "http:", "https:", 1), nil).Submit(t.Context(), firstAttempt(b))
		assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	})
}

func TestSubmitOnTheWire(t *testing.T) {
	var got *http.Request
	var body []byte
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(node.Close)
	b := incBatch(t, service, "x")
	c := newClient(t, node.URL+"/prefix/", &splinter.Options{Token: splinter.OAuth2Token("abc"), Header: http.Header{"X-Proxy": {"p"}}})
	require.NoError(t, c.Submit(t.Context(), firstAttempt(b)))
	assert.Equal(t, http.MethodPost, got.Method)
	assert.Equal(t, "/prefix/scabbard/aaaaa-bbbbb/a000/batches", got.RequestURI)
	assert.Equal(t, "1", got.Header.Get("Splinterprotocolversion"))
	assert.Equal(t, "Bearer OAuth2:abc", got.Header.Get("Authorization"))
	assert.Equal(t, "p", got.Header.Get("X-Proxy"))
	assert.Empty(t, got.Header.Get("Traceparent"))
	assert.Empty(t, got.TransferEncoding)
	list, err := sawtooth.SplitBatchList(body, service)
	require.NoError(t, err)
	require.Len(t, list, 1, "one batch a POST")
	assert.Equal(t, b.Payload, list[0].Payload, "byte for byte")
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	require.NoError(t, c.Submit(dlt.WithTraceParent(t.Context(), parent), firstAttempt(b)))
	assert.Equal(t, parent, got.Header.Get("Traceparent"), "only where the context has one")
}

func TestSubmitNeverLeaves(t *testing.T) {
	posted := startNodeThatAnswers(t, 202, "", "")
	c := newClient(t, posted.URL, nil)
	b := incBatch(t, service, "x")
	for name, a := range map[string]batch.Attempt{
		"no payload":  {Key: b.Key(), Number: 1},
		"bad service": {Key: batch.Key{Service: "a/../b::a000", ID: b.ID}, Number: 1, Payload: b.Payload},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Submit(t.Context(), a)
			assert.Contains(t, []batch.ErrorKind{batch.KindRejected, batch.KindMisconfigured}, dlt.Kind(err))
		})
	}
}

// TestAbsentService shows that a 404 is retried for a while, and is a misconfiguration after that
// (docs/ledgers/splinter.md#submitting).
func TestAbsentService(t *testing.T) {
	var status int
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(node.Close)
	const starting = 30 * time.Millisecond
	c := newClient(t, node.URL, &splinter.Options{StartingTimeout: starting})
	b := incBatch(t, service, "x")
	kind := func() batch.ErrorKind { return dlt.Kind(c.Submit(t.Context(), firstAttempt(b))) }
	becomes := func() {
		t.Helper()
		begun := time.Now()
		require.Equal(t, batch.KindUnavailable, kind())
		require.Eventually(t, func() bool { return kind() == batch.KindMisconfigured }, 30*time.Second, time.Millisecond)
		assert.Greater(t, time.Since(begun), starting)
	}
	status = 404
	becomes()
	_, err := c.BatchStatuses(t.Context(), service, []batch.Attempt{firstAttempt(b)})
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "a question is answered like a POST")
	other := b
	other.Service = "aaaaa-bbbbb::a001"
	assert.Equal(t, batch.KindUnavailable, dlt.Kind(c.Submit(t.Context(), firstAttempt(other))), "each service for itself")
	status = 202
	assert.Equal(t, batch.ErrorKind(""), kind())
	status = 404
	becomes() // the service has existed, and may be starting again
}

// A node closes its connections after 5 s. The client closes them earlier, since a POST may get
// lost in a closing connection.
func TestIdleConnectionsEndBeforeTheNodes(t *testing.T) {
	for name, own := range map[string]*http.Client{
		"default": nil, "own": {Transport: &http.Transport{}}, "default transport": {}, "longer": {Transport: &http.Transport{IdleConnTimeout: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conns := make(chan http.ConnState, 100)
			node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
			node.Config.ConnState = func(_ net.Conn, s http.ConnState) { conns <- s }
			node.Start()
			t.Cleanup(node.Close)
			c := newClient(t, node.URL, &splinter.Options{Client: own})
			require.NoError(t, c.Submit(t.Context(), firstAttempt(incBatch(t, service, "x"))))
			bound := time.NewTimer(4500 * time.Millisecond)
			defer bound.Stop()
			for {
				select {
				case s := <-conns:
					if s == http.StateClosed {
						return
					}
				case <-bound.C:
					require.Fail(t, "the connection is still open")
				}
			}
		})
	}
}
