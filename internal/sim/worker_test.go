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

// worker is one instance: a queuer, a submitter and a monitor in steps. A crash ends its present
// life, and the later steps of that life are dropped.
type worker struct {
	world      *world
	number     int
	crashCount int // raised by each crash
	firstSeen  map[rowVersion]time.Time

	client           *splinter.Client // the client of a scabbard
	readers          []*streamReader
	postedInThisLife map[batch.ID]bool // the batches that it has posted in this life
	lastEvidence     map[batch.ID]dlt.Evidence
}

type rowVersion struct {
	id      batch.ID
	version int64
}

var (
	errLost        = errors.New("reply lost")
	submitterRules = submitter.Rules{
		FirstCheck: 50 * time.Millisecond,
		Delay:      func(_ batch.ServiceID, n int) time.Duration { return min(time.Second<<min(n-1, 4), 15*time.Second) },
	}
	monitorRules = monitor.Rules{
		TTL: claimTTL, FirstPoll: 50 * time.Millisecond, PollInterval: time.Second, StuckAfter: 2 * time.Hour,
		Delay: submitterRules.Delay,
	}
)

// stepLater runs a step in this life of the worker, unless the worker crashes before it.
func (k *worker) stepLater(d time.Duration, do func()) {
	life := k.crashCount
	k.world.scheduleAfter(d, func() {
		if k.crashCount != life {
			return
		}
		switch {
		case k.world.chance(0.01):
			k.crash()
		case k.world.chance(0.01): // the worker is frozen for longer than a claim lasts
			k.world.addTrace("worker %d frozen", k.number)
			k.stepLater(k.world.between(claimTTL/2, 2*claimTTL), do)
		default:
			do()
		}
	})
}

func (k *worker) start() {
	k.firstSeen = map[rowVersion]time.Time{}
	k.world.addTrace("worker %d starts", k.number)
	k.postedInThisLife, k.lastEvidence = map[batch.ID]bool{}, map[batch.ID]dlt.Evidence{}
	if k.world.ledgerKind.isScabbard {
		k.client = k.world.newSplinterClient()
		k.startReaders()
	}
	k.stepLater(k.world.between(0, time.Second), k.runQueuerRound)
	k.stepLater(k.world.between(0, time.Second), k.runMonitorRound)
}

func (k *worker) crash() {
	k.crashCount++
	k.world.addTrace("worker %d crashes", k.number)
	for _, r := range k.readers {
		r.dropStream()
	}
	k.world.scheduleAfter(k.world.between(0, 30*time.Second), k.start)
}

func (k *worker) mayRest() bool {
	if time.Now().Before(k.world.noRestBefore) {
		return false
	}
	for _, rec := range k.world.openBatches() {
		if k.world.ledgerKind.isScabbard || rec.Decision == "" && !k.world.waitsBehindDecision(rec.Service, rec.ID) {
			return false
		}
	}
	return k.world.addsToCome == 0
}

// roundDelay returns the time to the next round. Without faults little happens, so long steps
// shorten the run.
func (w *world) roundDelay(least time.Duration) time.Duration {
	if w.faultsHappen {
		return w.between(least, time.Second)
	}
	return w.between(2*time.Second, 6*time.Second)
}

// runQueuerRound claims from all lanes and posts, and schedules its next round.
func (k *worker) runQueuerRound() {
	w := k.world
	if w.faultsHappen || !k.mayRest() {
		k.stepLater(w.roundDelay(200*time.Millisecond), k.runQueuerRound)
	}
	w.checkDeadlines()
	until := time.Now().Add(claimTTL - claimMargin)
	closed := w.laneIsClosedFunc()
	lanes, err := w.store.Lanes(context.Background(), store.LanesQuery{Start: true, Limit: 100})
	if err != nil {
		w.fail("lanes: %w", err)
		return
	}
	if w.chance(0.3) {
		lanes = w.services() // as after hints, which do not consider pauses
	}
	strategy, choose, check := w.lanes.strategy, w.choose, w.checkClaim
	if w.lanes.secondStrategy.Name != "" && w.chance(0.5) {
		strategy, check = w.lanes.secondStrategy, w.checkSerialClaim
		choose = queuer.Choose(strategy, nil, func(s batch.ServiceID, err error) { w.fail("lane %q: %w", s, err) })
	}
	if w.chance(0.1) {
		k.loseClaimCommit()
	}
	claimed, err := w.store.Claim(context.Background(), store.ClaimQuery{
		Lanes: lanes, Limit: 1 + w.rng.IntN(4), Window: strategy.Window, TTL: claimTTL, StuckAfter: w.stuckAfter(), Salt: w.rng.Uint32(), Wants: queuer.Wants(strategy, func(batch.ServiceID) bool { return w.lanes.keepsOrder }),
		MaxInFlight: func(batch.ServiceID) int { return w.lanes.maxInFlight },
		Resend: func(batch.ServiceID) store.Resend {
			return store.Resend{HarmlessFor: w.ledgerKind.traits.ResendHarmlessFor, LateArrival: w.ledgerKind.traits.LateArrival}
		},
	}, choose)
	if err != nil {
		w.fail("claim: %w", err)
		return
	}
	if w.chance(0.05) {
		k.loseClaimReply(claimed)
		return
	}
	for _, run := range claimed.Runs {
		if closed(run.Service) {
			w.fail("%q was claimed from and is paused or halted", run.Service)
		}
		for _, c := range run.Batches {
			w.addTrace("worker %d claims %s, attempt %d", k.number, c.Key, c.Attempt)
			w.noteTurn(c)
			check(c)
		}
		w.checkRun(run)
		k.stepLater(w.between(0, 200*time.Millisecond), func() { k.postRun(run.Batches, until) })
	}
}

// loseClaimReply handles a claim that was made although the worker got no answer. The worker puts
// its batches back by version, and leaves some of them until they expire, as a worker that dies
// does.
func (k *worker) loseClaimReply(claimed store.Claimed) {
	for _, run := range claimed.Runs {
		k.world.addTrace("worker %d: reply to the claim of lane %q lost", k.number, run.Service)
		if !k.world.chance(0.2) {
			k.putBack(run.Batches)
		}
	}
}

// loseClaimCommit handles a claim whose transaction was rolled back without the worker knowing.
// The worker puts its batches back by version, too, and a worker that claims a batch meanwhile
// must not be affected.
func (k *worker) loseClaimCommit() {
	q := store.ClaimQuery{TTL: claimTTL, Salt: k.world.rng.Uint32()}
	for _, rec := range k.world.openBatches() {
		if !rec.State.Claimable() {
			continue
		}
		row := store.LaneRow{Ref: store.Ref{Key: rec.Key}, Row: store.Row{State: rec.State, Version: rec.Version}}
		plan := store.PlanLane(rec.Service, []store.LaneRow{row}, time.Now(), q, 1, func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		c := plan.Runs[0].Batches[0]
		c.Was = nil
		k.world.addTrace("worker %d: claim of %s rolled back without a word", k.number, c.Key)
		k.putBack([]store.Claim{c})
	}
}

// putBack puts back claims that are not posted.
func (k *worker) putBack(claims []store.Claim) {
	for _, c := range claims {
		k.recordLater(submitter.Unposted(c))
	}
}

// postRun checks the clock and starts the first request of a run in one step, because a process
// that is frozen between the two is the one hole that the documentation names. The other requests
// follow one by one, and after a failure the rest is put back.
func (k *worker) postRun(run []store.Claim, until time.Time) {
	w, c := k.world, run[0]
	if time.Until(until) < requestTimeout || w.chance(0.02) { // or the worker is stopping
		k.putBack(run)
		return
	}
	payloads, err := w.store.Payloads(context.Background(), []store.Ref{c.Ref})
	if err != nil || payloads[0] == nil {
		w.fail("payload of %s: %v", c.Key, err)
		return
	}
	deadline := time.Now().Add(requestTimeout)
	if w.postsUnderWay[c.Key.ID]++; w.postsUnderWay[c.Key.ID] > 1 && (!w.clockHasStepped || w.ledgerKind.traits.ResendHarmlessFor == 0) {
		w.fail("promise 4: two POSTs of %s at a time", c.Key)
	}
	if w.saidCommitted[c.Key.ID] && w.ledgerKind.dedupFor == 0 { // otherwise the ledger may forget, and a resend is harmless
		w.fail("%s is posted after the ledger said it is committed", c.Key)
	}
	if deadline.After(until) {
		w.fail("promise 4: request for %s would outlive its claim", c.Key)
	}
	w.addTrace("worker %d posts %s, attempt %d", k.number, c.Key, c.Attempt)
	w.checkPost(c)
	k.postedInThisLife[c.Key.ID] = true
	a := batch.Attempt{Key: c.Key, Number: c.Attempt, Payload: payloads[0]}
	travel := w.between(0, requestTimeout/3)
	reply := func(err error, at time.Duration) {
		// The connection ends even if the worker is dead by then. Only a living worker gets the
		// result.
		w.scheduleAfter(at, func() {
			w.postsUnderWay[c.Key.ID]--
			w.notePostEnd(c.Key.ID, err)
		})
		k.stepLater(at, func() {
			w.addTrace("worker %d hears about %s: %v", k.number, c.Key, err)
			rules := submitterRules
			rules.StuckAfter = w.stuckAfter()
			k.recordLater(submitter.Judge(c, err, true, rules))
			switch rest := run[1:]; {
			case len(rest) == 0:
			case err != nil:
				k.putBack(rest)
			default:
				k.stepLater(w.between(0, 20*time.Millisecond), func() { k.postRun(rest, until) })
			}
		})
	}
	lost := &dlt.Error{Op: "submit", Err: errLost}
	switch draw := w.rng.Float64(); {
	case !w.faultsHappen || draw > 0.45:
		var err error
		w.scheduleAfter(travel, func() { err = w.arriveAtLedger(a) })
		w.scheduleAfter(2*travel, func() { reply(err, 0) })
	case draw < 0.05:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrBusy}, travel)
	case draw < 0.10:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable}, travel)
	case draw < 0.12:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrMisconfigured}, travel)
	case draw < 0.14:
		reply(&dlt.Error{Op: "submit", Kind: dlt.ErrRejected}, travel)
	case draw < 0.20: // the request never arrives
		reply(lost, travel)
	case draw < 0.28: // the request arrives, and the reply is lost
		w.scheduleAfter(travel, func() { _ = w.arriveAtLedger(a) })
		reply(lost, 2*travel)
	case draw < 0.36: // the request arrives late
		late := w.between(0, cmp.Or(w.ledgerKind.maxArrivalDelay, w.ledgerKind.traits.LateArrival))
		w.scheduleAfter(travel+late, func() { _ = w.arriveAtLedger(a) })
		reply(lost, travel)
	case draw < 0.40: // the request hangs
		reply(context.DeadlineExceeded, requestTimeout)
	default: // the ledger takes the request, and the reply hangs
		w.scheduleAfter(travel, func() { _ = w.arriveAtLedger(a) })
		reply(context.DeadlineExceeded, requestTimeout)
	}
}

// checkPost checks a POST against the results of the earlier POSTs of the batch.
func (w *world) checkPost(c store.Claim) {
	s, t := w.postsByBatch[c.Key.ID], w.ledgerKind.traits
	s.postCount++
	if s.budget.EveryTry && s.budget.Exhausted(s.postCount-1) {
		w.fail("%s is posted for the %d. time, with a budget of %d", c.Key, s.postCount, s.budget.Attempts)
	}
	if t.Resolves || s.unsurePosts == 0 || w.clockHasStepped {
		return // evidence may have come at any time, or the clock said that enough time had passed
	}
	if ago := time.Since(s.lastEnd); ago < t.Grace {
		w.fail("promise 3: %s is sent again %s after its last POST, within Grace", c.Key, ago)
	} else if s.unsurePosts > 1 && s.reachedLedger && ago < t.ResendQuiet {
		w.fail("%s is sent again %s after its last POST, within ResendQuiet, and the ledger has not restarted since", c.Key, ago)
	}
}

// notePostEnd notes the end of a POST's connection.
func (w *world) notePostEnd(id batch.ID, err error) {
	s := w.postsByBatch[id]
	switch dlt.Kind(err) {
	case batch.KindMisconfigured:
		s.postCount--
	case batch.KindBusy, batch.KindUnavailable, batch.KindRejected, batch.KindNotYet:
	default:
		s.unsurePosts++
		s.lastEnd = time.Now()
	}
}

// arriveAtLedger lets a request arrive at the ledger.
func (w *world) arriveAtLedger(a batch.Attempt) error {
	if w.txIsOpen {
		w.fail("promise 8: a transaction is open while the network is used")
	}
	w.postsByBatch[a.ID].reachedLedger = true
	err := w.ledger.Submit(context.Background(), a)
	w.addTrace("ledger gets %s, attempt %d: %v", a.Key, a.Number, err)
	w.checkLog()
	return err
}

// recordLater writes an outcome after some time, in which the worker may die. Sometimes it writes
// it twice.
func (k *worker) recordLater(o store.Outcome) {
	k.stepLater(k.world.between(0, 20*time.Millisecond), func() {
		w := k.world
		times := 1
		if w.chance(0.05) { // the reply to the write was lost, so it is written again
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
			w.addTrace("worker %d records %s of %s: result %d, %s to %s", k.number, o.Finding, o.Key, a.Result, a.From, after.State)
			w.checkPolicy(o, a)
			w.checkPersonCall(o, a)
			switch {
			case a.Result == store.Bad:
				w.fail("bad outcome: %w", a.Err)
			case a.Result == store.Held:
				k.stepLater(time.Second, func() { k.recordLater(o) })
			case a.Result == store.Fenced && errBefore == nil && after.Version != before.Version:
				w.fail("promise 5: fenced, and changed %s", o.Key)
			case a.Result == store.Written && o.Finding != store.IsCommitted && before.Version != o.Version:
				w.fail("promise 5: %s at version %d was written by one that read %d", o.Key, before.Version, o.Version)
			}
			w.noteOutcome(o, a)
			if o.Finding == store.IsCommitted && a.Result != store.Held && after.State != batch.Committed {
				w.fail("promise 5: a known commit of %s was lost", o.Key)
			}
		}
	})
}
