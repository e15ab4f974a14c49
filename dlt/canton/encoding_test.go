package canton_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

// With a gateway that wants its own key, and compresses every answer, the client works, and the
// key shows in no error.
func TestGatewayThatCompresses(t *testing.T) {
	r := newTestClient(t, nil, nil)
	at, err := url.Parse(r.participant.URL())
	require.NoError(t, err)
	var zippedCount atomic.Int64
	front := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(at) },
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				return nil
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(text)
			_ = z.Close()
			zippedCount.Add(1)
			resp.Body, resp.ContentLength = io.NopCloser(&b), int64(b.Len())
			resp.Header.Set("Content-Length", strconv.Itoa(b.Len()))
			resp.Header.Set("Content-Encoding", "gzip")
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Api-Key") != "hunter2hunter2" {
			http.Error(w, "no key but "+req.Header.Get("X-Api-Key"), http.StatusForbidden)
			return
		}
		front.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	open := func(key string) *canton.Client {
		c, err := canton.New(server.URL, &canton.Options{UserID: "app", Header: http.Header{"X-Api-Key": {key}}})
		require.NoError(t, err)
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	r.client = open("hunter2hunter2")
	b := transfer("b")
	a := attempt(b, 1, r.prepare(b))
	require.NoError(t, r.submit(a))
	r.waitForStatus(a, batch.ReportedCommitted)
	assert.Equal(t, 1, r.participant.Count(cantontest.Accepted, "b"))
	assert.GreaterOrEqual(t, zippedCount.Load(), int64(3))

	_, err = open("wrongwrongwrong").Prepare(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	assert.NotContains(t, err.Error(), "wrongwrongwrong")
	_, err = canton.New(server.URL, &canton.Options{Header: http.Header{"Accept-Encoding": {"br"}}})
	require.ErrorContains(t, err, "Options.Header")
}
