package splintertest

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

// Start returns a network whose nodes listen on 127.0.0.1, and closes it at the end
// of the test.
func Start(t TB, o *Options) *Network {
	t.Helper()
	n, err := Listen(o)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(n.Close)
	return n
}

// Listen returns a network whose nodes listen on Options.Addrs. The caller must close it.
func Listen(o *Options) (*Network, error) {
	n, err := newNetwork(o)
	if err != nil {
		return nil, err
	}
	for i := range n.nodes {
		if err := n.Resume(i); err != nil {
			n.Close()
			return nil, err
		}
	}
	for _, s := range n.services {
		n.spawn(func() { n.run(s) })
		n.spawn(func() { n.post(s) })
	}
	return n, nil
}

// node is the listening side.
type node struct {
	*Network
	mux *http.ServeMux

	up          bool
	life        chan struct{} // closed when the process ends
	workers     []*worker
	connections int
	requests    int
	receipts    map[string]bool // one table for all services

	front    sync.Mutex
	addr     string // with its port, after the first listen
	listener net.Listener
	server   *http.Server
	served   chan struct{} // closed when Serve has returned
	connMu   sync.Mutex
	conns    map[net.Conn]struct{}
}

// URL returns the base URL of a node, "http://127.0.0.1:41234".
func (n *Network) URL(node int) string {
	v := n.nodes[node]
	v.front.Lock()
	defer v.front.Unlock()
	return "http://" + v.addr
}

// Resume makes a node listen again at the same address after a [Network.Stop].
func (n *Network) Resume(i int) error {
	v := n.nodes[i]
	v.front.Lock()
	defer v.front.Unlock()
	if v.listener != nil {
		return nil
	}
	select {
	case <-n.closed:
		return errors.New("splintertest: the network is closed")
	default:
	}
	addr := v.addr
	if addr == "" {
		addr = n.o.Addrs[i]
	}
	l, err := n.o.Listen(addr)
	if err != nil {
		return fmt.Errorf("splintertest: listening: %w", err)
	}
	v.listener, v.addr = l, l.Addr().String()
	server := &http.Server{
		Handler: v, ReadHeaderTimeout: time.Minute, IdleTimeout: n.o.KeepAlive, ConnState: v.track, ConnContext: v.assign,
		MaxHeaderBytes: 8 << 20, // a long query gets its own answer
	}
	served := make(chan struct{})
	v.server, v.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(l) // returns when the server is closed
	}()
	return nil
}

// Stop makes a node refuse connections from now on and cuts the open ones. The services behind
// it go on. Stop returns when the port is free.
func (n *Network) Stop(i int) {
	v := n.nodes[i]
	v.front.Lock()
	defer v.front.Unlock()
	if v.listener == nil {
		return
	}
	_ = v.server.Close() // Serve closes the listener, too; the second error does not matter
	<-v.served
	v.cut()
	v.listener, v.server = nil, nil
}

// Close stops all nodes for good and ends hanging requests. It may be called twice.
func (n *Network) Close() {
	n.once.Do(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		close(n.closed)
	})
	for i := range n.nodes {
		n.Stop(i)
	}
	n.work.Wait()
}

// track records the open connections, so that they can be cut.
func (v *node) track(c net.Conn, s http.ConnState) {
	v.connMu.Lock()
	defer v.connMu.Unlock()
	switch s {
	case http.StateNew:
		v.conns[c] = struct{}{}
	case http.StateClosed: // a hijacked connection is cut with the others
		delete(v.conns, c)
	}
}

func (v *node) cut() {
	v.connMu.Lock()
	conns := make([]net.Conn, 0, len(v.conns))
	for c := range v.conns {
		conns = append(conns, c)
	}
	clear(v.conns)
	v.connMu.Unlock()
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
