package cantontest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"syscall"
)

// Client returns a client that reaches the participant without sockets, for any host in the
// URL. It is for tests in a testing/synctest bubble: a participant made there
// ([NewParticipant]) uses the bubble's time. There are no WebSockets
// (canton.Options.PollOnly), and Stop and Restart cut nothing.
func (p *Participant) Client() *http.Client {
	return &http.Client{Transport: inProcessTransport{p}}
}

type inProcessTransport struct{ participant *Participant }

// RoundTrip implements [http.RoundTripper]. It does not wait for a request whose context is
// done.
func (t inProcessTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		if trace.GetConn != nil {
			trace.GetConn(r.URL.Host)
		}
		if trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{})
		}
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	out := make(chan *recordedAnswer, 1)
	go func() {
		rec := &recordedAnswer{header: http.Header{}}
		defer func() {
			rec.isCut = recover() != nil
			_ = r.Body.Close()
			out <- rec
		}()
		t.participant.ServeHTTP(rec, r)
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case rec := <-out:
		return rec.response(r)
	}
}

// recordedAnswer records an answer while a handler writes it.
type recordedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
	isCut  bool // true if the connection was cut before the end
}

func (r *recordedAnswer) Header() http.Header { return r.header }

func (r *recordedAnswer) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recordedAnswer) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

func (r *recordedAnswer) response(req *http.Request) (*http.Response, error) {
	if r.isCut && r.status == 0 {
		return nil, fmt.Errorf("cantontest: %w", syscall.ECONNRESET)
	}
	var body io.Reader = &r.body
	if r.isCut {
		body = io.MultiReader(body, brokenBody{})
	}
	r.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprint(r.status, " ", http.StatusText(r.status)), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: r.header, Body: io.NopCloser(body), ContentLength: -1, Request: req,
	}, nil
}

// brokenBody is the end of a body whose connection was cut: Read returns io.ErrUnexpectedEOF.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
