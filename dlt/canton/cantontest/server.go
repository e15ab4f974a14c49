package cantontest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// TB is the part of testing.TB that [Start] needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start returns a participant that listens on 127.0.0.1, and closes it at the end of the test.
func Start(t TB, o *Options) *Participant {
	t.Helper()
	p, err := Listen(o)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(p.Close)
	return p
}

// Listen returns a participant that listens on Options.Addr. The caller must close it.
func Listen(o *Options) (*Participant, error) {
	p, err := NewParticipant(o)
	if err != nil {
		return nil, err
	}
	if err := p.Resume(); err != nil {
		return nil, err
	}
	return p, nil
}

// front is the listening side. No goroutine holds its locks and the participant's together.
type front struct {
	mu       sync.Mutex
	addr     string // with its port, after the first listen
	listener net.Listener
	server   *http.Server
	served   chan struct{} // closed when Serve has returned

	connMu  sync.Mutex
	conns   map[net.Conn]struct{}
	sockets map[*websocket.Conn]struct{}
	down    bool           // no new sockets
	busy    sync.WaitGroup // sockets in use
}

func newFront() front {
	return front{conns: map[net.Conn]struct{}{}, sockets: map[*websocket.Conn]struct{}{}}
}

// URL returns the base URL, "http://127.0.0.1:41234"; "" before the first listen.
func (p *Participant) URL() string {
	p.front.mu.Lock()
	defer p.front.mu.Unlock()
	if p.front.addr == "" {
		return ""
	}
	return "http://" + p.front.addr + p.o.PathPrefix
}

// Resume listens again at the same address after a [Participant.Stop].
func (p *Participant) Resume() error {
	f := &p.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		return nil
	}
	select {
	case <-p.closed:
		return errors.New("cantontest: the participant is closed")
	default:
	}
	addr := f.addr
	if addr == "" {
		addr = p.o.Addr
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cantontest: listening: %w", err)
	}
	f.listener, f.addr = l, l.Addr().String()
	f.connMu.Lock()
	f.down = false
	f.connMu.Unlock()
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ConnState: p.track}
	served := make(chan struct{})
	f.server, f.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(l) // returns when the server is closed
	}()
	return nil
}

// Stop refuses connections from now on and cuts the open ones. Accepted submissions complete
// all the same.
func (p *Participant) Stop() {
	f := &p.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		return
	}
	_ = f.server.Close() // Serve closes the listener, too; the second error does not matter
	<-f.served
	f.connMu.Lock()
	f.down = true
	f.connMu.Unlock()
	p.cut()
	f.busy.Wait()
	f.listener, f.server = nil, nil
}

// Close stops the participant for good and ends hanging requests. It may be called twice.
func (p *Participant) Close() {
	p.once.Do(func() { close(p.closed) })
	p.Stop()
}

// DropStreams ends all open streams without a goodbye. New ones can be opened.
func (p *Participant) DropStreams() {
	p.front.connMu.Lock()
	open := slices.Collect(maps.Keys(p.front.sockets))
	p.front.connMu.Unlock()
	for _, c := range open {
		_ = c.CloseNow() // it may have ended already
	}
}

func (p *Participant) track(c net.Conn, s http.ConnState) {
	p.front.connMu.Lock()
	defer p.front.connMu.Unlock()
	switch s {
	case http.StateNew:
		p.front.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(p.front.conns, c)
	}
}

func (p *Participant) cut() {
	p.front.connMu.Lock()
	conns := slices.Collect(maps.Keys(p.front.conns))
	p.front.connMu.Unlock()
	for _, c := range conns {
		abort(c)
	}
	p.DropStreams()
}

// abort closes a connection with a reset.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// reset ends the connection of a request without an answer.
func reset(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c, _, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	abort(c)
}

// send writes the answer, changed by the fault.
func (p *Participant) send(w http.ResponseWriter, r *http.Request, a answer, f Fault) {
	a = f.replace(a)
	switch f.Answer {
	case AnswerNever:
		select {
		case <-r.Context().Done():
		case <-p.closed:
		}
		panic(http.ErrAbortHandler)
	case AnswerClosed:
		panic(http.ErrAbortHandler)
	case AnswerReset:
		reset(w)
		return
	case AnswerTruncated:
		w.Header().Set("Content-Type", a.contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)+1))
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body[:len(a.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", a.contentType)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may have left
}
