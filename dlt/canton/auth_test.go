package canton_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/canton"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
)

func TestATokenIsSentWithEachRequest(t *testing.T) {
	users := map[string]cantontest.User{
		"old": {ID: "app", ActAs: []string{"Alice"}, TokenExpired: true},
		"new": {ID: "app", ActAs: []string{"Alice"}},
	}
	var token atomic.Value
	token.Store("old")
	asked := atomic.Int64{}
	r := newTestClient(t, &cantontest.Options{Users: users}, &canton.Options{Token: func(context.Context) (string, error) {
		asked.Add(1)
		return token.Load().(string), nil
	}})
	b := transfer("b")
	_, err := r.client.Prepare(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	err = r.submit(attempt(b, 1, nil))
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "401: %v", err)
	_, err = r.askStatus(attempt(b, 1, nil))
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	require.EqualValues(t, 3, asked.Load(), "it is asked before every request")

	token.Store("new") // the token source now returns another token
	a := attempt(b, 1, r.prepare(b))
	require.NoError(t, r.submit(a))
	r.waitForStatus(a, batch.ReportedCommitted)

	other := transfer("other")
	other.Service = "Carol"
	err = r.submit(attempt(other, 1, nil))
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "403: %v", err)
	_, err = r.askStatus(attempt(other, 1, []byte(`{"offset":10}`)))
	assert.Equal(t, batch.KindMisconfigured, dlt.Kind(err), "%v", err)
	assert.Zero(t, r.participant.Count(cantontest.Accepted, "other"))
}

func TestTokenSource(t *testing.T) {
	secret := errors.New("the source was told password hunter2")
	for name, c := range map[string]struct {
		token string
		err   error
		want  batch.ErrorKind
	}{
		"it fails":             {"", secret, batch.KindUnavailable},
		"a person must act":    {"", errors.Join(dlt.ErrMisconfigured, secret), batch.KindMisconfigured},
		"no token":             {"hunter2\r\nX-Evil: 1", nil, batch.KindMisconfigured},
		"none":                 {"", nil, ""},
		"a token nobody needs": {"hunter2", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestClient(t, nil, &canton.Options{UserID: "app", Token: func(context.Context) (string, error) { return c.token, c.err }})
			err := r.submit(attempt(transfer("b"), 1, nil))
			assert.Equal(t, c.want, dlt.Kind(err), "%v", err)
			events := r.client.Events(t.Context(), []batch.ServiceID{"Alice"}, func(dlt.Event) error { return errStopStream })
			for _, err := range []error{err, events} {
				if c.want == "" || err == nil {
					continue
				}
				assert.NotContains(t, err.Error(), "hunter2")
				if c.err != nil {
					assert.ErrorIs(t, err, secret, "whoever wants the cause finds it")
				}
				assert.Zero(t, r.participant.Count(cantontest.Posted, "b"), "nothing was sent")
			}
		})
	}
}

// An error of the token source, of whatever kind, says nothing about the batch, which was not
// sent.
func TestErrorOfATokenSourceIsNoDoubt(t *testing.T) {
	for _, kind := range []error{dlt.ErrDoubt, dlt.ErrRejected, dlt.ErrBusy, errors.Join(dlt.ErrMisconfigured, dlt.ErrBusy)} {
		r := newTestClient(t, nil, &canton.Options{UserID: "app", Token: func(context.Context) (string, error) { return "", kind }})
		err := r.submit(attempt(transfer("b"), 1, nil))
		assert.Contains(t, []batch.ErrorKind{batch.KindUnavailable, batch.KindMisconfigured}, dlt.Kind(err), "%v", err)
	}
}

var errStopStream = errors.New("enough")

// A token never shows in an error, whatever an answer contains.
func TestTokensNeverShow(t *testing.T) {
	const token = "eyJhbGciOiJIUzI1NiJ9.c2VjcmV0.hunter2"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"code": "PARTICIPANT_BACKPRESSURE", "cause": "you said " + r.Header.Get("Authorization"), "errorCategory": 2, "grpcCodeValue": 10,
			"retryInfo": "3 seconds",
		})
	}))
	defer echo.Close()
	c, err := canton.New(echo.URL, &canton.Options{Token: func(context.Context) (string, error) { return token, nil }})
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	b := transfer("b")
	_, prepare := c.Prepare(t.Context(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
	_, statuses := c.BatchStatuses(t.Context(), "Alice", []batch.Attempt{{Key: b.Key(), Prepared: []byte(`{"offset":0}`)}})
	for name, err := range map[string]error{
		"submit": c.Submit(t.Context(), attempt(b, 1, nil)), "prepare": prepare, "statuses": statuses,
		"events": c.Events(t.Context(), []batch.ServiceID{"Alice"}, func(dlt.Event) error { return nil }),
	} {
		require.ErrorContains(t, err, "you said Bearer [redacted]", name)
		assert.Equal(t, batch.KindBusy, dlt.Kind(err), name)
		assert.NotContains(t, err.Error(), "hunter2", name)
		var e *dlt.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, 3*time.Second, e.RetryAfter, name)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		url     string
		options canton.Options
	}{
		"no URL":                  {"", canton.Options{}},
		"no host":                 {"http://", canton.Options{}},
		"another scheme":          {"ftp://localhost", canton.Options{}},
		"port":                    {"http://localhost:0", canton.Options{}},
		"password":                {"http://me:hunter2@localhost", canton.Options{}},
		"query":                   {"http://localhost?token=hunter2", canton.Options{}},
		"negative":                {"http://localhost", canton.Options{Grace: -1}},
		"negative count":          {"http://localhost", canton.Options{LookBack: -1}},
		"negative limit":          {"http://localhost", canton.Options{PageLimit: -1}},
		"period below late":       {"http://localhost", canton.Options{DeduplicationPeriod: 20e9}},
		"period below a second":   {"http://localhost", canton.Options{DeduplicationPeriod: 1e6, LateArrival: 1}},
		"idle wait":               {"http://localhost", canton.Options{IdleWait: 1000}},
		"user":                    {"http://localhost", canton.Options{UserID: "no spaces"}},
		"client and TLS settings": {"http://localhost", canton.Options{Client: http.DefaultClient, TLSConfig: &tls.Config{}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := canton.New(c.url, &c.options)
			var inputErr *batch.InputError
			require.ErrorAs(t, err, &inputErr)
			assert.NotContains(t, err.Error(), "hunter2")
		})
	}
}

// The client follows no redirects: a command is not sent twice, and a token is not sent to another
// address.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		var redirectedCount atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/elsewhere" {
				redirectedCount.Add(1)
				_, _ = io.WriteString(w, `{"offset":1}`)
				return
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		c, err := canton.New(s.URL, nil)
		require.NoError(t, err)
		_, prepare := c.Prepare(t.Context(), batch.Attempt{Key: transfer("b").Key(), Number: 1})
		require.Error(t, prepare)
		require.Error(t, c.Submit(t.Context(), attempt(transfer("b"), 1, nil)))
		_, err = c.BatchStatuses(t.Context(), "Alice", []batch.Attempt{{Key: transfer("b").Key(), Prepared: []byte(`{"offset":0}`)}})
		require.Error(t, err)
		assert.Zero(t, redirectedCount.Load(), "%d", status)
		c.CloseIdleConnections()
		s.Close()
	}
}

// The POST of a submission has the traceparent of its context, and no other request has one.
func TestTraceParentIsSent(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	sent := make(chan string, 10)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(node.Close)
	c, err := canton.New(node.URL, &canton.Options{UserID: "app"})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	a := attempt(transfer("b1"), 1, nil)
	require.Error(t, c.Submit(t.Context(), a))
	assert.Empty(t, <-sent)
	require.Error(t, c.Submit(dlt.WithTraceParent(t.Context(), parent), a))
	assert.Equal(t, parent, <-sent)
}
