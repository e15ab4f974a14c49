package splinter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// A node has as many answering threads as cores, and a connection belongs to one of them. A thread
// that serves a request about a stalled service (one with a batch that nobody executes, for 300 s)
// answers nothing else until the stall is over, even if its client has left. So the client has one
// open request per service, asks nothing about a service that holds threads until its stall is
// over, and posts no batch on a connection that may belong to such a thread. The service whose
// request was sent first is the one that holds them, unless another service hung before and has
// had no answer since (docs/ledgers/splinter.md#stalls).
const (
	// suspectAfter is how long a request may be open before the client suspects its node.
	suspectAfter = time.Second
	// stallTime is how long a batch that nobody executes holds its service (EXECUTION_TIMEOUT of
	// libscabbard 0.6.14), plus a margin.
	stallTime = 310 * time.Second
	// connectionCheckTimeout is how long the check of a connection may take.
	connectionCheckTimeout = 2 * time.Second
	// maxConnectionChecks is how many connections are checked before a POST.
	maxConnectionChecks = 4
)

// nodeRequests tracks the open requests to a node, and its stalled threads. All methods may be
// called concurrently.
type nodeRequests struct {
	mu           sync.Mutex
	services     map[batch.ServiceID]*serviceRequests
	requestCount int       // how many requests were sent
	suspectUntil time.Time // the node is suspected until this time
}

// serviceRequests tracks the requests about one service.
type serviceRequests struct {
	openSlot     chan struct{} // holds a value while a request is open
	openSince    time.Time     // when the open request was sent, or began to wait for a connection; zero if none is open
	openNumber   int           // the number of the open request, in the order in which requests were sent
	answeredAt   time.Time     // when the node last answered
	restsUntil   time.Time     // nothing is asked about the service until this time
	lastRest     time.Duration // the length of the last rest; doubled if the next request hangs, too
	holdsThreads bool          // true if the service holds threads until restsUntil
	hungSince    time.Time     // when the first request began that hung since the last answer and may hold a thread; zero if none did
}

func (g *nodeRequests) requestsOf(s batch.ServiceID) *serviceRequests {
	p := g.services[s]
	if p == nil {
		if g.services == nil {
			g.services = map[batch.ServiceID]*serviceRequests{}
		}
		p = &serviceRequests{openSlot: make(chan struct{}, 1)}
		g.services[s] = p
	}
	return p
}

// enter waits for the service's turn, which the caller must leave. An error means that nothing was
// sent; the request may be sent after the time after.
func (g *nodeRequests) enter(ctx context.Context, s batch.ServiceID) (v *openRequest, after time.Duration, err error) {
	g.mu.Lock()
	p := g.requestsOf(s)
	g.mu.Unlock()
	select {
	case p.openSlot <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("splinter: another request about the service is open: %w", context.Cause(ctx))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	start := time.Now()
	if left := p.restsUntil.Sub(start); left > 0 {
		<-p.openSlot
		return nil, left, fmt.Errorf("splinter: the service does not answer; it is asked again in %s", left.Round(time.Second))
	}
	g.begin(p)
	return &openRequest{node: g, requests: p, service: s}, 0, nil
}

// openRequest is a request that may be sent, because it has the turn of its service.
type openRequest struct {
	node     *nodeRequests
	requests *serviceRequests
	service  batch.ServiceID
	hasEnded bool // guarded by stalls.mu
}

// noteSent notes that the request was sent: a thread serves requests in the order in which they
// arrive. The request may have waited for its connection until now. net/http may call noteSent
// after the answer came.
func (v *openRequest) noteSent() {
	v.node.mu.Lock()
	defer v.node.mu.Unlock()
	if !v.hasEnded {
		v.node.begin(v.requests)
	}
}

// leave ends the request. answered is true if the node has answered, and clientGaveUp if this side
// has ended the request.
func (v *openRequest) leave(answered, gaveUp bool) {
	v.node.mu.Lock()
	defer v.node.mu.Unlock()
	v.hasEnded = true
	v.node.noteEnd(v.service, v.requests, answered, gaveUp, time.Now())
	<-v.requests.openSlot
}

// begin notes that a service's request begins now. The caller holds the lock.
func (g *nodeRequests) begin(p *serviceRequests) {
	g.requestCount++
	p.openSince, p.openNumber = time.Now(), g.requestCount
}

// noteEnd notes the end of a request. The caller holds the lock.
func (g *nodeRequests) noteEnd(s batch.ServiceID, p *serviceRequests, answered, gaveUp bool, now time.Time) {
	start := p.openSince
	p.openSince = time.Time{}
	if answered {
		p.answeredAt, p.lastRest, p.hungSince = now, 0, time.Time{}
		return
	}
	// A node that has ended the connection uses no thread for it.
	if now.Sub(start) < suspectAfter || !gaveUp {
		return
	}
	g.suspectUntil = now.Add(stallTime)
	held, doubted, alive := g.otherServices(s, p.openNumber, start, now)
	switch {
	case held: // the next request may have another connection, and so another thread
		p.lastRest = 0
		return
	case alive && !doubted:
		p.lastRest, p.holdsThreads = 0, true
		p.restsUntil = start.Add(stallTime)
	default: // no other service exists or gets answers, or another one may hold the thread
		p.lastRest = min(max(2*p.lastRest, 5*time.Second), time.Minute)
		p.restsUntil = now.Add(p.lastRest)
	}
	if p.hungSince.IsZero() {
		p.hungSince = start
	}
}

// clientGaveUp reports whether this side ended the request because no answer came in time.
func clientGaveUp(ctx context.Context, err error) bool {
	var timeout net.Error
	return err != nil && (ctx.Err() != nil || (errors.As(err, &timeout) && timeout.Timeout()))
}

// otherServices returns three facts. held: another service holds threads of the node, or has
// waited longer and so may hold them. doubted: another service has hung before, while no service
// got an answer, and has had no answer since. alive: another service got an answer in the
// meantime, so the node is alive.
func (g *nodeRequests) otherServices(s batch.ServiceID, number int, start, now time.Time) (held, doubted, alive bool) {
	for id, p := range g.services {
		if id != s {
			held = held || (!p.openSince.IsZero() && p.openNumber < number) || (p.holdsThreads && p.restsUntil.After(now))
			doubted = doubted || (p.hungSince.Before(start) && p.hungSince.Add(stallTime).After(now))
			alive = alive || p.answeredAt.After(start)
		}
	}
	return held, doubted, alive
}

// isSuspect reports whether connections may belong to threads that do not answer.
func (g *nodeRequests) isSuspect(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.suspectUntil.After(now) {
		return true
	}
	for _, p := range g.services {
		if !p.openSince.IsZero() && now.Sub(p.openSince) >= suspectAfter {
			return true
		}
	}
	return false
}

func (c *Client) requestsOf(node string) *nodeRequests {
	g, known := c.requestsByNode.Load(node)
	if !known {
		g, _ = c.requestsByNode.LoadOrStore(node, &nodeRequests{})
	}
	return g.(*nodeRequests) //nolint:forcetypeassert // the map has only *stalls
}

// enterError returns the error of a request that enter has refused.
func enterError(op string, after time.Duration, err error) error {
	return &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, RetryAfter: after, Err: err}
}

// clientFor returns the HTTP client for a service. At a suspected node each service has its own
// connections, so that a connection that has just answered is free for the service's next
// request.
func (c *Client) clientFor(p location) *http.Client {
	shared, own := c.http.Transport.(*http.Transport)
	if !own || !c.requestsOf(p.node).isSuspect(time.Now()) {
		return c.http
	}
	if known, ok := c.suspectClients.Load(p.id); ok {
		return known.(*http.Client) //nolint:forcetypeassert // the map has only clients
	}
	apart := *c.http
	apart.Transport = shared.Clone()
	known, _ := c.suspectClients.LoadOrStore(p.id, &apart)
	return known.(*http.Client) //nolint:forcetypeassert // the map has only clients
}
