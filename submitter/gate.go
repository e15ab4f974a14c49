package submitter

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/internal/loop"

	"github.com/cenkalti/backoff/v4"
)

// gate holds back all requests in one scope (an endpoint or a service) after the ledger said
// "busy", could not be reached, or refused this client. When its time has come it lets one
// request through as a probe; the probe's success opens the gate.
type gate struct {
	mu       sync.Mutex
	openAt   time.Time // no request before; zero while the gate is open
	probing  bool      // a probe is under way
	pause    *backoff.ExponentialBackOff
	pauseMis *backoff.ExponentialBackOff // after a misconfiguration
	limit    int                         // requests at once; grows again with each success
	under    int                         // requests under way
	size     int

	announced  bool  // reported as closed
	announcing bool  // a goroutine is about to report
	why        error // the error that closed it
}

func newGate(size int) *gate {
	return &gate{
		pause:    loop.Backoff(250*time.Millisecond, 15*time.Second),
		pauseMis: loop.Backoff(loop.MinPause, loop.MaxPause),
		limit:    size, size: size,
	}
}

// closed returns for how long no request may be sent; 0 if one may.
func (g *gate) closed(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.roomLocked(now) > 0:
		return 0
	case g.openAt.IsZero() || g.probing:
		return probePause
	}
	return g.openAt.Sub(now)
}

// probePause is how soon to look again while a probe is under way, or while a ledger under
// pressure has all the requests that it may have.
const probePause = 20 * time.Millisecond

// room returns how many requests may start now.
func (g *gate) room(now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.roomLocked(now)
}

func (g *gate) roomLocked(now time.Time) int {
	switch {
	case g.openAt.IsZero() && g.limit == g.size:
		return g.size // no pressure: the pool bounds the requests under way, and knows which hang
	case g.openAt.IsZero():
		return g.limit - g.under
	case g.probing || g.openAt.After(now):
		return 0
	}
	return 1
}

// enter starts a request, or reports that it must not be sent now. With probe, this request
// finds out whether the gate can be opened.
func (g *gate) enter(now time.Time) (probe, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.roomLocked(now) <= 0 {
		return false, false
	}
	g.probing = !g.openAt.IsZero()
	g.under++
	return g.probing, true
}

// result of a request, as far as a gate cares.
type result uint8

const (
	fine    result = iota // the ledger takes batches, or not this one only
	unsure                // says nothing about the ledger's state
	pressed               // busy, or not reached
	barred                // misconfigured
)

// leave ends a request. It reports whether the gate changed between open and closed.
func (g *gate) leave(probe bool, res result, retryAfter time.Duration, now time.Time) (closed, opened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.under--
	wasClosed := !g.openAt.IsZero()
	if probe {
		g.probing = false
	}
	switch res {
	case fine:
		if wasClosed {
			g.openAt = time.Time{}
			g.pause.Reset()
			g.pauseMis.Reset()
			return false, true
		}
		g.limit = min(g.size, g.limit+1)
	case pressed, barred:
		if wasClosed && !probe {
			return false, false // it was sent before the gate closed: no news
		}
		pause := g.pause
		if res == barred {
			pause = g.pauseMis
		} else {
			g.limit = max(1, g.limit/2)
		}
		g.openAt = now.Add(max(retryAfter, pause.NextBackOff()))
		return !wasClosed, false
	case unsure:
		if probe && wasClosed { // no answer either way: probe again a little later
			g.openAt = now.Add(g.pause.NextBackOff())
		}
	}
	return false, false
}

func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openAt.IsZero() && g.under == 0
}

// restricted reports whether fewer requests may be under way than the pool holds.
func (g *gate) restricted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.openAt.IsZero() || g.limit < g.size
}
