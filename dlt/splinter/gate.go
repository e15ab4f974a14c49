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

// A node has as many answering threads as cores, and a connection belongs to one of them. A
// thread that serves a request about a stalled service (one with a batch that nobody executes,
// for 300 s) answers nothing else until the stall is over, even if its client has left. So the
// client has one open request per service, leaves a service alone that holds threads until its
// stall is over, and posts no batch on a connection that may belong to such a thread. The
// service whose request began to wait first is the one that holds them.
const (
	// slow is how long a request may be open before the client suspects its node.
	slow = time.Second
	// stall is how long a batch that nobody executes holds its service (libscabbard 0.6.14,
	// EXECUTION_TIMEOUT), and a little more.
	stall = 310 * time.Second
	// look is how long a connection may take to show that a thread serves it.
	look = 2 * time.Second
	// looks is the number of connections to try before a POST.
	looks = 4
)

// gate tracks the open requests to a node. All methods may be called concurrently.
type gate struct {
	mu       sync.Mutex
	services map[batch.ServiceID]*passage
	count    int       // number of requests
	suspect  time.Time // until then
}

// passage tracks the requests about one service.
type passage struct {
	turn     chan struct{} // held by the open request
	open     time.Time     // when it began; zero if there is none
	number   int           // of the open request
	answered time.Time     // last time
	rests    time.Time     // until then
	rest     time.Duration // last one, doubled if the next request hangs, too
	holds    bool          // it holds threads, until rests
}

func (g *gate) passage(s batch.ServiceID) *passage {
	p := g.services[s]
	if p == nil {
		if g.services == nil {
			g.services = map[batch.ServiceID]*passage{}
		}
		p = &passage{turn: make(chan struct{}, 1)}
		g.services[s] = p
	}
	return p
}

// enter waits for the service's turn. The caller passes to leave whether the node answered,
// and whether this side ended the request. An error means that nothing was sent; it may be
// sent after the given time.
func (g *gate) enter(ctx context.Context, s batch.ServiceID) (leave func(answered, gaveUp bool), after time.Duration, err error) {
	g.mu.Lock()
	p := g.passage(s)
	g.mu.Unlock()
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("splinter: another request about the service is open: %w", context.Cause(ctx))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	start := time.Now()
	if left := p.rests.Sub(start); left > 0 {
		<-p.turn
		return nil, left, fmt.Errorf("splinter: the service does not answer; it is asked again in %s", left.Round(time.Second))
	}
	g.count++
	p.open, p.number = start, g.count
	return func(answered, gaveUp bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.left(s, p, answered, gaveUp, time.Now())
		<-p.turn
	}, 0, nil
}

// left ends a passage. The caller holds the lock.
func (g *gate) left(s batch.ServiceID, p *passage, answered, gaveUp bool, now time.Time) {
	start := p.open
	p.open = time.Time{}
	if answered {
		p.answered, p.rest = now, 0
		return
	}
	// A node that ended the connection keeps no thread for it.
	if now.Sub(start) < slow || !gaveUp {
		return
	}
	g.suspect = now.Add(stall)
	held, alive := g.others(s, p.number, start, now)
	switch {
	case held: // another connection may reach another thread
		p.rest = 0
	case alive:
		p.rest, p.holds = 0, true
		p.rests = start.Add(stall)
	default: // no other service is there to be harmed, or none gets answers
		p.rest = min(max(2*p.rest, 5*time.Second), time.Minute)
		p.rests = now.Add(p.rest)
	}
}

// gaveUp reports whether this side ended the request, because no answer came in time.
func gaveUp(ctx context.Context, err error) bool {
	var timeout net.Error
	return err != nil && (ctx.Err() != nil || (errors.As(err, &timeout) && timeout.Timeout()))
}

// others returns two facts. held: another service holds threads of the node, or has been
// waiting longer and so may hold them. alive: another service was answered meanwhile, so the
// node is alive.
func (g *gate) others(s batch.ServiceID, number int, start, now time.Time) (held, alive bool) {
	for id, p := range g.services {
		if id != s {
			held = held || (!p.open.IsZero() && p.number < number) || (p.holds && p.rests.After(now))
			alive = alive || p.answered.After(start)
		}
	}
	return held, alive
}

// suspected reports whether connections may belong to threads that answer nothing.
func (g *gate) suspected(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.suspect.After(now) {
		return true
	}
	for _, p := range g.services {
		if !p.open.IsZero() && now.Sub(p.open) >= slow {
			return true
		}
	}
	return false
}

func (c *Client) gate(node string) *gate {
	g, known := c.gates.Load(node)
	if !known {
		g, _ = c.gates.LoadOrStore(node, &gate{})
	}
	return g.(*gate) //nolint:forcetypeassert // nothing else is stored
}

// passing makes the error of a request that the gate did not let pass.
func passing(op string, after time.Duration, err error) error {
	return &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, RetryAfter: after, Err: err}
}

// sender returns the HTTP client for a service. At a suspected node each service has its own
// connections, so that a connection that has just answered is free for the service's next
// request.
func (c *Client) sender(p place) *http.Client {
	shared, own := c.http.Transport.(*http.Transport)
	if !own || !c.gate(p.node).suspected(time.Now()) {
		return c.http
	}
	if known, ok := c.senders.Load(p.id); ok {
		return known.(*http.Client) //nolint:forcetypeassert // nothing else is stored
	}
	apart := *c.http
	apart.Transport = shared.Clone()
	known, _ := c.senders.LoadOrStore(p.id, &apart)
	return known.(*http.Client) //nolint:forcetypeassert // nothing else is stored
}
