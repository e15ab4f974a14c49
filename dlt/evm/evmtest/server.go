package evmtest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// TB is the part of testing.TB that [Start] needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start returns a node that listens on 127.0.0.1, and closes it at the end of the test.
func Start(t TB, o *Options) *Node {
	t.Helper()
	n, err := Listen(o)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(n.Close)
	return n
}

// Listen returns a node that listens on Options.Addr. The caller must close it.
func Listen(o *Options) (*Node, error) {
	n, err := newNode(o)
	if err != nil {
		return nil, err
	}
	if err := n.Resume(); err != nil {
		return nil, err
	}
	return n, nil
}

// front is the listening side. No goroutine holds its lock and the node's together.
type front struct {
	mu       sync.Mutex
	addr     string // with its port, after the first listen
	listener net.Listener
	server   *http.Server
	served   chan struct{} // closed when Serve has returned
	connMu   sync.Mutex
	conns    map[net.Conn]struct{}
}

// URL returns the address of the node, "http://127.0.0.1:41234"; "" before the first listen.
func (n *Node) URL() string {
	n.front.mu.Lock()
	defer n.front.mu.Unlock()
	if n.front.addr == "" {
		return ""
	}
	return "http://" + n.front.addr
}

// Resume starts the node again after [Node.Kill] or [Node.Stop], at the same address.
func (n *Node) Resume() error {
	f := &n.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		return nil
	}
	select {
	case <-n.closed:
		return errors.New("evmtest: the node is closed")
	default:
	}
	l, err := n.listen()
	if err != nil {
		return fmt.Errorf("evmtest: listening: %w", err)
	}
	n.restart()
	f.listener, f.addr = l, l.Addr().String()
	server := &http.Server{Handler: n, ReadHeaderTimeout: time.Minute, ConnState: n.track}
	served := make(chan struct{})
	f.server, f.served = server, served
	go func() {
		defer close(served)
		// Serve returns when the server is closed.
		_ = server.Serve(l)
	}()
	return nil
}

func (n *Node) restart() {
	n.locked(func(now time.Time) {
		if n.down {
			n.begin(now)
		}
	})
}

func (n *Node) listen() (net.Listener, error) {
	if n.o.InMemory {
		return newMemory(), nil
	}
	addr := n.front.addr
	if addr == "" {
		addr = n.o.Addr
	}
	return net.Listen("tcp", addr)
}

// shut refuses connections from now on and cuts the open ones.
func (n *Node) shut() {
	f := &n.front
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		return
	}
	// Serve closes the listener, too; the second error does not matter.
	_ = f.server.Close()
	<-f.served
	n.cut()
	f.listener, f.server = nil, nil
}

// Close ends the node for good, and hanging requests with it. It may be called twice.
func (n *Node) Close() {
	n.once.Do(func() { close(n.closed) })
	n.Kill()
}

// track records the open connections, so that they can be cut.
func (n *Node) track(c net.Conn, s http.ConnState) {
	n.front.connMu.Lock()
	defer n.front.connMu.Unlock()
	switch s {
	case http.StateNew:
		n.front.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(n.front.conns, c)
	}
}

func (n *Node) cut() {
	n.front.connMu.Lock()
	conns := make([]net.Conn, 0, len(n.front.conns))
	for c := range n.front.conns {
		conns = append(conns, c)
	}
	n.front.connMu.Unlock()
	for _, c := range conns {
		abort(c)
	}
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

// truncated announces a whole body and sends half of it.
func truncated(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
