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

// vitals records how the calls of one Run went: to its store, to its ledger, and of each loop.
type vitals struct {
	names []string // of all ledgers

	mu       sync.Mutex
	store    part
	ledgers  map[string]*part // that were asked, by name
	writes   part             // to the store, of the loops: a read that succeeds says nothing about them
	row      part             // the write of this instance's own row, which an idle Runner makes, too
	accepted time.Time        // when the ledger last took a batch
	counts   health.Counts
	anyOpen  bool // by the counts that were read last
	loops    map[loopOf]*part
	streams  map[batch.ServiceID]*stream
}

// loopOf is a loop, and the ledger that it asks; "" for a loop that asks the store.
type loopOf struct{ loop, ledger string }

func newVitals(ledgers ...string) *vitals {
	return &vitals{names: ledgers, ledgers: map[string]*part{}, loops: map[loopOf]*part{}, streams: map[batch.ServiceID]*stream{}}
}

// ledgerOf is the part of a ledger.
func (v *vitals) ledgerOf(name string) *part {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.ledgers[name]
	if p == nil {
		p = &part{patient: true}
		v.ledgers[name] = p
	}
	return p
}

// look fills in the health of the parts.
func (v *vitals) look(now time.Time, h *health.Health) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.Store = v.store.look(now)
	asked := make(map[string]health.PartHealth, len(v.ledgers))
	for name, p := range v.ledgers {
		asked[name] = p.look(now)
	}
	if h.Ledger = best(asked, len(v.names)); len(v.names) != 1 {
		h.Ledgers = asked
	}
	for _, p := range []*part{&v.writes, &v.row} {
		if w := p.look(now); w.Condition == health.ConditionFailing && (h.Store.Condition != health.ConditionFailing || w.FailingSince.Before(h.Store.FailingSince)) {
			w.LastSuccess = h.Store.LastSuccess
			h.Store = w
		}
	}
	h.Counts = v.counts
	h.Loops = make(map[string]health.PartHealth, len(v.loops))
	asking := map[string]map[string]health.PartHealth{} // loops, by ledger
	for of, p := range v.loops {
		if of.ledger == "" {
			h.Loops[of.loop] = p.look(now)
			continue
		}
		if asking[of.loop] == nil {
			asking[of.loop] = map[string]health.PartHealth{}
		}
		asking[of.loop][of.ledger] = p.look(now)
	}
	for loop, parts := range asking {
		h.Loops[loop] = best(parts, len(v.names))
	}
	for s, st := range v.streams {
		h.Streams = worse(h.Streams, st.look())
		if !st.lost.IsZero() {
			h.LostStreams = append(h.LostStreams, s)
		}
	}
	slices.Sort(h.LostStreams)
	h.OpenStreams = len(v.streams) - len(h.LostStreams)
}

// best is the health of a whole of so many parts, of which these were used, where one that
// works is enough: it fails only where each does, since the last of them began to.
func best(used map[string]health.PartHealth, of int) (all health.PartHealth) {
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

// worse merges two parts into one: it takes the condition of the part that has failed for
// longer.
func worse(a, b health.PartHealth) health.PartHealth {
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

// silence is how long calls may be in flight without any answer before that counts as a
// failure. A frozen database refuses nothing, so no error would show it.
const silence = 3 * time.Second

// part records how the calls of one part went.
type part struct {
	patient bool      // its calls may take as long as their own timeouts
	under   int       // calls in flight
	since   time.Time // when the first of these calls began, or the last answer came, if later
	success time.Time
	failing time.Time // when the first failed call since the last success began
	failed  time.Time // when the last failed call ended
	n       int
	err     error
}

func (p *part) begin(now time.Time) {
	if p.under++; p.under == 1 {
		p.since = now
	}
}

// end records the result of a call that started at began. A call that was broken off counts as
// nothing.
func (p *part) end(began, now time.Time, err error, brokenOff bool) {
	p.under--
	switch {
	case brokenOff:
	case err == nil:
		p.since, p.success = now, now
		p.failing, p.n, p.err = time.Time{}, 0, nil
	default:
		p.since = now
		if p.failing.IsZero() || now.Sub(p.failed) >= health.Memory {
			p.failing, p.n = began, 0
		}
		p.failed, p.err = now, err
		p.n++
	}
}

func (p *part) look(now time.Time) health.PartHealth {
	h := health.PartHealth{LastSuccess: p.success}
	if !p.patient && p.under > 0 && now.Sub(p.since) >= silence {
		h.NoAnswerSince = p.since
	}
	switch {
	case !p.failing.IsZero() && (p.under > 0 || now.Sub(p.failed) < health.Memory):
		h.Condition, h.FailingSince, h.Failures, h.Err = health.ConditionFailing, p.failing, p.n, p.err
	case !h.NoAnswerSince.IsZero():
		h.Condition, h.FailingSince, h.Failures = health.ConditionFailing, p.since, p.under
		h.Err = fmt.Errorf("%w for %s", health.ErrNoAnswer, now.Sub(p.since).Round(time.Millisecond))
	case p.failing.IsZero() && !p.success.IsZero():
		h.Condition = health.ConditionOK
	}
	return h
}

// begin takes note of a call of a loop that begins, and returns the parts that it belongs to:
// whole, the loop, and also, which may be nil.
func (v *vitals) begin(now time.Time, whole *part, loop loopOf, also *part) [3]*part {
	v.mu.Lock()
	defer v.mu.Unlock()
	own := v.loops[loop]
	if own == nil && loop.loop != "" {
		own = &part{patient: whole.patient}
		v.loops[loop] = own
	}
	parts := [...]*part{whole, own, also}
	for _, p := range parts {
		if p != nil {
			p.begin(now)
		}
	}
	return parts
}

// end takes note of how the call ended.
func (v *vitals) end(ctx context.Context, parts [3]*part, began, now time.Time, err error) {
	brokenOff := errors.Is(ctx.Err(), context.Canceled)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range parts {
		if p != nil {
			p.end(began, now, err, brokenOff)
		}
	}
}

// took says that the ledger has taken a batch.
func (v *vitals) took() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.accepted = time.Now()
}

// counted takes the counts that were read.
func (v *vitals) counted(s store.Stats) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counts = nextCounts(v.counts, time.Now(), s, v.accepted)
	v.anyOpen = s.OpenAt().Open > 0 || !s.OldestOrder.IsZero()
}

// open reports whether the counts that were read last have an open batch or order. While they have
// one, they are read as often as ever.
func (v *vitals) open() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.anyOpen
}
