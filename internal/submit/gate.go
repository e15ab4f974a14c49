package submit

import (
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// gate holds back all requests in one scope (an endpoint or a service) after the ledger said
// "busy", could not be reached, or refused this client. When its time has come it lets one
// request through as a probe; the probe's success opens the gate. A request that hangs keeps its
// place no longer than the patience: it may hang for a reason of its own service, and the others
// must not wait for its time limit.
type gate struct {
	mu       sync.Mutex
	openAt   time.Time // no request before; zero while the gate is open
	probeAt  time.Time // when the last probe began; zero if it has ended
	openedAt time.Time // when a probe opened it last
	pause    *backoff.ExponentialBackOff
	pauseMis *backoff.ExponentialBackOff // after a misconfiguration
	limit    int                         // requests at once; grows again with each success
	under    []time.Time                 // when each request under way began
	size     int
	patience time.Duration // a request under way for longer does not count

	announced  bool            // reported as closed
	announcing bool            // a goroutine is about to report
	why        error           // the error of the last probe, or of the request that closed it
	said       batch.ErrorKind // the kind of error that was reported with the pause
}

func newGate(size int, patience time.Duration) *gate {
	return &gate{
		pause:    loop.Backoff(250*time.Millisecond, 15*time.Second),
		pauseMis: loop.Backoff(loop.MinPause, loop.MaxPause),
		limit:    size, size: size, patience: patience,
	}
}

// closed returns for how long no request may be sent; 0 if one may.
func (g *gate) closed(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.roomLocked(now) > 0:
		return 0
	case !g.openAt.After(now): // it is open, and full; or there is a probe
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
		n := g.limit
		for _, began := range g.under {
			if now.Sub(began) < g.patience {
				n--
			}
		}
		return n
	case g.openAt.After(now) || !g.probeAt.IsZero() && now.Sub(g.probeAt) < g.patience:
		return 0
	}
	return 1
}

// turn is a request that a gate let through.
type turn struct {
	began time.Time
	probe bool // it finds out whether the gate can be opened
}

// enter starts a request, or reports that it must not be sent now.
func (g *gate) enter(now time.Time) (turn, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.roomLocked(now) <= 0 {
		return turn{}, false
	}
	t := turn{began: now, probe: !g.openAt.IsZero()}
	if t.probe {
		g.probeAt = now
	}
	g.under = append(g.under, now)
	return t, true
}

// result of a request, as far as a gate cares.
type result uint8

const (
	fine    result = iota // the ledger takes batches, or not this one only
	unsure                // says nothing about the ledger's state
	pressed               // busy, or not reached
	barred                // misconfigured
)

// leave ends a request. It reports whether the gate was closed, or is still closed for the reason
// of this request, and whether it was opened.
func (g *gate) leave(t turn, res result, retryAfter time.Duration, now time.Time) (closed, opened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, end := slices.Index(g.under, t.began), len(g.under)-1
	g.under[i], g.under = g.under[end], g.under[:end]
	wasClosed := !g.openAt.IsZero()
	last := t.probe && t.began.Equal(g.probeAt)
	if last {
		g.probeAt = time.Time{}
	}
	switch res {
	case fine:
		if wasClosed {
			g.openAt, g.openedAt = time.Time{}, now
			g.pause.Reset()
			g.pauseMis.Reset()
			return false, true
		}
		g.limit = min(g.size, g.limit+1)
	case pressed, barred:
		if wasClosed && !t.probe || t.began.Before(g.openedAt) {
			return false, false // it was sent before the gate closed, or opened: no news
		}
		pause := g.pause
		if res == barred {
			pause = g.pauseMis
		} else {
			g.limit = max(1, g.limit/2)
		}
		g.openAt = now.Add(max(retryAfter, pause.NextBackOff()))
		return true, false
	case unsure:
		if last && wasClosed { // no answer either way, and no later probe: probe again a little later
			g.openAt = now.Add(g.pause.NextBackOff())
		}
	}
	return false, false
}

// over reports whether the gate's pause has been over for so long that a probe would have been
// sent if anything waited: then nobody knows whether the ledger takes batches again.
func (g *gate) over(now time.Time, after time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openAt.IsZero() || len(g.under) == 0 && now.Sub(g.openAt) > after
}

func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openAt.IsZero() && len(g.under) == 0
}

// restricted reports whether fewer requests may be under way than the pool holds.
func (g *gate) restricted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.openAt.IsZero() || g.limit < g.size
}
