package evmtest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// memoryAddr is the address of a node without a socket.
const memoryAddr = "evm.test"

// memory is a listener whose connections are pipes. Unlike sockets they block in a way that
// testing/synctest recognizes, so its clock goes on.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), closed: make(chan struct{})} }

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
func (m *memory) Addr() net.Addr { return memoryAddress{} }

type memoryAddress struct{}

func (memoryAddress) Network() string { return "memory" }
func (memoryAddress) String() string  { return memoryAddr }

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.closed:
		return nil, refusedError()
	}
}

// Client returns a client that reaches the node, with or without Options.InMemory, and keeps
// no idle connections. It follows no redirects; there are none.
func (n *Node) Client() *http.Client {
	t := &http.Transport{DisableKeepAlives: true}
	if n.o.InMemory {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			n.front.mu.Lock()
			m, ok := n.front.listener.(*memory)
			n.front.mu.Unlock()
			if !ok {
				return nil, refusedError()
			}
			return m.dial(ctx)
		}
	}
	return &http.Client{Transport: t}
}

// refusedError is the error of dialling a stopped node.
func refusedError() error {
	return &net.OpError{Op: "dial", Net: "memory", Addr: memoryAddress{}, Err: syscall.ECONNREFUSED}
}
