package submit

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Scope is the part that back-pressure slows: a service, or a whole ledger.
type Scope struct {
	Ledger  string
	Service batch.ServiceID // "" of a whole ledger
	All     bool            // the whole ledger
}

// maxGates is how many scopes are remembered at least. Past it, services whose gate is open
// and has no request under way are forgotten.
const maxGates = 10_000

// gates are the gates of all scopes.
type gates struct {
	ledger dlt.Ledger
	o      *Options

	mu    sync.Mutex
	by    map[Scope]*gate
	whole []*gate // whose scope is a whole ledger
	most  int     // by may hold
}

func (a *gates) scopeOf(service batch.ServiceID) Scope {
	t := a.ledger.Traits(service)
	if t.PressureScope == dlt.ScopeService {
		return Scope{Ledger: t.Name, Service: service}
	}
	return Scope{Ledger: t.Name, All: true}
}

// of returns the gate of a service's requests.
func (a *gates) of(service batch.ServiceID) *gate {
	sc := a.scopeOf(service)
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.by[sc]
	if g == nil {
		if len(a.by) >= a.most {
			for k, old := range a.by {
				if !k.All && old.idle() {
					delete(a.by, k)
				}
			}
			a.most = max(maxGates, 2*len(a.by)) // so that one pass serves many new gates
		}
		g = newGate(a.o.Pool, a.o.hangsAfter())
		a.by[sc] = g
		if sc.All {
			a.whole = append(a.whole, g)
		}
	}
	return g
}

// only returns the gate of a whole ledger, if there is one such gate.
func (a *gates) only() *gate {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.whole) != 1 {
		return nil
	}
	return a.whole[0]
}

// known returns the gate of a service, nil where nothing was sent there yet, or not for long.
func (a *gates) known(service batch.ServiceID) (*gate, Scope) {
	sc := a.scopeOf(service)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.by[sc], sc
}

// closed returns for how long the gate of a service lets no request through.
func (a *gates) closed(service batch.ServiceID) time.Duration {
	g, _ := a.known(service)
	if g == nil {
		return 0
	}
	return g.closed(time.Now())
}

// why returns the error for which the gate of a service is closed, nil where it is open or its
// pause is over, and whether it is the gate of a whole ledger.
func (a *gates) why(service batch.ServiceID, after time.Duration) (why error, all bool) {
	g, sc := a.known(service)
	if g == nil || g.over(time.Now(), after) {
		return nil, sc.All
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why, sc.All
}

// over reports whether the gate of a scope is open, or closed and of no use: see [gate.over].
func (a *gates) over(sc Scope, after time.Duration) bool {
	a.mu.Lock()
	g := a.by[sc]
	a.mu.Unlock()
	return g == nil || g.over(time.Now(), after)
}

// leave ends a request, and reports what that changed.
func (a *gates) leave(g *gate, t turn, service batch.ServiceID, err error) {
	res := unsure
	switch dlt.Kind(err) {
	case "", batch.KindRejected, batch.KindNotYet:
		res = fine
	case batch.KindBusy, batch.KindUnavailable:
		res = pressed
	case batch.KindMisconfigured:
		res = barred
	}
	closed, opened := g.leave(t, res, dlt.RetryAfter(err), time.Now())
	if !closed && !opened {
		return
	}
	a.announce(g, a.scopeOf(service), err)
	if opened {
		a.o.Ready()
	}
}

// announce reports by Paused or Resumed that the gate has changed since its last report, and by
// Paused that it stays closed for another kind of reason. One goroutine reports at a time, without
// the lock, and looks again after each report: so the last report is true, even if the gate closes
// and opens at about the same time.
func (a *gates) announce(g *gate, sc Scope, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.why = err
	}
	if g.announcing {
		return // the goroutine that reports checks again
	}
	for g.announced == g.openAt.IsZero() || g.announced && g.said != dlt.Kind(g.why) {
		g.announcing, g.announced = true, !g.openAt.IsZero()
		paused, why := g.announced, g.why
		g.said = dlt.Kind(why)
		g.mu.Unlock()
		if paused {
			a.o.Paused(sc, why)
		} else {
			a.o.Resumed(sc)
		}
		g.mu.Lock()
		g.announcing = false
	}
}
