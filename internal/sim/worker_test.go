package sim

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// worker is one instance: a queuer, a submitter and a monitor in steps. Its life ends with a
// crash; its later steps are dropped.
type worker struct {
	w    *world
	name int
	life int // raised by a crash
	seen map[sighting]time.Time

	client  *splinter.Client // of a scabbard
	readers []*reader
	posted  map[batch.ID]bool // in this life
	found   map[batch.ID]dlt.Evidence
}

type sighting struct {
	id      batch.ID
	version int64
}

var (
	errLost   = errors.New("reply lost")
	submRules = submitter.Rules{
		FirstCheck: 50 * time.Millisecond,
		Delay:      func(_ batch.ServiceID, n int) time.Duration { return min(time.Second<<min(n-1, 4), 15*time.Second) },
	}
	monRules = monitor.Rules{
		TTL: ttl, FirstPoll: 50 * time.Millisecond, PollInterval: time.Second, StuckAfter: 2 * time.Hour,
		Delay: submRules.Delay,
	}
)

// later runs a step in this life of the worker, unless the worker crashes or stops first.
func (k *worker) later(d time.Duration, do func()) {
	life := k.life
	k.w.after(d, func() {
		if k.life != life {
			return
		}
		switch {
		case k.w.chance(0.01):
			k.crash()
		case k.w.chance(0.01): // frozen for a while, longer than a claim lasts
			k.w.note("worker %d frozen", k.name)
			k.later(k.w.between(ttl/2, 2*ttl), do)
		default:
			do()
		}
	})
}

func (k *worker) start() {
	k.seen = map[sighting]time.Time{}
	k.w.note("worker %d starts", k.name)
	k.posted, k.found = map[batch.ID]bool{}, map[batch.ID]dlt.Evidence{}
	if k.w.kind.scabbard {
		k.client = k.w.client()
		k.read()
	}
	k.later(k.w.between(0, time.Second), k.queue)
	k.later(k.w.between(0, time.Second), k.monitor)
}

func (k *worker) crash() {
	k.life++
	k.w.note("worker %d crashes", k.name)
	for _, r := range k.readers {
		r.drop()
	}
	k.w.after(k.w.between(0, 30*time.Second), k.start)
}

func (k *worker) rest() bool {
	if time.Now().Before(k.w.awake) {
		return false
	}
	for _, rec := range k.w.open() {
		if k.w.kind.scabbard || rec.Decision == "" && !k.w.behindDecision(rec.Service, rec.ID) {
			return false
		}
	}
	return k.w.adding == 0
}

// pace is the time to the next round. Without faults little happens, and long steps pass the
// long waits.
func (w *world) pace(least time.Duration) time.Duration {
	if w.faulty {
		return w.between(least, time.Second)
	}
	return w.between(2*time.Second, 6*time.Second)
}

// queue claims from all lanes and posts, again and again.
func (k *worker) queue() {
	w := k.w
	if w.faulty || !k.rest() {
		k.later(w.pace(200*time.Millisecond), k.queue)
	}
	w.checkWaits()
	until := time.Now().Add(ttl - margin)
	closed := w.closed()
	lanes, err := w.store.Lanes(context.Background(), store.LanesQuery{Start: true, Limit: 100})
	if err != nil {
		w.fail("lanes: %w", err)
		return
	}
	if w.chance(0.3) {
		lanes = w.services() // as with hints, which know nothing of pauses
	}
	strategy, choose, check := w.lanes.strategy, w.choose, w.checkClaim
	if w.lanes.also.Name != "" && w.chance(0.5) {
		strategy, check = w.lanes.also, w.checkFront
		choose = queuer.Choose(strategy, nil, func(s batch.ServiceID, err error) { w.fail("lane %q: %w", s, err) })
	}
	if w.chance(0.1) {
		k.undone()
	}
	claimed, err := w.store.Claim(context.Background(), store.ClaimQuery{
		Lanes: lanes, Limit: 1 + w.rng.IntN(4), Window: strategy.Window, TTL: ttl, StuckAfter: w.stuckAfter(), Salt: w.rng.Uint32(), Wants: queuer.Wants(strategy, func(batch.ServiceID) bool { return w.lanes.keeps }),
		MaxInFlight: func(batch.ServiceID) int { return w.lanes.most },
		Resend: func(batch.ServiceID) store.Resend {
			return store.Resend{HarmlessFor: w.kind.traits.ResendHarmlessFor, LateArrival: w.kind.traits.LateArrival}
		},
	}, choose)
	if err != nil {
		w.fail("claim: %w", err)
		return
	}
	if w.chance(0.05) {
		k.unsure(claimed)
		return
	}
	for _, run := range claimed.Runs {
		if closed(run.Service) {
			w.fail("%q was claimed from and is paused or halted", run.Service)
		}
		for _, c := range run.Batches {
			w.note("worker %d claims %s, attempt %d", k.name, c.Key, c.Attempt)
			w.turn(c)
			check(c)
		}
		w.checkRun(run)
		k.later(w.between(0, 200*time.Millisecond), func() { k.post(run.Batches, until) })
	}
}

// unsure is a claim that was made without the worker knowing: the worker puts its batches
// back by version. It leaves some of them to their end, as a worker that dies does.
func (k *worker) unsure(claimed store.Claimed) {
	for _, run := range claimed.Runs {
		k.w.note("worker %d: reply to the claim of lane %q lost", k.name, run.Service)
		if !k.w.chance(0.2) {
			k.back(run.Batches)
		}
	}
}

// undone is a claim whose transaction was silently rolled back: the worker puts its batches
// back by version, too, and a worker that claims the batch meanwhile must not notice.
func (k *worker) undone() {
	q := store.ClaimQuery{TTL: ttl, Salt: k.w.rng.Uint32()}
	for _, rec := range k.w.open() {
		if !rec.State.Claimable() {
			continue
		}
		row := store.LaneRow{Ref: store.Ref{Key: rec.Key}, Row: store.Row{State: rec.State, Version: rec.Version}}
		plan := store.PlanLane(rec.Service, []store.LaneRow{row}, time.Now(), q, 1, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		c := plan.Runs[0].Batches[0]
		c.Was = nil
		k.w.note("worker %d: claim of %s rolled back without a word", k.name, c.Key)
		k.back([]store.Claim{c})
	}
}

// back puts claims back that are not posted.
func (k *worker) back(claims []store.Claim) {
	for _, c := range claims {
		k.record(submitter.Unposted(c))
	}
}

// post checks the clock and starts the first request of a run, in one step: a process that is
// frozen in between is the one hole that the documentation names. The others follow one by
// one, and a failure puts back the rest.
func (k *worker) post(run []store.Claim, until time.Time) {
	w, c := k.w, run[0]
	if time.Until(until) < requestTimeout || w.chance(0.02) { // or a drain
		k.back(run)
		return
	}
	payloads, err := w.store.Payloads(context.Background(), []store.Ref{c.Ref})
	if err != nil || payloads[0] == nil {
		w.fail("payload of %s: %v", c.Key, err)
		return
	}
	deadline := time.Now().Add(requestTimeout)
	if w.posting[c.Key.ID]++; w.posting[c.Key.ID] > 1 && (!w.stepped || w.kind.traits.ResendHarmlessFor == 0) {
		w.fail("promise 4: two POSTs of %s at a time", c.Key)
	}
	if w.told[c.Key.ID] && w.kind.dedup == 0 { // else the ledger may forget, and a resend is harmless
		w.fail("%s is posted after the ledger said it is committed", c.Key)
	}
	if deadline.After(until) {
		w.fail("promise 4: request for %s would outlive its claim", c.Key)
	}
	w.note("worker %d posts %s, attempt %d", k.name, c.Key, c.Attempt)
	w.mayPost(c)
	k.posted[c.Key.ID] = true
	a := batch.Attempt{Key: c.Key, Number: c.Attempt, Payload: payloads[0]}
	travel := w.between(0, requestTimeout/3)
	reply := func(err error, at time.Duration) {
		// The connection ends even if the worker is dead by then; a living worker gets the
		// result.
		w.after(at, func() {
			w.posting[c.Key.ID]--
			w.ended(c.Key.ID, err)
		})
		k.later(at, func() {
			w.note("worker %d hears about %s: %v", k.name, c.Key, err)
			rules := submRules
			rules.StuckAfter = w.stuckAfter()
			k.record(submitter.Judge(c, err, true, rules))
			switch rest := run[1:]; {
			case len(rest) == 0:
			case err != nil:
				k.back(rest)
			default:
				k.later(w.between(0, 20*time.Millisecond), func() { k.post(rest, until) })
			}
		})
	}
	lost := &dlt.Error{Op: "submit", Err: errLost}
	switch draw := w.rng.Float64(); {
	case !w.faulty || draw > 0.45:
		var err error
		w.after(travel, func() { err = w.arrive(a) })
		w.after(2*travel, func() { reply(err, 0) })
	case draw < 0.05:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrBusy}, travel)
	case draw < 0.10:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable}, travel)
	case draw < 0.12:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrMisconfigured}, travel)
	case draw < 0.14:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrRejected}, travel)
	case draw < 0.20: // never arrives
		reply(lost, travel)
	case draw < 0.28: // arrives, and the reply is lost
		w.after(travel, func() { _ = w.arrive(a) })
		reply(lost, 2*travel)
	case draw < 0.36: // arrives late
		late := w.between(0, cmp.Or(w.kind.late, w.kind.traits.LateArrival))
		w.after(travel+late, func() { _ = w.arrive(a) })
		reply(lost, travel)
	case draw < 0.40: // hangs
		reply(context.DeadlineExceeded, requestTimeout)
	default: // taken, and hangs
		w.after(travel, func() { _ = w.arrive(a) })
		reply(context.DeadlineExceeded, requestTimeout)
	}
}

// mayPost checks a POST against the results of the POSTs before it.
func (w *world) mayPost(c store.Claim) {
	s, t := w.sent[c.Key.ID], w.kind.traits
	s.posts++
	if s.budget.EveryTry && s.budget.Exhausted(s.posts-1) {
		w.fail("%s is posted for the %d. time, with a budget of %d", c.Key, s.posts, s.budget.Attempts)
	}
	if t.Resolves || s.unsure == 0 || w.stepped {
		return // evidence may have come at any time, or the clock said that it was late enough
	}
	if ago := time.Since(s.lastEnd); ago < t.Grace {
		w.fail("promise 3: %s is sent again %s after its last POST, within Grace", c.Key, ago)
	} else if s.unsure > 1 && s.inside && ago < t.ResendQuiet {
		w.fail("%s is sent again %s after its last POST, within ResendQuiet, and the ledger has not restarted since", c.Key, ago)
	}
}

// ended is the end of a POST's connection.
func (w *world) ended(id batch.ID, err error) {
	s := w.sent[id]
	switch dlt.Kind(err) {
	case batch.KindMisconfigured:
		s.posts--
	case batch.KindBusy, batch.KindUnavailable, batch.KindRejected, batch.KindNotYet:
	default:
		s.unsure++
		s.lastEnd = time.Now()
	}
}

// arrive is the moment when the ledger gets a request.
func (w *world) arrive(a batch.Attempt) error {
	if w.inTx {
		w.fail("promise 8: a transaction is open while the network is used")
	}
	w.sent[a.ID].inside = true
	err := w.ledger.Submit(context.Background(), a)
	w.note("ledger gets %s, attempt %d: %v", a.Key, a.Number, err)
	w.check()
	return err
}

// record writes after a while, in which the worker may die; sometimes twice.
func (k *worker) record(o store.Outcome) {
	k.later(k.w.between(0, 20*time.Millisecond), func() {
		w := k.w
		times := 1
		if w.chance(0.05) { // the reply to the write was lost, and it is written again
			times = 2
		}
		for range times {
			before, errBefore := w.store.Get(context.Background(), o.Key)
			applied, err := w.store.Record(context.Background(), []store.Outcome{o})
			if err != nil {
				w.fail("record: %w", err)
				return
			}
			after, _ := w.store.Get(context.Background(), o.Key)
			a := applied[0]
			w.note("worker %d records %s of %s: result %d, %s to %s", k.name, o.Finding, o.Key, a.Result, a.From, after.State)
			w.checkPolicy(o, a)
			w.checkCall(o, a)
			switch {
			case a.Result == store.Bad:
				w.fail("bad outcome: %w", a.Err)
			case a.Result == store.Held:
				k.later(time.Second, func() { k.record(o) })
			case a.Result == store.Fenced && errBefore == nil && after.Version != before.Version:
				w.fail("promise 5: fenced, and changed %s", o.Key)
			case a.Result == store.Written && o.Finding != store.IsCommitted && before.Version != o.Version:
				w.fail("promise 5: %s at version %d was written by one that read %d", o.Key, before.Version, o.Version)
			}
			w.heardOf(o, a)
			if o.Finding == store.IsCommitted && a.Result != store.Held && after.State != batch.Committed {
				w.fail("promise 5: a known commit of %s was lost", o.Key)
			}
		}
	})
}
