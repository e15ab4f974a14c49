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

// The threads that answer for a node are as many as its cores. A connection belongs to one
// of them; and one that serves a request about a service which is stalled (by a batch that
// nobody executes, for 300 s) answers nobody until that is over, whether its client has
// left or not. So of each service one request is open at a time, a service that keeps its
// node's threads is left alone until its stall is over, and no batch is posted on a
// connection that may belong to such a thread. Who keeps them is who began to wait first.
const (
	// slow is how long a request may be open before its node is suspected.
	slow = time.Second
	// stall is how long a batch that nobody executes holds its service (libscabbard 0.6.14,
	// EXECUTION_TIMEOUT), and a little more.
	stall = 310 * time.Second
	// look is how long a connection may take to show that somebody serves it.
	look = 2 * time.Second
	// looks is how many connections are tried before a POST.
	looks = 4
)

// gate is what is open at a node. All methods may be called concurrently.
type gate struct {
	mu       sync.Mutex
	services map[batch.ServiceID]*passage
	count    int       // of requests
	suspect  time.Time // until then
}

// passage is the requests about one service.
type passage struct {
	turn     chan struct{} // held by the one that is open
	open     time.Time     // since when it is; zero is none
	number   int           // of that one
	answered time.Time     // the last time
	rests    time.Time     // until then
	rest     time.Duration // the last one, doubled when the next request hangs, too
	holds    bool          // threads, until rests
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

// enter waits for the service's turn. leave takes whether the node answered, and whether it
// was this side that ended the request. An error says that nothing was sent, and may be
// sent after so long.
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

// left ends a passage. The lock is held.
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
	case held: // another connection may lead to another thread
		p.rest = 0
	case alive:
		p.rest, p.holds = 0, true
		p.rests = start.Add(stall)
	default: // nobody else is there to be harmed, or nobody answers
		p.rest = min(max(2*p.rest, 5*time.Second), time.Minute)
		p.rests = now.Add(p.rest)
	}
}

// gaveUp reports that this side ended the request, because nobody answered it in time.
func gaveUp(ctx context.Context, err error) bool {
	var timeout net.Error
	return err != nil && (ctx.Err() != nil || (errors.As(err, &timeout) && timeout.Timeout()))
}

// others reports whether another service holds threads of the node, or has been waiting
// longer and so may; and whether another one was answered meanwhile: the node is alive.
func (g *gate) others(s batch.ServiceID, number int, start, now time.Time) (held, alive bool) {
	for id, p := range g.services {
		if id != s {
			held = held || (!p.open.IsZero() && p.number < number) || (p.holds && p.rests.After(now))
			alive = alive || p.answered.After(start)
		}
	}
	return held, alive
}

// suspected reports whether connections may lead to threads that answer nobody.
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

// sender returns the client that sends what concerns a service. At a node that is suspected
// a service has connections of its own, so that one which has just answered is there for
// the next request, whatever others do.
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
