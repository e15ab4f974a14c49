package autobatch

import (
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// parties decides for which party a batch may be made now.
type parties struct {
	options *Options

	mu           sync.Mutex
	byParty      map[batch.ServiceID]*partyState
	probeLine    []batch.ServiceID // parties that failed and wait for another try
	probesInWork int               // number of such parties in work
}

// partyState has what is known of a party.
type partyState struct {
	isBusy      bool // whether a worker has the party
	moreOrders  bool // whether new orders came while the party was busy
	isProbe     bool // whether the present try is a probe
	inLine      bool // whether the party waits to be a probe
	failPauses  *backoff.ExponentialBackOff
	pausedUntil time.Time // the party is left alone until then
	lastOrders  time.Time // when the party last had orders
}

// stateOf returns the state of a party, and makes one if there is none. The caller holds a.mu.
func (a *parties) stateOf(party batch.ServiceID) *partyState {
	p := a.byParty[party]
	if p == nil {
		p = &partyState{}
		a.byParty[party] = p
	}
	return p
}

// forget removes the parties that have had no orders since begin, the start of the cycle.
func (a *parties) forget(begin time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, p := range a.byParty {
		if !p.isBusy && p.lastOrders.Before(begin) && time.Until(p.pausedUntil) <= 0 {
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
	a.leaveLine(party, p) // the party would otherwise hold up the others in the line
}

// take makes a party busy, or returns the time until the next try.
func (a *parties) take(party batch.ServiceID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.stateOf(party)
	p.lastOrders = time.Now()
	if p.isBusy {
		p.moreOrders = true
		return a.options.BatchInterval
	}
	if wait := time.Until(p.pausedUntil); wait > 0 {
		return wait
	}
	if p.failPauses != nil && !a.mayProbe(party, p) {
		return a.options.BatchInterval
	}
	p.isBusy, p.moreOrders = true, false
	return 0
}

// mayProbe reports whether a party that failed before may be tried now. Such parties get only a
// part of the workers, since their Builders may hang again, and the one that has waited longest
// comes first. The caller holds a.mu.
func (a *parties) mayProbe(party batch.ServiceID, p *partyState) bool {
	if !p.inLine {
		p.inLine = true
		a.probeLine = append(a.probeLine, party)
	}
	free := max(1, a.options.Workers/4) - a.probesInWork
	if !slices.Contains(a.probeLine[:min(free, len(a.probeLine))], party) {
		return false
	}
	a.leaveLine(party, p)
	a.probesInWork++
	p.isProbe = true
	return true
}

// release ends take, and reports whether new orders came meanwhile. After a failure the party is
// left alone, for a time that grows with each failure.
func (a *parties) release(party batch.ServiceID, failed bool) (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byParty[party]
	again = p.moreOrders && !failed
	if p.isProbe {
		a.probesInWork--
	}
	p.isBusy, p.moreOrders, p.isProbe = false, false, false
	switch {
	case failed && p.failPauses == nil:
		p.failPauses = loop.NewPauses(a.options.RecoveryInterval, loop.MaxPause)
		fallthrough
	case failed:
		p.pausedUntil = time.Now().Add(p.failPauses.NextBackOff())
	case time.Until(p.pausedUntil) > 0: // pause was called meanwhile
		p.failPauses = nil
	default:
		delete(a.byParty, party)
	}
	return again
}
