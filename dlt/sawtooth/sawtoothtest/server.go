package sawtoothtest

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

// URL returns the base URL, "http://127.0.0.1:41234"; "" before the first listen.
func (n *Node) URL() string { return n.front.URL() }

// Resume listens again at the same address after a [Node.Stop].
func (n *Node) Resume() error {
	return n.front.Resume(n.listen, &http.Server{Handler: n, ReadHeaderTimeout: time.Minute})
}

func (n *Node) listen(addr string) (net.Listener, error) {
	select {
	case <-n.closed:
		return nil, errors.New("sawtoothtest: the node is closed")
	default:
	}
	if n.options.InMemory {
		return simnode.NewMemoryListener("sawtooth.test"), nil
	}
	l, err := net.Listen("tcp", cmp.Or(addr, n.options.Addr))
	if err != nil {
		return nil, fmt.Errorf("sawtoothtest: listening: %w", err)
	}
	return l, nil
}

// Stop is a kill -9 of the REST API: it refuses connections from now on and cuts the open
// ones. The validator goes on, and accepted batches are committed. The REST API loses its
// requests for a validator that is down. Stop returns when the port is free.
func (n *Node) Stop() {
	n.whileLocked(func(time.Time) {
		n.validator.keptRequests = nil
		n.validator.chain.headAtBreak = nil
	})
	n.front.Stop(n.DropSockets)
}

// Close stops the node for good and ends hanging requests. It may be called twice.
func (n *Node) Close() {
	n.closeOnce.Do(func() { close(n.closed) })
	n.Stop()
}

// Client returns a client that reaches the node, with or without Options.InMemory, and keeps
// no idle connections. It follows no redirects; there are none.
func (n *Node) Client() *http.Client { return n.front.Client(n.options.InMemory) }
