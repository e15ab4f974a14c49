package dlttest

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// Door is the HTTP server in front of a backend, for the harness of a client that speaks HTTP. It
// knows the fault that was set, nobody listens while that is [Unreachable] or
// [StatusUnreachable], and it counts what the harness's handler tells it. Its methods but Set may
// be called concurrently.
type Door struct {
	// Forget drops the client's idle connections. Otherwise a request may still go out on a
	// connection that is being closed.
	Forget func()

	t       TB
	handler http.Handler
	addrs   []string
	servers []*http.Server // empty while no server listens
	served  sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	posts   map[batch.ID]int
	largest int
}

// NewDoor listens on free ports of 127.0.0.1, ports in number, until the test ends. h answers at
// each.
func NewDoor(t TB, ports int, h http.Handler) *Door {
	d := &Door{t: t, handler: h, addrs: make([]string, ports), posts: map[batch.ID]int{}}
	for i := range d.addrs {
		d.addrs[i] = "127.0.0.1:0"
	}
	d.listen()
	t.Cleanup(d.shut)
	return d
}

// URLs returns an address a port. They stay the same when the door was shut and opens again.
func (d *Door) URLs() []string {
	urls := make([]string, len(d.addrs))
	for i, a := range d.addrs {
		urls[i] = "http://" + a
	}
	return urls
}

func (d *Door) listen() {
	for i, addr := range d.addrs {
		l, err := net.Listen("tcp", addr)
		require.NoError(d.t, err)
		d.addrs[i] = l.Addr().String()
		s := &http.Server{Handler: d.handler, ReadHeaderTimeout: time.Minute}
		d.servers = append(d.servers, s)
		d.served.Go(func() { _ = s.Serve(l) }) // Serve returns when the server is closed
	}
}

func (d *Door) shut() {
	for _, s := range d.servers {
		_ = s.Close()
	}
	d.servers = nil
	d.served.Wait()
}

// Set is [Harness].Set.
func (d *Door) Set(f Fault) {
	d.mu.Lock()
	d.fault = f
	d.mu.Unlock()
	down := f == Unreachable || f == StatusUnreachable
	switch {
	case down && d.servers != nil:
		d.shut()
		d.Forget()
	case !down && d.servers == nil:
		d.listen()
	}
}

// Fault returns the fault that was set.
func (d *Door) Fault() Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault
}

// Posted counts a submission of a batch.
func (d *Door) Posted(id batch.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.posts[id]++
}

// Posts is [Harness].Posts.
func (d *Door) Posts(id batch.ID) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.posts[id]
}

// Asked counts a status query, and the number of its ids.
func (d *Door) Asked(ids int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.largest = max(d.largest, ids)
}

// LargestQuery is [Harness].LargestQuery.
func (d *Door) LargestQuery() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.largest
}
