package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/submitter"
)

// These are the walk's times, in minutes unless a unit is given.
const (
	walkClaimTTL       = 3
	walkClaimMargin    = 1
	walkRequestTimeout = 1
	walkStuckAfter     = 5
	walkFreezeMinutes  = walkClaimTTL + 1
	walkDedupMinutes   = 8
	clockStep          = 20 // longer than any batch may stand
)

// walkSetup is one kind of ledger with one strategy.
type walkSetup struct {
	name              string
	traits            dlt.Traits
	ignoresDuplicates bool // true if the ledger never executes a batch again that it has
	ignoresForAWhile  bool // true if it does not for walkDedupMinutes after the batch came
	strategy          queuer.Strategy
}

func (u walkSetup) keepsOrder() bool { return u.traits.KeepsOrder }

// walker makes the steps of one walkSetup.
type walker struct {
	walkSetup
	choose         store.Choose
	submitterRules submitter.Rules
	monitorRules   monitor.Rules
	brokenPromise  error // the error of the present step
	maxFaults      int8  // the largest number of faults in the walk
	namesSteps     bool  // true if steps have names, which cost time and are needed only to show a walk
}

func newWalker(u walkSetup) *walker {
	w := &walker{walkSetup: u}
	delay := func(batch.ServiceID, int) time.Duration { return minute }
	w.submitterRules = submitter.Rules{FirstCheck: minute, Delay: delay, StuckAfter: walkStuckAfter * minute}
	w.monitorRules = monitor.Rules{TTL: walkClaimTTL * minute, FirstPoll: minute, PollInterval: minute, StuckAfter: walkStuckAfter * minute, Delay: delay, Reliant: u.strategy.ReliesOnOrder}
	keeps := func(batch.ServiceID) bool { return u.keepsOrder() }
	w.choose = queuer.Choose(u.strategy, keeps, func(_ batch.ServiceID, err error) { w.fail("the strategy: %w", err) })
	return w
}

func (w *walker) fail(format string, args ...any) {
	if w.brokenPromise == nil {
		w.brokenPromise = fmt.Errorf(format, args...)
	}
}

func (w *walker) stepName(format string, args ...any) string {
	if !w.namesSteps {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func walkID(b int8) batch.ID { return batch.ID([]string{"b0", "b1"}[b]) }

func walkRef(b int8) store.Ref {
	return store.Ref{Key: batch.Key{Service: "s", ID: walkID(b)}, Row: int64(b) + 1, Created: walkNow().Add(-1000*time.Hour + time.Duration(b))}
}

// startState returns the state in which both batches wait.
func startState() walkState {
	var s walkState
	for b := range s.rows {
		s.rows[b] = packRow(store.NewRow())
	}
	for p := range s.procs {
		s.procs[p] = newProc()
	}
	return s
}

func newProc() walkProcess {
	return walkProcess{isUp: true, run: [2]int8{-1, -1}, askedBatch: -1, minutesSinceSeen: [2]int8{-1, -1}}
}

// yieldSteps calls yield with each step that is possible in a state. Time passes only if no
// process can do anything at once; a process that is late is a frozen process.
func (w *walker) yieldSteps(s walkState, yield func(name string, next walkState)) {
	busy := false
	for p := range int8(2) {
		if q := &s.procs[p]; q.isUp && q.frozenMinutes == 0 {
			busy = w.claimStep(s, p, yield) || busy
			busy = w.deliverStep(s, p, yield) || busy
			busy = w.askStep(s, p, yield) || busy
			busy = w.recordStep(s, p, yield) || busy
		}
	}
	for i := range s.wire {
		if q := s.wire[i]; q.isOnWire {
			w.arriveStep(s, i, yield)
			busy = busy || !q.arrivesLate
		}
	}
	w.executeStep(s, yield)
	w.faultSteps(s, yield)
	if !busy {
		next := s
		w.passMinute(&next)
		yield("a minute passes", next)
	}
}

// replaceRow replaces a row, so that all copies of it are outdated.
func (w *walker) replaceRow(s *walkState, b int8, r store.Row) {
	was := s.rows[b]
	s.rows[b] = packRow(r)
	for p := range s.procs {
		q := &s.procs[p]
		q.rowIsUnchanged[b] = false
		q.minutesSinceSeen[b] = -1
		if q.askedBatch == b {
			q.askedRowIsUnchanged = false
		}
	}
	w.checkWrittenRow(s, b, was)
}

func (w *walker) claimStep(s walkState, p int8, yield func(string, walkState)) bool {
	if s.procs[p].phase != phaseIdle {
		return false
	}
	var rows []store.LaneRow
	waiting := 0
	for b := range int8(2) {
		r := s.rows[b].unpack()
		if r.Final() {
			continue
		}
		if !r.Attempted() {
			if waiting == w.strategy.Window {
				continue
			}
			waiting++
		}
		rows = append(rows, store.LaneRow{Ref: walkRef(b), Row: r})
	}
	slices.SortStableFunc(rows, func(a, b store.LaneRow) int { return a.Created.Compare(b.Created) })
	q := store.ClaimQuery{
		Limit: 2, Window: w.strategy.Window, TTL: walkClaimTTL * minute, StuckAfter: walkStuckAfter * minute,
		Resend: func(batch.ServiceID) store.Resend {
			return store.Resend{HarmlessFor: w.traits.ResendHarmlessFor, LateArrival: w.traits.LateArrival}
		},
	}
	from := [2]int8{s.rows[0].state, s.rows[1].state}
	plan := store.PlanLane("s", rows, walkNow(), q, 2, w.choose)
	if len(plan.Changed) == 0 {
		return false
	}
	for _, r := range plan.Changed {
		w.replaceRow(&s, int8(r.Ref.Row-1), r.Row)
	}
	name := "the claim gives it back to the monitor"
	for _, run := range plan.Runs {
		q := &s.procs[p]
		q.phase, q.placeInRun, q.minutesLeft, q.run, q.claimedFrom = phaseClaimed, 0, walkClaimTTL-walkClaimMargin, [2]int8{-1, -1}, from
		for i, c := range run.Batches {
			b := int8(c.Ref.Row - 1)
			q.run[i], q.rowIsUnchanged[b] = b, true
		}
		name = w.stepName("p%d claims %v", p, q.run)
	}
	yield(name, s)
	return true
}

// deliverStep continues a claim: it posts, records the answer, or puts back batches that are not
// posted.
func (w *walker) deliverStep(s walkState, p int8, yield func(string, walkState)) bool {
	q := &s.procs[p]
	switch q.phase {
	case phaseClaimed:
		b := q.run[q.placeInRun]
		if q.minutesLeft < walkRequestTimeout {
			q.phase = phasePuttingBack
			yield(w.stepName("p%d is too late to post b%d", p, b), s)
			return true
		}
		i := slices.IndexFunc(s.wire[:], func(r walkRequestOnWire) bool { return !r.isOnWire })
		if i < 0 {
			return false // the walk has no room for another request on the wire
		}
		for _, r := range s.wire {
			if r.isOnWire && r.waitingProcess >= 0 && r.batch == b {
				w.fail("promise 4: two POSTs of b%d at a time", b)
			}
		}
		s.wire[i] = walkRequestOnWire{isOnWire: true, batch: b, attempt: s.rows[b].attempt, waitingProcess: p}
		q.phase = phasePosting
		yield(w.stepName("p%d posts b%d", p, b), s)
		return true
	case phaseAnswered:
		b := q.run[q.placeInRun]
		o := submitter.Judge(w.claimOf(&s, p, b), answerError(q.answer), true, w.submitterRules)
		more := q.placeInRun+1 < 2 && q.run[q.placeInRun+1] >= 0
		w.applyOutcome(&s, b, o, q.rowIsUnchanged[b])
		q = &s.procs[p]
		switch {
		case more && q.answer == saysAccepted:
			q.phase, q.placeInRun = phaseClaimed, q.placeInRun+1
		case more:
			q.phase, q.placeInRun = phasePuttingBack, q.placeInRun+1
		default:
			q.phase, q.run = phaseIdle, [2]int8{-1, -1}
		}
		yield(w.stepName("p%d records %s of b%d", p, o.Finding, b), s)
		return true
	case phasePuttingBack:
		for ; q.placeInRun < 2 && q.run[q.placeInRun] >= 0; q.placeInRun++ {
			b := q.run[q.placeInRun]
			w.applyOutcome(&s, b, submitter.Unposted(w.claimOf(&s, p, b)), q.rowIsUnchanged[b])
		}
		q.phase, q.run, q.placeInRun = phaseIdle, [2]int8{-1, -1}, 0
		yield(w.stepName("p%d puts back", p), s)
		return true
	}
	return false
}

// claimOf returns the claim that a process has of a batch. If the row has changed since, the
// outcome is fenced, whatever it says.
func (w *walker) claimOf(s *walkState, p, b int8) store.Claim {
	r := s.rows[b]
	return store.Claim{Ref: walkRef(b), From: batch.States()[s.procs[p].claimedFrom[b]], Attempt: int(r.attempt), Failures: int(r.failures)}
}

var errUnknownWord = errors.New("a word that nobody knows")

func answerError(a int8) error {
	kinds := map[int8]error{
		saysBusy: dlt.ErrBusy, saysUnavailable: dlt.ErrUnavailable, saysRejected: dlt.ErrRejected,
		saysMisconfigured: dlt.ErrMisconfigured, saysNotYet: dlt.ErrNotYet,
	}
	switch {
	case a == saysAccepted:
		return nil
	case kinds[a] != nil:
		return &dlt.Error{Op: "submit", Kind: kinds[a]}
	}
	return &dlt.Error{Op: "submit", Err: errUnknownWord}
}

// applyOutcome writes an outcome. current is true if it was decided on the present row, and false
// for an older one.
func (w *walker) applyOutcome(s *walkState, b int8, o store.Outcome, current bool) store.Result {
	r := s.rows[b].unpack()
	if o.Version = r.Version; !current {
		o.Version--
	}
	next, res := r.Apply(o, walkNow())
	switch res.Result {
	case store.Bad:
		if !errors.Is(res.Err, batch.ErrNotAllowed) || s.faultCount == 0 {
			w.fail("bad outcome: %w", res.Err)
		}
	case store.Written:
		if !current && o.Finding != store.IsCommitted {
			w.fail("promise 5: an outcome that was decided on an older row is written")
		}
		w.countPersonCall(s, b, res)
		w.replaceRow(s, b, next)
	}
	return res.Result
}

// askStep asks the ledger about a due row. It yields a step for each possible answer.
func (w *walker) askStep(s walkState, p int8, yield func(string, walkState)) bool {
	asks := s.procs[p].askedBatch >= 0
	if asks && !s.procs[p].waitsForClaimEnd { // a commit that waits for the end of a claim does not hold up scans
		return false
	}
	due := false
	for b := range int8(2) {
		r := s.rows[b].unpack()
		q := store.PendingQuery{Lease: minute, Ahead: walkAskAhead}
		if r.Final() || r.State.Claimable() || !q.Due(r, walkNow()) || asks && r.Monitored(walkNow()) {
			continue
		}
		due = true
		read, leased := s, r.Leased(walkNow(), q.Lease)
		if leased.Version != r.Version {
			w.replaceRow(&read, b, leased)
		}
		read.rows[b] = packRow(leased)
		if !leased.Monitored(walkNow()) {
			yield(w.stepName("p%d puts the times of b%d right", p, b), read)
			continue
		}
		k := &read.procs[p]
		k.askedBatch, k.askedRowIsUnchanged, k.waitsForClaimEnd, k.askedAgoByDatabase, k.askedAgoByProcess = b, true, false, 0, 0
		k.minutesSinceSeen[b] = max(k.minutesSinceSeen[b], 0)
		w.possibleStatuses(read, b, func(status int8, name string, faults int8) {
			if !w.faultsAllowed(&s, faults) {
				return
			}
			next := read
			next.faultCount += faults
			next.procs[p].status, next.procs[p].evidence = status, noEvidence
			if !w.decideAsked(&next, p).Resolve {
				yield(w.stepName("p%d asks about b%d: %s", p, b, name), next)
				return
			}
			w.possibleEvidence(next, b, func(e int8, what string, faults int8) {
				if !w.faultsAllowed(&next, faults) {
					return
				}
				last := next
				last.faultCount += faults
				last.procs[p].evidence = e
				yield(w.stepName("p%d asks about b%d: %s, and the evidence is %s", p, b, name, what), last)
			})
		})
	}
	return due
}

const (
	walkAskAhead = 5 * minute
	noEvidence   = -1
	noStatus     = -1
)

// possibleStatuses yields the answers that the ledger may give about a batch, each with the number
// of faults that it takes.
func (w *walker) possibleStatuses(s walkState, b int8, yield func(status int8, name string, faults int8)) {
	l := &s.ledger
	say := func(r batch.Reported, faults int8) { yield(int8(r), r.String(), faults) }
	switch {
	case l.mode == modeNonsense || l.mode == modeUnreachable:
		yield(noStatus, "no answer", 0)
		return
	case l.executionCount[b] > 0 && l.showsExecuted[b]:
		say(batch.ReportedCommitted, 0)
	case l.decidedAgainst[b]:
		say(batch.ReportedInvalid, 0)
	case l.pooledAttempt[b] > 0:
		say(batch.ReportedPending, 0)
		if w.traits.Grace > 0 {
			say(batch.ReportedUnknown, 1)
		}
	default:
		say(batch.ReportedUnknown, 0)
	}
	yield(noStatus, "no answer", 1)
}

// possibleEvidence yields what the resolver may find out: the truth about what has arrived, or
// that it cannot tell.
func (w *walker) possibleEvidence(s walkState, b int8, yield func(e int8, name string, faults int8)) {
	l := &s.ledger
	e := dlt.NotCommitted
	switch {
	case l.executionCount[b] > 0:
		e = dlt.Committed
	case l.pooledAttempt[b] > 0:
		e = dlt.InFlight
	}
	yield(int8(e), e.String(), 0)
	yield(int8(dlt.CannotTell), dlt.CannotTell.String(), 1)
}

// decideAsked decides about the row that a process has asked about, by its copy. If the row has
// changed since, the outcome is fenced, whatever it says.
func (w *walker) decideAsked(s *walkState, p int8) monitor.Verdict {
	q := &s.procs[p]
	r := s.rows[q.askedBatch].unpack()
	f := r.InFlight(walkRef(q.askedBatch), batch.Budget{}, walkNow().Add(-time.Duration(q.askedAgoByDatabase)*minute))
	known := monitor.Known{Seen: time.Duration(max(0, q.minutesSinceSeen[q.askedBatch]-q.askedAgoByProcess)) * minute}
	if q.status != noStatus {
		known.Status = &batch.Status{Reported: batch.Reported(q.status), Endpoint: walkEndpoint}
		if w.ignoresForAWhile {
			known.Status.Attempt = r.Attempt
		}
	}
	if q.evidence != noEvidence {
		e := dlt.Evidence(q.evidence)
		known.Evidence = &e
	}
	return monitor.Decide(f, known, w.traits, w.monitorRules)
}

// recordStep writes the outcome of a question.
func (w *walker) recordStep(s walkState, p int8, yield func(string, walkState)) bool {
	q := &s.procs[p]
	if q.askedBatch < 0 || q.waitsForClaimEnd {
		return false
	}
	b, name := q.askedBatch, "asks again later"
	v := w.decideAsked(&s, p)
	switch {
	case v.Outcome != nil:
		name = v.Outcome.Finding.String()
		if w.applyOutcome(&s, b, *v.Outcome, q.askedRowIsUnchanged) == store.Held {
			s.procs[p].waitsForClaimEnd = true
		} else {
			s.procs[p].askedBatch = -1
		}
	default:
		if r := s.rows[b].unpack(); r.Monitored(walkNow()) {
			r.NextCheck = walkNow().Add(max(minute, v.Next))
			s.rows[b] = packRow(r)
		}
		q.askedBatch = -1
	}
	yield(w.stepName("p%d records about b%d: %s", p, b, name), s)
	return true
}
