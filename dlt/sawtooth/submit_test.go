package sawtooth_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
)

// rawNode returns the address of a node whose connections serve handles, without HTTP.
func rawNode(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

// deadURL returns an address that refuses connections.
func deadURL(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

func TestSubmitOnTheWire(t *testing.T) {
	var got *http.Request
	var body []byte
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		http.SetCookie(w, &http.Cookie{Name: "sticky", Value: "1"})
		w.WriteHeader(http.StatusAccepted)
	}))
	defer node.Close()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	own := &http.Client{Jar: jar, Transport: &http.Transport{}}
	c := newClient(t, node.URL+"/prefix/", &sawtooth.Options{Client: own, Header: secretHeader()})
	for range 2 {
		require.NoError(t, c.Submit(context.Background(), attempt(t)))
		assert.Equal(t, http.MethodPost, got.Method)
		assert.Equal(t, "/prefix/batches", got.RequestURI)
		assert.Equal(t, vectorListSum, sha256Hex(body))
		assert.EqualValues(t, 908, got.ContentLength)
		assert.Empty(t, got.TransferEncoding)
		got.Header.Del("User-Agent")
		assert.Equal(t, http.Header{
			"Content-Type":    {"application/octet-stream"},
			"Content-Length":  {"908"},
			"Accept-Encoding": {"identity"},
			"Authorization":   {"Bearer " + secret},
		}, got.Header)
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	require.NoError(t, c.Submit(dlt.WithTraceParent(t.Context(), parent), attempt(t)))
	assert.Equal(t, parent, got.Header.Get("Traceparent"), "only where the context has one")
	assert.Nil(t, own.CheckRedirect, "the caller's client stays as it is")
	assert.Same(t, jar, own.Jar)
}

func TestSubmitSendsAnEmptyPayloadNowhere(t *testing.T) {
	c := newClient(t, deadURL(t), nil)
	require.ErrorIs(t, c.Submit(context.Background(), batch.Attempt{Key: batch.Key{ID: vectorBatch}}), dlt.ErrRejected)
}

func TestSubmitTransportErrors(t *testing.T) {
	readRequest := func(c net.Conn) { // reads the whole request, since an unread rest would cause an early reset
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		total, buf := 0, make([]byte, 4096)
		for total < 908 {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			total += n
		}
	}
	tlsNode := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsNode.Config.ErrorLog = discardLog
	tlsNode.StartTLS()
	defer tlsNode.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()

	for name, c := range map[string]struct {
		url      string
		options  sawtooth.Options
		wantKind batch.ErrorKind
	}{
		"refused":          {url: deadURL(t), wantKind: batch.KindUnavailable},
		"no such host":     {url: "http://nowhere.invalid", wantKind: batch.KindUnavailable},
		"closed at once":   {url: rawNode(t, func(net.Conn) {}), wantKind: batch.KindDoubt},
		"closed after all": {url: rawNode(t, readRequest), wantKind: batch.KindDoubt},
		"no HTTP":          {url: rawNode(t, func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, strings.Repeat(secret, 100)) }), wantKind: batch.KindDoubt},
		"headers cut off":  {url: rawNode(t, func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, "HTTP/1.1 202 Acc") }), wantKind: batch.KindDoubt},
		"bad redirect": {url: rawNode(t, func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: http://%%"+secret+"\r\nContent-Length: 0\r\n\r\n")
		}), wantKind: batch.KindDoubt},
		"unknown authority":         {url: tlsNode.URL, wantKind: batch.KindMisconfigured},
		"another name":              {url: tlsNode.URL, options: sawtooth.Options{TLSConfig: tlsConfigFor(tlsNode, "other.invalid")}, wantKind: batch.KindMisconfigured},
		"no TLS there":              {url: strings.Replace(plain.URL, "http:", "https:", 1), wantKind: batch.KindMisconfigured},
		"a transport without hooks": {url: plain.URL, options: sawtooth.Options{Client: &http.Client{Transport: brokenTransport{}}}, wantKind: batch.KindDoubt},
		"a trusted authority":       {url: tlsNode.URL, options: sawtooth.Options{TLSConfig: tlsConfigFor(tlsNode, "")}, wantKind: batch.KindMisconfigured /* 404, so it got through */},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Header = secretHeader()
			client := newClient(t, c.url, &c.options)
			err := client.Submit(context.Background(), attempt(t))
			assert.Equal(t, c.wantKind, dlt.Kind(err), "%v", err)
			requireNoSecrets(t, err)
			var e *dlt.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, name == "a trusted authority", e.StatusCode == http.StatusNotFound, "%v", err)
		})
	}
}

func tlsConfigFor(s *httptest.Server, name string) *tls.Config {
	pool := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12}
}

// brokenTransport returns an error, and calls no trace hook that would say what it did.
type brokenTransport struct{}

func (brokenTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("token endpoint says no")
}

func TestSubmitAndContext(t *testing.T) {
	arrived := make(chan struct{}, 1)
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer node.Close()
	c := newClient(t, node.URL, nil)

	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-arrived; cancel() }()
	err := c.Submit(ctx, attempt(t))
	assert.Equal(t, batch.KindDoubt, dlt.Kind(err))
	require.ErrorIs(t, err, context.Canceled)

	err = c.Submit(ctx, attempt(t))
	assert.Equal(t, batch.KindUnavailable, dlt.Kind(err), "over before it began, so that nothing was sent")
	require.ErrorIs(t, err, context.Canceled)

	for limit := 50 * time.Millisecond; ; limit *= 2 { // a busy machine may send nothing in so short a time
		ctx, cancel = context.WithTimeout(context.Background(), limit)
		err = c.Submit(ctx, attempt(t))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if dlt.Kind(err) != batch.KindUnavailable {
			break
		}
	}
	assert.Equal(t, batch.KindDoubt, dlt.Kind(err))
	<-arrived
}

// A payload belongs to the caller again when Submit returns, even while net/http is still writing
// it. The race detector finds a breach.
func TestSubmitDoesNotKeepThePayload(t *testing.T) {
	began := make(chan struct{}, 1)
	release := make(chan struct{})
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 1))
		began <- struct{}{}
		<-release
	}))
	defer node.Close()
	defer close(release)
	c := newClient(t, node.URL, nil)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-began; cancel() }()
	a := batch.Attempt{Key: batch.Key{ID: vectorBatch}, Payload: make([]byte, 9<<20)}
	assert.Equal(t, batch.KindDoubt, dlt.Kind(c.Submit(ctx, a)))
	clear(a.Payload)
}

// A 202 is an acceptance, whether or not its body ever comes.
func TestSubmitAcceptedWithoutBody(t *testing.T) {
	t.Run("cut off", func(t *testing.T) {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"link": "`)
		}))
		defer node.Close()
		require.NoError(t, newClient(t, node.URL, nil).Submit(context.Background(), attempt(t)))
	})
	t.Run("hanging", func(t *testing.T) {
		release := make(chan struct{})
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_ = http.NewResponseController(w).Flush()
			<-release
		}))
		defer node.Close()
		defer close(release)
		done := make(chan error, 1)
		go func() { done <- newClient(t, node.URL, nil).Submit(context.Background(), attempt(t)) }()
		select {
		case err := <-done:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("Submit waits for the body of an answer that it has")
		}
	})
}

func TestSubmitUsesConnectionsAgain(t *testing.T) {
	addrs, n := make(map[string]bool), 0
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addrs[r.RemoteAddr] = true
		_, _ = io.Copy(io.Discard, r.Body)
		n++
		w.WriteHeader([]int{202, 400, 429, 503}[n%4])
		_, _ = io.WriteString(w, strings.Repeat(" ", 10_000))
	}))
	defer node.Close()
	c := newClient(t, node.URL, nil)
	for range 8 {
		_ = c.Submit(context.Background(), attempt(t))
	}
	assert.Len(t, addrs, 1)
}

// A transport may go on reading a body after it has returned. It then gets no more bytes of the
// payload.
func TestSubmitReleasesTheBody(t *testing.T) {
	var body io.ReadCloser
	c := newClient(t, "http://localhost:8008", &sawtooth.Options{Client: &http.Client{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body = r.Body
			_, err := io.ReadFull(body, make([]byte, 10))
			return nil, errors.Join(io.ErrUnexpectedEOF, err)
		}),
	}})
	require.ErrorIs(t, c.Submit(context.Background(), attempt(t)), dlt.ErrDoubt)
	n, err := body.Read(make([]byte, 10))
	assert.Zero(t, n)
	require.Error(t, err)
	assert.NotErrorIs(t, err, io.EOF)
}
