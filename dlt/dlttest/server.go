package dlttest

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// Server is the HTTP server in front of a backend, for the harness of a client that speaks HTTP.
// It knows the fault that was set, listens unless that is [Unreachable] or [StatusUnreachable],
// and counts the submissions and queries that the harness's handler reports. All methods except
// Set may be called concurrently.
type Server struct {
	// CloseIdle closes the client's idle connections. Set calls it after the server has closed its
	// own ends: otherwise a request may still go out on a connection that is being closed. It must
	// be set before the first call of Set.
	CloseIdle func()

	t       TB
	handler http.Handler
	addrs   []string
	servers []*http.Server // empty while no server listens
	serving sync.WaitGroup

	mu           sync.Mutex
	fault        Fault
	postCounts   map[batch.ID]int
	largestQuery int
}

// NewServer returns a server that listens on free ports of 127.0.0.1, ports in number, until the
// test ends. h answers at each.
func NewServer(t TB, ports int, h http.Handler) *Server {
	s := &Server{t: t, handler: h, addrs: make([]string, ports), postCounts: map[batch.ID]int{}}
	for i := range s.addrs {
		s.addrs[i] = "127.0.0.1:0"
	}
	s.listen()
	t.Cleanup(s.closeServers)
	return s
}

// URLs returns the address of each port, "http://127.0.0.1:41234". They stay the same when the
// server stops listening and begins again.
func (s *Server) URLs() []string {
	urls := make([]string, len(s.addrs))
	for i, a := range s.addrs {
		urls[i] = "http://" + a
	}
	return urls
}

func (s *Server) listen() {
	for i, addr := range s.addrs {
		l, err := net.Listen("tcp", addr)
		require.NoError(s.t, err)
		s.addrs[i] = l.Addr().String()
		hs := &http.Server{Handler: s.handler, ReadHeaderTimeout: time.Minute}
		s.servers = append(s.servers, hs)
		s.serving.Go(func() { _ = hs.Serve(l) }) // Serve returns when the server is closed
	}
}

func (s *Server) closeServers() {
	for _, hs := range s.servers {
		_ = hs.Close()
	}
	s.servers = nil
	s.serving.Wait()
}

// Set is [Harness].Set.
func (s *Server) Set(f Fault) {
	s.mu.Lock()
	s.fault = f
	s.mu.Unlock()
	down := f == Unreachable || f == StatusUnreachable
	switch {
	case down && s.servers != nil:
		s.closeServers()
		s.CloseIdle()
	case !down && s.servers == nil:
		s.listen()
	}
}

// Fault returns the fault that was set.
func (s *Server) Fault() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// Posted counts a submission of a batch.
func (s *Server) Posted(id batch.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postCounts[id]++
}

// Posts is [Harness].Posts.
func (s *Server) Posts(id batch.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.postCounts[id]
}

// Queried counts a status query of ids ids.
func (s *Server) Queried(ids int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largestQuery = max(s.largestQuery, ids)
}

// LargestQuery is [Harness].LargestQuery.
func (s *Server) LargestQuery() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.largestQuery
}
