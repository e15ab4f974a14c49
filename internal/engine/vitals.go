package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
)

// vitals records how the calls of one Run went: those to its store, to its ledger, and of each
// loop.
type vitals struct {
	ledgerNames []string // names of all ledgers

	mu         sync.Mutex
	store      partCalls
	ledgers    map[string]*partCalls // the ledgers that were called, by name
	loopWrites partCalls             // the loops' writes to the store: a read that succeeds does not end their failure
	ownRow     partCalls             // writes of this instance's own row, which an idle Run makes, too
	acceptedAt time.Time             // when the ledger last took a batch
	counts     health.Counts
	hasOpen    bool // whether the counts that were read last have anything open
	loops      map[loopOf]*partCalls
	streams    map[batch.ServiceID]*stream
}

// loopOf is a loop, and the ledger that it calls; ledger is "" for a loop that calls the store.
type loopOf struct{ loop, ledger string }

func newVitals(ledgers ...string) *vitals {
	return &vitals{ledgerNames: ledgers, ledgers: map[string]*partCalls{}, loops: map[loopOf]*partCalls{}, streams: map[batch.ServiceID]*stream{}}
}

// ledgerOf returns the record of the calls to a ledger.
func (v *vitals) ledgerOf(name string) *partCalls {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.ledgers[name]
	if p == nil {
		p = &partCalls{mayTakeLong: true}
		v.ledgers[name] = p
	}
	return p
}

// fillHealth sets the health of the parts in h.
func (v *vitals) fillHealth(now time.Time, h *health.Health) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.Store = v.store.health(now)
	asked := make(map[string]health.PartHealth, len(v.ledgers))
	for name, p := range v.ledgers {
		asked[name] = p.health(now)
	}
	if h.Ledger = bestHealth(asked, len(v.ledgerNames)); len(v.ledgerNames) != 1 {
		h.Ledgers = asked
	}
	for _, p := range []*partCalls{&v.loopWrites, &v.ownRow} {
		if w := p.health(now); w.Condition == health.ConditionFailing && (h.Store.Condition != health.ConditionFailing || w.FailingSince.Before(h.Store.FailingSince)) {
			w.LastSuccess = h.Store.LastSuccess
			h.Store = w
		}
	}
	h.Counts = v.counts
	h.Loops = make(map[string]health.PartHealth, len(v.loops))
	asking := map[string]map[string]health.PartHealth{} // the loops that call a ledger, by ledger
	for of, p := range v.loops {
		if of.ledger == "" {
			h.Loops[of.loop] = p.health(now)
			continue
		}
		if asking[of.loop] == nil {
			asking[of.loop] = map[string]health.PartHealth{}
		}
		asking[of.loop][of.ledger] = p.health(now)
	}
	for loop, parts := range asking {
		h.Loops[loop] = bestHealth(parts, len(v.ledgerNames))
	}
	for s, st := range v.streams {
		h.Streams = worseHealth(h.Streams, st.health())
		if !st.lostAt.IsZero() {
			h.LostStreams = append(h.LostStreams, s)
		}
	}
	slices.Sort(h.LostStreams)
	h.OpenStreams = len(v.streams) - len(h.LostStreams)
}

// bestHealth returns the health of a whole that has of parts and works while one part works. used
// has the parts that were called. The whole fails only if each part fails, since the last of them
// began to fail.
func bestHealth(used map[string]health.PartHealth, of int) (all health.PartHealth) {
	failing := 0
	for _, p := range used {
		if p.LastSuccess.After(all.LastSuccess) {
			all.LastSuccess = p.LastSuccess
		}
		switch p.Condition {
		case health.ConditionFailing:
			failing++
			all.Failures += p.Failures
			if p.FailingSince.After(all.FailingSince) {
				all.FailingSince, all.Err = p.FailingSince, p.Err
			}
		case health.ConditionOK:
			all.Condition = health.ConditionOK
		}
	}
	if failing > 0 && failing >= max(of, len(used)) {
		all.Condition = health.ConditionFailing
	} else {
		all.FailingSince, all.Failures, all.Err = time.Time{}, 0, nil
	}
	return all
}

// worseHealth merges two parts into one: the failure is that of the part that has failed for
// longer.
func worseHealth(a, b health.PartHealth) health.PartHealth {
	last := a.LastSuccess
	if b.LastSuccess.After(last) {
		last = b.LastSuccess
	}
	failures := a.Failures + b.Failures
	if b.Condition > a.Condition || b.Condition == health.ConditionFailing && b.FailingSince.Before(a.FailingSince) {
		a = b
	}
	a.LastSuccess, a.Failures = last, failures
	return a
}

// silenceLimit is how long calls may be in flight without any answer before that counts as a
// failure. A database that is frozen refuses nothing, so no error would show it.
const silenceLimit = 3 * time.Second

// partCalls records how the calls of one part went.
type partCalls struct {
	mayTakeLong  bool      // whether calls may take as long as their own timeouts
	inFlight     int       // calls in flight
	since        time.Time // when the first call in flight began, or the last answer came, if that was later
	succeededAt  time.Time
	failingSince time.Time // when the first call that failed since the last success began
	failedAt     time.Time // when the last failed call ended
	failures     int
	err          error
}

func (p *partCalls) begin(now time.Time) {
	if p.inFlight++; p.inFlight == 1 {
		p.since = now
	}
}

// end records the result of a call that started at began. A call that was cancelled does not
// count.
func (p *partCalls) end(began, now time.Time, err error, brokenOff bool) {
	p.inFlight--
	switch {
	case brokenOff:
	case err == nil:
		p.since, p.succeededAt = now, now
		p.failingSince, p.failures, p.err = time.Time{}, 0, nil
	default:
		p.since = now
		if p.failingSince.IsZero() || now.Sub(p.failedAt) >= health.FailureMemory {
			p.failingSince, p.failures = began, 0
		}
		p.failedAt, p.err = now, err
		p.failures++
	}
}

func (p *partCalls) health(now time.Time) health.PartHealth {
	h := health.PartHealth{LastSuccess: p.succeededAt}
	if !p.mayTakeLong && p.inFlight > 0 && now.Sub(p.since) >= silenceLimit {
		h.NoAnswerSince = p.since
	}
	switch {
	case !p.failingSince.IsZero() && (p.inFlight > 0 || now.Sub(p.failedAt) < health.FailureMemory):
		h.Condition, h.FailingSince, h.Failures, h.Err = health.ConditionFailing, p.failingSince, p.failures, p.err
	case !h.NoAnswerSince.IsZero():
		h.Condition, h.FailingSince, h.Failures = health.ConditionFailing, p.since, p.inFlight
		h.Err = fmt.Errorf("%w for %s", health.ErrNoAnswer, now.Sub(p.since).Round(time.Millisecond))
	case p.failingSince.IsZero() && !p.succeededAt.IsZero():
		h.Condition = health.ConditionOK
	}
	return h
}

// begin records the beginning of a call of a loop, and returns the parts to which the call
// belongs: whole, the loop, and also, which may be nil.
func (v *vitals) begin(now time.Time, whole *partCalls, loop loopOf, also *partCalls) [3]*partCalls {
	v.mu.Lock()
	defer v.mu.Unlock()
	own := v.loops[loop]
	if own == nil && loop.loop != "" {
		own = &partCalls{mayTakeLong: whole.mayTakeLong}
		v.loops[loop] = own
	}
	parts := [...]*partCalls{whole, own, also}
	for _, p := range parts {
		if p != nil {
			p.begin(now)
		}
	}
	return parts
}

// end records how the call ended.
func (v *vitals) end(ctx context.Context, parts [3]*partCalls, began, now time.Time, err error) {
	brokenOff := errors.Is(ctx.Err(), context.Canceled)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range parts {
		if p != nil {
			p.end(began, now, err, brokenOff)
		}
	}
}

// batchAccepted records that the ledger has taken a batch.
func (v *vitals) batchAccepted() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.acceptedAt = time.Now()
}

// countsRead records the counts that were read.
func (v *vitals) countsRead(s store.Stats) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counts = nextCounts(v.counts, time.Now(), s, v.acceptedAt)
	v.hasOpen = s.OpenAt().Open > 0 || !s.OldestOrder.IsZero()
}

// hasOpenNow reports whether the counts that were read last have an open batch or order. While
// they have one, they are read at the usual interval.
func (v *vitals) hasOpenNow() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.hasOpen
}
