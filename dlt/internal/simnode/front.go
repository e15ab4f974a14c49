// Package simnode has the parts that all simulated nodes share: the server that can be killed, a
// listener without sockets, answers that break off, and random draws by a seed.
package simnode

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// Front is the server of a simulated node. The zero value does not listen yet. Its methods may be
// called concurrently. The caller must not hold a lock that a request of the node needs.
type Front struct {
	// CutHijacked is true if connections that a handler has taken over, such as websockets, are
	// closed with the others. Otherwise the code that has taken a connection over closes it.
	CutHijacked bool

	mu            sync.Mutex
	listenAddress string // address with the port; set by the first listen
	listener      net.Listener
	server        *http.Server
	serveEnd      chan struct{} // closed when Serve has returned

	connMu sync.Mutex
	conns  map[net.Conn]struct{}
}

// Addr returns the address with its port; "" before the first listen.
func (f *Front) Addr() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listenAddress
}

// URL returns the base URL, "http://127.0.0.1:41234"; "" before the first listen.
func (f *Front) URL() string {
	if addr := f.Addr(); addr != "" {
		return "http://" + addr
	}
	return ""
}

// Listener returns the listener while the node is up, and nil while it is down.
func (f *Front) Listener() net.Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listener
}

// Resume serves at the listener that listen returns, unless the node is up already. addr is the
// node's last address, "" the first time. server must be a new server; Resume sets its ConnState.
func (f *Front) Resume(listen func(addr string) (net.Listener, error), server *http.Server) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		return nil
	}
	l, err := listen(f.listenAddress)
	if err != nil {
		return err
	}
	server.ConnState = f.trackConn
	served := make(chan struct{})
	f.listener, f.listenAddress, f.server, f.serveEnd = l, l.Addr().String(), server, served
	go func() {
		defer close(served)
		_ = server.Serve(l) // Serve returns when the server is closed
	}()
	return nil
}

// Stop refuses connections from now on, resets the open ones, and calls then. It returns when the
// port is free.
func (f *Front) Stop(then func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		return
	}
	_ = f.server.Close() // Serve closes the listener, too; an error of the second close does not matter
	<-f.serveEnd
	f.Cut()
	then()
	f.listener, f.server = nil, nil
}

// Cut ends the open connections with a reset.
func (f *Front) Cut() {
	f.connMu.Lock()
	conns := slices.Collect(maps.Keys(f.conns))
	clear(f.conns)
	f.connMu.Unlock()
	for _, c := range conns {
		Abort(c)
	}
}

// trackConn records the open connections, so that they can be cut.
func (f *Front) trackConn(c net.Conn, s http.ConnState) {
	f.connMu.Lock()
	defer f.connMu.Unlock()
	switch {
	case s == http.StateNew:
		if f.conns == nil {
			f.conns = map[net.Conn]struct{}{}
		}
		f.conns[c] = struct{}{}
	case s == http.StateClosed, s == http.StateHijacked && !f.CutHijacked:
		delete(f.conns, c)
	}
}

// Abort closes a connection with a reset.
func Abort(c net.Conn) {
	if t, ok := c.(interface{ SetLinger(seconds int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// Reset ends the connection of a request without an answer.
func Reset(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c, _, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	Abort(c)
}

// Truncate announces a body of announced bytes, sends half of body, and closes the connection.
func Truncate(w http.ResponseWriter, status int, contentType string, body []byte, announced int) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(announced))
	w.WriteHeader(status)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
