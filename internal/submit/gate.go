package submit

import (
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// gate holds back all requests in one scope (a ledger or a service) after the ledger was busy,
// could not be reached, or refused this client. When its pause is over it lets one request through
// as a probe. The success of any request opens the gate. A request that hangs for longer than
// hangsAfter loses its place: it may hang for a reason of its own service, and the others must not
// wait for its time limit.
type gate struct {
	mu                 sync.Mutex
	openAt             time.Time // no request is let through before; zero while the gate is open
	probeBegan         time.Time // when the last probe began; zero if it has ended
	openedAt           time.Time // when a success opened the gate last
	pause              *backoff.ExponentialBackOff
	misconfiguredPause *backoff.ExponentialBackOff // the pauses after a misconfiguration
	limit              int                         // most requests at once; grows again with each success
	underWay           []time.Time                 // when each request under way began
	maxRequests        int
	hangsAfter         time.Duration // a request under way for longer does not count

	isAnnounced  bool            // whether the gate was reported as closed
	isAnnouncing bool            // whether a goroutine is about to report
	lastErr      error           // the error of the last probe, or of the request that closed the gate
	reportedKind batch.ErrorKind // the kind of error that was reported with the pause
}

func newGate(size int, patience time.Duration) *gate {
	return &gate{
		pause:              loop.NewPauses(250*time.Millisecond, 15*time.Second),
		misconfiguredPause: loop.NewPauses(loop.MinPause, loop.MaxPause),
		limit:              size, maxRequests: size, hangsAfter: patience,
	}
}

// closedFor returns for how long no request may be sent; 0 if one may.
func (g *gate) closedFor(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.freePlacesLocked(now) > 0:
		return 0
	case !g.openAt.After(now): // the gate is open and has no room, or a probe is under way
		return probePause
	}
	return g.openAt.Sub(now)
}

// probePause is the wait before the next look while a probe is under way, or while a ledger under
// pressure has all the requests that it may have.
const probePause = 20 * time.Millisecond

// freePlaces returns how many requests may start now.
func (g *gate) freePlaces(now time.Time) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.freePlacesLocked(now)
}

func (g *gate) freePlacesLocked(now time.Time) int {
	switch {
	case g.openAt.IsZero() && g.limit == g.maxRequests:
		return g.maxRequests // no pressure: the pool bounds the requests under way, and knows which of them hang
	case g.openAt.IsZero():
		n := g.limit
		for _, began := range g.underWay {
			if now.Sub(began) < g.hangsAfter {
				n--
			}
		}
		return n
	case g.openAt.After(now) || !g.probeBegan.IsZero() && now.Sub(g.probeBegan) < g.hangsAfter:
		return 0
	}
	return 1
}

// passage is a request that a gate let through.
type passage struct {
	began   time.Time
	isProbe bool // it was let through while the gate was closed: its failure prolongs the pause
}

// admit starts a request, or reports that it must not be sent now.
func (g *gate) admit(now time.Time) (passage, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.freePlacesLocked(now) <= 0 {
		return passage{}, false
	}
	t := passage{began: now, isProbe: !g.openAt.IsZero()}
	if t.isProbe {
		g.probeBegan = now
	}
	g.underWay = append(g.underWay, now)
	return t, true
}

// gateResult is what a request's answer means for a gate.
type gateResult uint8

const (
	resultTaken         gateResult = iota // the ledger takes batches, or refused only this one
	resultUnsure                          // the answer does not show the ledger's state
	resultBusy                            // busy, or not reached
	resultMisconfigured                   // this client is refused
)

// end ends a request. closed reports whether the request closed the gate, or the gate is still
// closed for the reason of this request; opened reports whether it was opened.
func (g *gate) end(t passage, res gateResult, retryAfter time.Duration, now time.Time) (closed, opened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, end := slices.Index(g.underWay, t.began), len(g.underWay)-1
	g.underWay[i], g.underWay = g.underWay[end], g.underWay[:end]
	wasClosed := !g.openAt.IsZero()
	last := t.isProbe && t.began.Equal(g.probeBegan)
	if last {
		g.probeBegan = time.Time{}
	}
	switch res {
	case resultTaken:
		if wasClosed {
			g.openAt, g.openedAt = time.Time{}, now
			g.pause.Reset()
			g.misconfiguredPause.Reset()
			return false, true
		}
		g.limit = min(g.maxRequests, g.limit+1)
	case resultBusy, resultMisconfigured:
		if wasClosed && !t.isProbe || t.began.Before(g.openedAt) {
			return false, false // the request was sent before the gate closed, or opened: it tells nothing
		}
		pause := g.pause
		if res == resultMisconfigured {
			pause = g.misconfiguredPause
		} else {
			g.limit = max(1, g.limit/2)
		}
		g.openAt = now.Add(max(retryAfter, pause.NextBackOff()))
		return true, false
	case resultUnsure:
		if last && wasClosed { // no clear answer, and no later probe: probe again a little later
			g.openAt = now.Add(g.pause.NextBackOff())
		}
	}
	return false, false
}

// pauseHasEnded reports whether the gate's pause has been over for so long that a probe would have
// been sent if anything waited. It is then unknown whether the ledger takes batches again.
func (g *gate) pauseHasEnded(now time.Time, after time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openAt.IsZero() || len(g.underWay) == 0 && now.Sub(g.openAt) > after
}

func (g *gate) isIdle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openAt.IsZero() && len(g.underWay) == 0
}

// isRestricted reports whether fewer requests may be under way than the pool holds.
func (g *gate) isRestricted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.openAt.IsZero() || g.limit < g.maxRequests
}
