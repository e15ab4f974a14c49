package splintertest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
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
		n.goUnlessClosed(func() { n.runProposer(s) })
		n.goUnlessClosed(func() { n.deliverMessages(s) })
	}
	return n, nil
}

// node is one node with its server.
type node struct {
	*Network
	mux *http.ServeMux

	isUp            bool
	processEnd      chan struct{} // closed when the node's process ends
	workers         []*worker
	connectionCount int
	requestCount    int
	receipts        map[string]bool // one table for all services of the node

	front simnode.Front
}

// URL returns the base URL of a node, "http://127.0.0.1:41234".
func (n *Network) URL(node int) string { return n.nodes[node].front.URL() }

// Resume makes a node listen again at the same address after a [Network.Stop].
func (n *Network) Resume(node int) error {
	v := n.nodes[node]
	return v.front.Resume(func(addr string) (net.Listener, error) {
		select {
		case <-n.closed:
			return nil, errors.New("splintertest: the network is closed")
		default:
		}
		l, err := n.options.Listen(cmp.Or(addr, n.options.Addrs[node]))
		if err != nil {
			return nil, fmt.Errorf("splintertest: listening: %w", err)
		}
		return headListener{l}, nil
	}, &http.Server{
		Handler: v, ReadHeaderTimeout: headTimeout, IdleTimeout: n.options.KeepAliveTimeout, ConnContext: v.assignWorker,
		MaxHeaderBytes: 8 << 20, // so that a long query gets the node's own answer
	})
}

// Stop makes a node refuse connections from now on and cuts the open ones. The services behind
// it go on. Stop returns when the port is free.
func (n *Network) Stop(node int) { n.nodes[node].front.Stop(func() {}) }

// Close stops all nodes for good and ends hanging requests. It may be called twice.
func (n *Network) Close() {
	n.closeOnce.Do(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		close(n.closed)
	})
	for i := range n.nodes {
		n.Stop(i)
	}
	n.goroutines.Wait()
}
