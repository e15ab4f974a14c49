package submitter

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// scope is the part that back-pressure slows: a service, or a whole ledger.
type scope struct {
	ledger  string
	service batch.ServiceID
	all     bool
}

// maxGates is how many scopes are remembered at least. Past it, services whose gate is open
// and has no request under way are forgotten.
const maxGates = 10_000

func (s *Submitter) scopeOf(service batch.ServiceID) scope {
	t := s.ledger.Traits(service)
	if t.PressureScope == dlt.ScopeService {
		return scope{ledger: t.Name, service: service}
	}
	return scope{ledger: t.Name, all: true}
}

func (s *Submitter) gate(sc scope) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates[sc]
	if g == nil {
		if len(s.gates) >= s.maxGates {
			for k, old := range s.gates {
				if !k.all && old.idle() {
					delete(s.gates, k)
				}
			}
			s.maxGates = max(maxGates, 2*len(s.gates)) // so that one pass serves many new gates
		}
		g = newGate(s.o.Pool)
		s.gates[sc] = g
		if sc.all {
			s.whole = append(s.whole, g)
		}
	}
	return g
}

func (s *Submitter) leave(g *gate, probe bool, service batch.ServiceID, err error) {
	res := unsure
	switch dlt.Kind(err) {
	case "", batch.KindRejected:
		res = fine
	case batch.KindBusy, batch.KindUnavailable:
		res = pressed
	case batch.KindMisconfigured:
		res = barred
	}
	closed, opened := g.leave(probe, res, retryAfter(err), time.Now())
	if !closed && !opened {
		return
	}
	s.tell(g, s.scopeOf(service), err)
	if opened {
		s.o.Ready()
	}
}

// tell reports by Paused or Resumed that the gate has changed since its last report. One goroutine
// reports at a time, without the lock, and looks again after each report: so the last report is
// true, even if the gate closes and opens at about the same time.
func (s *Submitter) tell(g *gate, sc scope, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.why = err
	}
	if g.telling {
		return // the goroutine that reports checks again
	}
	for g.told == g.openAt.IsZero() {
		g.telling, g.told = true, !g.told
		paused, why := g.told, g.why
		g.mu.Unlock()
		if paused {
			s.o.Paused(sc.service, sc.all, why)
		} else {
			s.o.Resumed(sc.service, sc.all)
		}
		g.mu.Lock()
		g.telling = false
	}
}
