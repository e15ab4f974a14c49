package evmtest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
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

// URL returns the address of the node, "http://127.0.0.1:41234"; "" before the first listen.
func (n *Node) URL() string { return n.front.URL() }

// Resume starts the node again after [Node.Kill] or [Node.Stop], at the same address.
func (n *Node) Resume() error {
	return n.front.Resume(n.listen, &http.Server{Handler: n, ReadHeaderTimeout: time.Minute})
}

func (n *Node) startAgain() {
	n.withLock(func(now time.Time) {
		if n.isDown {
			n.startTimers(now)
		}
	})
}

// listen starts the node again, if it may.
func (n *Node) listen(addr string) (net.Listener, error) {
	select {
	case <-n.closed:
		return nil, errors.New("evmtest: the node is closed")
	default:
	}
	l, err := n.openListener(addr)
	if err != nil {
		return nil, fmt.Errorf("evmtest: listening: %w", err)
	}
	n.startAgain()
	return l, nil
}

func (n *Node) openListener(addr string) (net.Listener, error) {
	if n.options.InMemory {
		return simnode.NewMemoryListener("evm.test"), nil
	}
	return net.Listen("tcp", cmp.Or(addr, n.options.Addr))
}

// Close ends the node for good, and hanging requests with it. It may be called twice.
func (n *Node) Close() {
	n.closeOnce.Do(func() { close(n.closed) })
	n.Kill()
}

// Client returns a client that reaches the node, with or without Options.InMemory, and keeps no
// idle connections. It follows no redirects: a node sends none.
func (n *Node) Client() *http.Client { return n.front.Client(n.options.InMemory) }
