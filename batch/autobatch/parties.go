package autobatch

import (
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// parties says which party may have a batch made now.
type parties struct {
	o *Options

	mu     sync.Mutex
	by     map[batch.ServiceID]*pace
	line   []batch.ServiceID // parties that failed, and wait to be tried again
	probes int               // number of these in work
}

// pace is the memory of a party.
type pace struct {
	busy   bool // a worker has it
	again  bool // new orders came meanwhile
	probe  bool // it is a probe
	inLine bool // it waits to be a probe
	failed *backoff.ExponentialBackOff
	until  time.Time // left alone until then
	seen   time.Time // the last time it had orders
}

// of returns the memory of a party. The caller holds a.mu.
func (a *parties) of(party batch.ServiceID) *pace {
	p := a.by[party]
	if p == nil {
		p = &pace{}
		a.by[party] = p
	}
	return p
}

// forget drops parties without orders since begin, when the cycle began.
func (a *parties) forget(begin time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, p := range a.by {
		if !p.busy && p.seen.Before(begin) && time.Until(p.until) <= 0 {
			delete(a.by, s)
			a.leaveLine(s, p)
		}
	}
}

// leaveLine removes a party from the line for probes. The caller holds a.mu.
func (a *parties) leaveLine(party batch.ServiceID, p *pace) {
	if p.inLine {
		p.inLine = false
		a.line = slices.DeleteFunc(a.line, func(s batch.ServiceID) bool { return s == party })
	}
}

// pause leaves a party alone for d.
func (a *parties) pause(party batch.ServiceID, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of(party)
	if until := time.Now().Add(d); until.After(p.until) {
		p.until = until
	}
	a.leaveLine(party, p) // it would keep the others from their turn
}

// take makes a party busy, or returns the time until the next try.
func (a *parties) take(party batch.ServiceID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.of(party)
	p.seen = time.Now()
	if p.busy {
		p.again = true
		return a.o.BatchInterval
	}
	if wait := time.Until(p.until); wait > 0 {
		return wait
	}
	if p.failed != nil && !a.mayProbe(party, p) {
		return a.o.BatchInterval
	}
	p.busy, p.again = true, false
	return 0
}

// mayProbe limits parties that failed before to a share of the workers, since their Builders
// may hang again. The party that waits longest goes first. The caller holds a.mu.
func (a *parties) mayProbe(party batch.ServiceID, p *pace) bool {
	if !p.inLine {
		p.inLine = true
		a.line = append(a.line, party)
	}
	free := max(1, a.o.Workers/4) - a.probes
	if !slices.Contains(a.line[:min(free, len(a.line))], party) {
		return false
	}
	a.leaveLine(party, p)
	a.probes++
	p.probe = true
	return true
}

// release ends take, and reports whether new orders came meanwhile. After a failure the party is
// left alone, longer each time.
func (a *parties) release(party batch.ServiceID, failed bool) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.by[party]
	again = p.again && !failed
	if p.probe {
		a.probes--
	}
	p.busy, p.again, p.probe = false, false, false
	switch {
	case failed && p.failed == nil:
		p.failed = loop.Backoff(a.o.RecoveryInterval, loop.MaxPause)
		fallthrough
	case failed:
		p.until = time.Now().Add(p.failed.NextBackOff())
	case time.Until(p.until) > 0: // paused in between
		p.failed = nil
	default:
		delete(a.by, party)
	}
	return again
}
