package sawtooth_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// secret is in a header of every request of these tests, and must never appear in an error.
const secret = "s3cr3t-token"

func secretHeader() http.Header { return http.Header{"Authorization": {"Bearer " + secret}} }

// requireNoSecrets asserts that an error shows neither the header nor the payload.
func requireNoSecrets(t *testing.T, err error) {
	t.Helper()
	for _, s := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", err)} {
		assert.NotContains(t, s, secret)
		assert.NotContains(t, s, "hello")
		assert.NotContains(t, s, "user:pass")
		assert.LessOrEqual(t, len(s), 1024)
	}
}

// newClient returns a client that has no connections left when the test ends.
func newClient(t testing.TB, url string, o *sawtooth.Options) *sawtooth.Client {
	t.Helper()
	c, err := sawtooth.New(url, o)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func attempt(t testing.TB) batch.Attempt {
	b := vectorBatchOf(t)
	return batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
}

func answerEnvelope(code int) string {
	return fmt.Sprintf(`{"error": {"code": %d, "message": "told %s and %s", "title": "T"}}`, code, secret, "Bearer "+secret)
}

// responseCases are all responses to a POST /batches (docs/ledgers/sawtooth.md#submitting).
var responseCases = []struct {
	name       string
	status     int
	body       string
	header     http.Header
	kind       batch.ErrorKind
	code       int
	retryAfter time.Duration
}{
	{name: "accepted", status: 202, body: `{"link": "http://x/batch_statuses?id=1"}`},
	{name: "accepted, nonsense", status: 202, body: "<html>"},
	{name: "accepted, nothing", status: 202},
	{name: "accepted, an error inside", status: 202, body: answerEnvelope(30)},
	{name: "200", status: 200, body: `{"link": ""}`, kind: batch.KindDoubt},
	{name: "201", status: 201, kind: batch.KindDoubt},
	{name: "204", status: 204, kind: batch.KindDoubt},

	{name: "400/30 refused", status: 400, body: answerEnvelope(30), kind: batch.KindRejected, code: 30},
	{name: "400/34 empty", status: 400, body: answerEnvelope(34), kind: batch.KindNotYet, code: 34},
	{name: "400/35 no list", status: 400, body: answerEnvelope(35), kind: batch.KindNotYet, code: 35},
	{name: "400/42 content type", status: 400, body: answerEnvelope(42), kind: batch.KindMisconfigured, code: 42},
	{name: "400 text", status: 400, body: "Bad Request " + secret, kind: batch.KindMisconfigured},
	{name: "400 HTML", status: 400, body: "<html>" + secret, header: http.Header{"Content-Type": {"text/html"}}, kind: batch.KindMisconfigured},
	{name: "400 JSON of others", status: 400, body: `{"message": "no"}`, kind: batch.KindDoubt},
	{name: "400 JSON cut off", status: 400, body: answerEnvelope(30)[:20], kind: batch.KindDoubt},
	{name: "400 JSON announced", status: 400, header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, kind: batch.KindDoubt},
	{name: "400 unknown code", status: 400, body: answerEnvelope(99), kind: batch.KindDoubt, code: 99},

	{name: "401", status: 401, kind: batch.KindMisconfigured},
	{name: "403", status: 403, kind: batch.KindMisconfigured},
	{name: "404", status: 404, body: "nginx", kind: batch.KindMisconfigured},
	{name: "405", status: 405, kind: batch.KindMisconfigured},
	{name: "407", status: 407, kind: batch.KindMisconfigured},
	{name: "415", status: 415, kind: batch.KindMisconfigured},

	{name: "408/19 not sent", status: 408, body: answerEnvelope(19), kind: batch.KindBusy, code: 19},
	{name: "408 of a proxy", status: 408, body: "timeout", kind: batch.KindDoubt},
	{name: "408 of another code", status: 408, body: answerEnvelope(17), kind: batch.KindDoubt, code: 17},
	{name: "413", status: 413, body: "too large", header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, kind: batch.KindRejected},
	{name: "413 of a proxy", status: 413, body: "<html>", header: http.Header{"Content-Type": {"text/html"}}, kind: batch.KindNotYet},
	{name: "429/31 full", status: 429, body: answerEnvelope(31), kind: batch.KindBusy, code: 31},
	{name: "429 of a proxy", status: 429, header: http.Header{"Retry-After": {"7"}}, kind: batch.KindBusy, retryAfter: 7 * time.Second},
	{name: "429 for ever", status: 429, header: http.Header{"Retry-After": {"99999999999999999999"}}, kind: batch.KindBusy, retryAfter: time.Hour},
	{name: "406", status: 406, kind: batch.KindDoubt},
	{name: "409", status: 409, kind: batch.KindDoubt},
	{name: "410", status: 410, kind: batch.KindDoubt},
	{name: "418", status: 418, body: answerEnvelope(30), kind: batch.KindDoubt, code: 30},
	{name: "499", status: 499, kind: batch.KindDoubt},

	{name: "300", status: 300, kind: batch.KindDoubt},
	{name: "301", status: 301, header: redirectHeader, kind: batch.KindMisconfigured},
	{name: "302", status: 302, header: redirectHeader, kind: batch.KindMisconfigured},
	{name: "303", status: 303, header: redirectHeader, kind: batch.KindDoubt},
	{name: "304", status: 304, kind: batch.KindDoubt},
	{name: "307", status: 307, header: redirectHeader, kind: batch.KindMisconfigured},
	{name: "308", status: 308, header: redirectHeader, kind: batch.KindMisconfigured},

	{name: "500/10", status: 500, body: answerEnvelope(10), kind: batch.KindDoubt, code: 10},
	{name: "500/20", status: 500, body: answerEnvelope(20), kind: batch.KindDoubt, code: 20},
	{name: "500 text", status: 500, body: "500 Internal Server Error", kind: batch.KindDoubt},
	{name: "501", status: 501, kind: batch.KindDoubt},
	{name: "502", status: 502, kind: batch.KindDoubt},
	{name: "503/15", status: 503, body: answerEnvelope(15), kind: batch.KindDoubt, code: 15},
	{name: "503/17 may still execute", status: 503, body: answerEnvelope(17), kind: batch.KindDoubt, code: 17},
	{name: "503/18", status: 503, body: answerEnvelope(18), kind: batch.KindDoubt, code: 18},
	{name: "503 with a code that is certain elsewhere", status: 503, body: answerEnvelope(30), kind: batch.KindDoubt, code: 30},
	{name: "503 of a proxy", status: 503, header: http.Header{"Retry-After": {"7"}}, kind: batch.KindDoubt},
	{name: "504", status: 504, kind: batch.KindDoubt},
	{name: "599", status: 599, kind: batch.KindDoubt},
}

var redirectHeader = http.Header{"Location": {"/elsewhere?token=" + secret}}

func TestSubmitResponses(t *testing.T) {
	for _, row := range responseCases {
		t.Run(row.name, func(t *testing.T) {
			var paths []string
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
				w.Header()["Content-Type"] = nil
				maps.Copy(w.Header(), row.header)
				w.WriteHeader(row.status)
				_, _ = w.Write([]byte(row.body))
			}))
			defer node.Close()
			c := newClient(t, node.URL, &sawtooth.Options{Header: secretHeader()})
			err := c.Submit(context.Background(), attempt(t))
			assert.Equal(t, []string{"/batches"}, paths, "one request, and nowhere else")
			assert.Equal(t, row.kind, dlt.Kind(err), "%v", err)
			if row.kind == "" {
				require.NoError(t, err)
				return
			}
			requireNoSecrets(t, err)
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, row.status, e.StatusCode)
			assert.Equal(t, row.code, e.Code)
			assert.Equal(t, row.retryAfter, e.RetryAfter)
			if row.code != 0 {
				assert.Equal(t, "told [redacted] and [redacted]", e.Message)
			} else {
				assert.Empty(t, e.Message, "text that is not the node's is not repeated")
			}
		})
	}
}

// Every HTTP status leads to a result, and only 202 is an acceptance.
func TestOnlyAcceptedIsAccepted(t *testing.T) {
	var status int
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer node.Close()
	c := newClient(t, node.URL, nil)
	for status = 200; status < 600; status++ {
		err := c.Submit(context.Background(), attempt(t))
		assert.Equal(t, status == 202, err == nil, "%d", status)
		if status >= 500 {
			assert.Equal(t, batch.KindDoubt, dlt.Kind(err), "%d", status)
		}
	}
}
