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

	mu        sync.Mutex
	byParty   map[batch.ServiceID]*partyState
	probeLine []batch.ServiceID // parties that failed, and wait to be tried again
	probes    int               // number of these in work
}

// partyState is the memory of a party.
type partyState struct {
	busy        bool // a worker has it
	moreOrders  bool // new orders came meanwhile
	isProbe     bool // it is a probe
	inLine      bool // it waits to be a probe
	failPauses  *backoff.ExponentialBackOff
	pausedUntil time.Time // left alone until then
	lastOrders  time.Time // the last time it had orders
}

// stateOf returns the memory of a party. The caller holds a.mu.
func (a *parties) stateOf(party batch.ServiceID) *partyState {
	p := a.byParty[party]
	if p == nil {
		p = &partyState{}
		a.byParty[party] = p
	}
	return p
}

// forget drops parties without orders since begin, when the cycle began.
func (a *parties) forget(begin time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, p := range a.byParty {
		if !p.busy && p.lastOrders.Before(begin) && time.Until(p.pausedUntil) <= 0 {
			delete(a.byParty, s)
			a.leaveLine(s, p)
		}
	}
}

// leaveLine removes a party from the line for probes. The caller holds a.mu.
func (a *parties) leaveLine(party batch.ServiceID, p *partyState) {
	if p.inLine {
		p.inLine = false
		a.probeLine = slices.DeleteFunc(a.probeLine, func(s batch.ServiceID) bool { return s == party })
	}
}

// pause leaves a party alone for d.
func (a *parties) pause(party batch.ServiceID, d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.stateOf(party)
	if until := time.Now().Add(d); until.After(p.pausedUntil) {
		p.pausedUntil = until
	}
	a.leaveLine(party, p) // it would keep the others from their turn
}

// take makes a party busy, or returns the time until the next try.
func (a *parties) take(party batch.ServiceID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.stateOf(party)
	p.lastOrders = time.Now()
	if p.busy {
		p.moreOrders = true
		return a.o.BatchInterval
	}
	if wait := time.Until(p.pausedUntil); wait > 0 {
		return wait
	}
	if p.failPauses != nil && !a.mayProbe(party, p) {
		return a.o.BatchInterval
	}
	p.busy, p.moreOrders = true, false
	return 0
}

// mayProbe limits parties that failed before to a share of the workers, since their Builders
// may hang again. The party that waits longest goes first. The caller holds a.mu.
func (a *parties) mayProbe(party batch.ServiceID, p *partyState) bool {
	if !p.inLine {
		p.inLine = true
		a.probeLine = append(a.probeLine, party)
	}
	free := max(1, a.o.Workers/4) - a.probes
	if !slices.Contains(a.probeLine[:min(free, len(a.probeLine))], party) {
		return false
	}
	a.leaveLine(party, p)
	a.probes++
	p.isProbe = true
	return true
}

// release ends take, and reports whether new orders came meanwhile. After a failure the party is
// left alone, longer each time.
func (a *parties) release(party batch.ServiceID, failed bool) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byParty[party]
	again = p.moreOrders && !failed
	if p.isProbe {
		a.probes--
	}
	p.busy, p.moreOrders, p.isProbe = false, false, false
	switch {
	case failed && p.failPauses == nil:
		p.failPauses = loop.NewPauses(a.o.RecoveryInterval, loop.MaxPause)
		fallthrough
	case failed:
		p.pausedUntil = time.Now().Add(p.failPauses.NextBackOff())
	case time.Until(p.pausedUntil) > 0: // paused in between
		p.failPauses = nil
	default:
		delete(a.byParty, party)
	}
	return again
}
