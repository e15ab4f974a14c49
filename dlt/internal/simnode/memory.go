package simnode

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// memory is a listener whose connections are pipes. Unlike sockets they block in a way that
// testing/synctest recognizes, so its clock goes on.
type memory struct {
	addr   memoryAddr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Memory returns a listener without a socket, at an address that [Front.Client] reaches.
func Memory(addr string) net.Listener {
	return &memory{addr: memoryAddr(addr), conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr implements net.Listener.
func (m *memory) Addr() net.Addr { return m.addr }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.closed:
		return nil, refused(m.addr)
	}
}

// refused returns the error of dialling a stopped node.
func refused(a memoryAddr) error {
	return &net.OpError{Op: "dial", Net: "memory", Addr: a, Err: syscall.ECONNREFUSED}
}

// Client returns a client that reaches the node, through memory where it listens there, and keeps
// no idle connections. It follows no redirects: a node sends none.
func (f *Front) Client(inMemory bool) *http.Client {
	t := &http.Transport{DisableKeepAlives: true}
	if inMemory {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			m, ok := f.Listener().(*memory)
			if !ok {
				return nil, refused(memoryAddr(f.Addr()))
			}
			return m.dial(ctx)
		}
	}
	return &http.Client{Transport: t}
}
