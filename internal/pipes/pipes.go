// Package pipes is a network of pipes for tests in a bubble of testing/synctest, where sockets do
// not work with virtual time. Only tests import it.
package pipes

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Net is a network without sockets, so it works with virtual time. The zero value has no
// listeners. Its methods may be called concurrently.
type Net struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

type listener struct {
	addr  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

type address string

func (address) Network() string  { return "pipe" }
func (a address) String() string { return string(a) }

// Listen listens at the address, and replaces an earlier listener.
func (p *Net) Listen(addr string) (net.Listener, error) {
	l := &listener{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners == nil {
		p.listeners = map[string]*listener{}
	}
	p.listeners[addr] = l
	return l, nil
}

// Dial connects to the listener at the address. It can be the DialContext of an http.Transport.
func (p *Net) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[addr]
	p.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("nobody listens")}
	}
	mine, near := net.Pipe()
	far, theirs := net.Pipe()
	copyBuffered(near, far)
	copyBuffered(far, near)
	select {
	case l.conns <- theirs:
		return mine, nil
	case <-l.done:
	case <-ctx.Done():
	}
	_, _ = mine.Close(), theirs.Close()
	return nil, &net.OpError{Op: "dial", Err: errors.Join(errors.New("nobody listens any more"), ctx.Err())}
}

// copyBuffered copies the bytes written at one end to the other, and like a socket it does not
// make the writer wait for the reader.
func copyBuffered(from, to net.Conn) {
	chunks := make(chan []byte, 1000)
	go func() {
		defer close(chunks)
		for {
			buf := make([]byte, 4096)
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			chunks <- buf[:n]
		}
	}()
	go func() {
		for c := range chunks {
			if _, err := to.Write(c); err != nil {
				break
			}
		}
		_ = to.Close()
		for range chunks { // lets the reader end
		}
	}()
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.addr) }
