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
// service whose request was sent first is the one that holds them, unless another service hung
// before and has had no answer since (docs/ledgers/splinter.md#stalls).
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

// stalls tracks the open requests to a node, and its stalled threads. All methods may be called
// concurrently.
type stalls struct {
	mu       sync.Mutex
	services map[batch.ServiceID]*passage
	count    int       // number of requests
	suspect  time.Time // until then
}

// passage tracks the requests about one service.
type passage struct {
	turn     chan struct{} // held by the open request
	open     time.Time     // when its request was sent, or began to wait for a connection; zero if none is open
	number   int           // of the open request, in the order of open
	answered time.Time     // last time
	rests    time.Time     // until then
	rest     time.Duration // last one, doubled if the next request hangs, too
	holds    bool          // it holds threads, until rests
	hung     time.Time     // beginning of the first request since the last answer that hung and may hold a thread
}

func (g *stalls) passage(s batch.ServiceID) *passage {
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

// enter waits for the service's turn, which the caller must leave. An error means that nothing was
// sent; it may be sent after the given time.
func (g *stalls) enter(ctx context.Context, s batch.ServiceID) (v *visit, after time.Duration, err error) {
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
	g.begin(p)
	return &visit{g: g, p: p, service: s}, 0, nil
}

// visit is a request that was let pass.
type visit struct {
	g       *stalls
	p       *passage
	service batch.ServiceID
	over    bool // guarded by g.mu
}

// written says that the request was sent: a thread serves requests in the order in which they
// arrive. A request may wait for its connection meanwhile, and net/http may say so after the
// answer.
func (v *visit) written() {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if !v.over {
		v.g.begin(v.p)
	}
}

// leave ends the request. answered says whether the node answered, and gaveUp whether this side
// ended it.
func (v *visit) leave(answered, gaveUp bool) {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	v.over = true
	v.g.left(v.service, v.p, answered, gaveUp, time.Now())
	<-v.p.turn
}

// begin notes that the request of a passage begins now. The caller holds the lock.
func (g *stalls) begin(p *passage) {
	g.count++
	p.open, p.number = time.Now(), g.count
}

// left ends a passage. The caller holds the lock.
func (g *stalls) left(s batch.ServiceID, p *passage, answered, gaveUp bool, now time.Time) {
	start := p.open
	p.open = time.Time{}
	if answered {
		p.answered, p.rest, p.hung = now, 0, time.Time{}
		return
	}
	// A node that ended the connection keeps no thread for it.
	if now.Sub(start) < slow || !gaveUp {
		return
	}
	g.suspect = now.Add(stall)
	held, doubted, alive := g.others(s, p.number, start, now)
	switch {
	case held: // another connection may reach another thread
		p.rest = 0
		return
	case alive && !doubted:
		p.rest, p.holds = 0, true
		p.rests = start.Add(stall)
	default: // no other service is there to be harmed, or none gets answers, or another may hold the thread
		p.rest = min(max(2*p.rest, 5*time.Second), time.Minute)
		p.rests = now.Add(p.rest)
	}
	if p.hung.IsZero() {
		p.hung = start
	}
}

// gaveUp reports whether this side ended the request, because no answer came in time.
func gaveUp(ctx context.Context, err error) bool {
	var timeout net.Error
	return err != nil && (ctx.Err() != nil || (errors.As(err, &timeout) && timeout.Timeout()))
}

// others returns three facts. held: another service holds threads of the node, or has been
// waiting longer and so may hold them. doubted: another one has hung before, while nobody was
// answered, and has had no answer since. alive: another service was answered meanwhile, so the
// node is alive.
func (g *stalls) others(s batch.ServiceID, number int, start, now time.Time) (held, doubted, alive bool) {
	for id, p := range g.services {
		if id != s {
			held = held || (!p.open.IsZero() && p.number < number) || (p.holds && p.rests.After(now))
			doubted = doubted || (p.hung.Before(start) && p.hung.Add(stall).After(now))
			alive = alive || p.answered.After(start)
		}
	}
	return held, doubted, alive
}

// suspected reports whether connections may belong to threads that answer nothing.
func (g *stalls) suspected(now time.Time) bool {
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

func (c *Client) stalls(node string) *stalls {
	g, known := c.byNode.Load(node)
	if !known {
		g, _ = c.byNode.LoadOrStore(node, &stalls{})
	}
	return g.(*stalls) //nolint:forcetypeassert // nothing else is stored
}

// passing makes the error of a request that was not let pass.
func passing(op string, after time.Duration, err error) error {
	return &dlt.Error{Op: op, Kind: dlt.ErrUnavailable, RetryAfter: after, Err: err}
}

// sender returns the HTTP client for a service. At a suspected node each service has its own
// connections, so that a connection that has just answered is free for the service's next
// request.
func (c *Client) sender(p place) *http.Client {
	shared, own := c.http.Transport.(*http.Transport)
	if !own || !c.stalls(p.node).suspected(time.Now()) {
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
