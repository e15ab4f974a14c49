package simnode

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// memoryListener is a listener whose connections are pipes. testing/synctest recognizes a
// goroutine that waits for a pipe as blocked, unlike one that waits for a socket, so its clock
// goes on.
type memoryListener struct {
	addr      memoryAddr
	conns     chan net.Conn
	closing   chan struct{}
	closeOnce sync.Once
}

// NewMemoryListener returns a listener without a socket, at an address that [Front.Client]
// reaches.
func NewMemoryListener(addr string) net.Listener {
	return &memoryListener{addr: memoryAddr(addr), conns: make(chan net.Conn), closing: make(chan struct{})}
}

// Accept implements net.Listener.
func (m *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closing:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memoryListener) Close() error {
	m.closeOnce.Do(func() { close(m.closing) })
	return nil
}

// Addr implements net.Listener.
func (m *memoryListener) Addr() net.Addr { return m.addr }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

func (m *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.closing:
		return nil, refusedError(m.addr)
	}
}

// refusedError returns the error of dialling a stopped node.
func refusedError(a memoryAddr) error {
	return &net.OpError{Op: "dial", Net: "memory", Addr: a, Err: syscall.ECONNREFUSED}
}

// Client returns a client that reaches the node, in memory if inMemory is true, and keeps no idle
// connections. It follows no redirects, because a node sends none.
func (f *Front) Client(inMemory bool) *http.Client {
	t := &http.Transport{DisableKeepAlives: true}
	if inMemory {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			m, ok := f.Listener().(*memoryListener)
			if !ok {
				return nil, refusedError(memoryAddr(f.Addr()))
			}
			return m.dial(ctx)
		}
	}
	return &http.Client{Transport: t}
}
