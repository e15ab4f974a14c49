package submit

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Scope is what back-pressure slows: a service, or a whole ledger.
type Scope struct {
	Ledger  string
	Service batch.ServiceID // "" for a whole ledger
	All     bool            // whether the scope is the whole ledger
}

// maxGates is the least number of scopes that are remembered. With more, services whose gate is
// open and has no request under way are forgotten.
const maxGates = 10_000

// gates are the gates of all scopes.
type gates struct {
	ledger  dlt.Ledger
	options *Options

	mu          sync.Mutex
	byScope     map[Scope]*gate
	ledgerGates []*gate // the gates of whole ledgers
	forgetAt    int     // with so many gates, gates that hold nothing back are forgotten
}

func (a *gates) scopeOf(service batch.ServiceID) Scope {
	t := a.ledger.Traits(service)
	if t.PressureScope == dlt.ScopeService {
		return Scope{Ledger: t.Name, Service: service}
	}
	return Scope{Ledger: t.Name, All: true}
}

// gateOf returns the gate of a service's requests.
func (a *gates) gateOf(service batch.ServiceID) *gate {
	sc := a.scopeOf(service)
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.byScope[sc]
	if g == nil {
		if len(a.byScope) >= a.forgetAt {
			for k, old := range a.byScope {
				if !k.All && old.isIdle() {
					delete(a.byScope, k)
				}
			}
			a.forgetAt = max(maxGates, 2*len(a.byScope)) // so that one pass serves many new gates
		}
		g = newGate(a.options.MaxRequests, a.options.hangsAfter())
		a.byScope[sc] = g
		if sc.All {
			a.ledgerGates = append(a.ledgerGates, g)
		}
	}
	return g
}

// onlyGate returns the gate of a whole ledger, if there is exactly one such gate.
func (a *gates) onlyGate() *gate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ledgerGates) != 1 {
		return nil
	}
	return a.ledgerGates[0]
}

// knownGate returns the gate of a service, or nil if nothing was sent there yet, or not for a long
// time.
func (a *gates) knownGate(service batch.ServiceID) (*gate, Scope) {
	sc := a.scopeOf(service)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byScope[sc], sc
}

// closedFor returns for how long the gate of a service lets no request through.
func (a *gates) closedFor(service batch.ServiceID) time.Duration {
	g, _ := a.knownGate(service)
	if g == nil {
		return 0
	}
	return g.closedFor(time.Now())
}

// closedBy returns the error for which the gate of a service is closed, or nil if the gate is open
// or its pause is over. all reports whether it is the gate of a whole ledger.
func (a *gates) closedBy(service batch.ServiceID, after time.Duration) (why error, all bool) {
	g, sc := a.knownGate(service)
	if g == nil || g.pauseHasEnded(time.Now(), after) {
		return nil, sc.All
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lastErr, sc.All
}

// pauseHasEnded reports whether the gate of a scope is open, or its pause is over: see
// [gate.pauseHasEnded].
func (a *gates) pauseHasEnded(sc Scope, after time.Duration) bool {
	a.mu.Lock()
	g := a.byScope[sc]
	a.mu.Unlock()
	return g == nil || g.pauseHasEnded(time.Now(), after)
}

// end ends a request, and reports what that changed.
func (a *gates) end(g *gate, t passage, service batch.ServiceID, err error) {
	res := resultUnsure
	switch dlt.Kind(err) {
	case "", batch.KindRejected, batch.KindNotYet:
		res = resultTaken
	case batch.KindBusy, batch.KindUnavailable:
		res = resultBusy
	case batch.KindMisconfigured:
		res = resultMisconfigured
	}
	closed, opened := g.end(t, res, dlt.RetryAfter(err), time.Now())
	if !closed && !opened {
		return
	}
	a.announce(g, a.scopeOf(service), err)
	if opened {
		a.options.Ready()
	}
}

// announce reports by Paused or Resumed that the gate has changed since its last report, and by
// Paused that the gate stays closed for another kind of reason. One goroutine reports at a time,
// without the lock, and checks again after each report. So the last report is true, even if the
// gate closes and opens at about the same time.
func (a *gates) announce(g *gate, sc Scope, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.lastErr = err
	}
	if g.isAnnouncing {
		return // the goroutine that reports checks again
	}
	for g.isAnnounced == g.openAt.IsZero() || g.isAnnounced && g.reportedKind != dlt.Kind(g.lastErr) {
		g.isAnnouncing, g.isAnnounced = true, !g.openAt.IsZero()
		paused, why := g.isAnnounced, g.lastErr
		g.reportedKind = dlt.Kind(why)
		g.mu.Unlock()
		if paused {
			a.options.Paused(sc, why)
		} else {
			a.options.Resumed(sc)
		}
		g.mu.Lock()
		g.isAnnouncing = false
	}
}
