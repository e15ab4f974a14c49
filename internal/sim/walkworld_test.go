package sim

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func (w *walker) faultsAllowed(s *walkState, faults int8) bool {
	return s.faultCount+faults <= w.maxFaults
}

// arriveStep lets a request arrive at the ledger, which answers.
func (w *walker) arriveStep(s walkState, i int, yield func(string, walkState)) {
	q := s.wire[i]
	end := func(s walkState, answer int8) walkState {
		s.wire[i] = walkRequestOnWire{}
		if q.waitingProcess >= 0 {
			p := &s.procs[q.waitingProcess]
			p.phase, p.answer = phaseAnswered, answer
		}
		return s
	}
	taken := s
	answer := w.acceptRequest(&taken, q)
	yield(w.stepName("the ledger gets b%d: answer %d", q.batch, answer), end(taken, answer))
	if q.waitingProcess < 0 {
		yield(w.stepName("a late request for b%d is lost", q.batch), end(s, 0))
		return
	}
	if !w.faultsAllowed(&s, 1) {
		return
	}
	s.faultCount++
	taken.faultCount++
	yield(w.stepName("the ledger gets b%d, and the answer is lost", q.batch), end(taken, saysNothing))
	if s.ledger.mode != modeWell {
		return
	}
	for a := int8(saysBusy); a <= saysUnknownWord; a++ {
		yield(w.stepName("the ledger does not take b%d: answer %d", q.batch, a), end(s, a))
	}
}

// acceptRequest is the effect of a request on the ledger.
func (w *walker) acceptRequest(s *walkState, q walkRequestOnWire) (answer int8) {
	l, b := &s.ledger, q.batch
	switch {
	case l.mode == modeRefuses:
		return saysUnknownWord
	case l.mode == modeUnreachable:
		return saysUnavailable
	case l.mode == modeForgets, w.ignoresDuplicates && (l.pooledAttempt[b]+l.executionCount[b] > 0 || l.decidedAgainst[b]), w.ignoresForAWhile && l.dedupMinutes[b] > 0:
		return saysAccepted
	}
	if l.pooledAttempt[b] > 0 { // the batch waits there already, and both copies are executed
		w.noteExecution(s, b)
	}
	l.pooledAttempt[b] = max(1, q.attempt)
	if w.ignoresForAWhile {
		l.dedupMinutes[b] = walkDedupMinutes
	}
	if l.pooledAttempt[1-b] > 0 {
		l.secondInPool = b
	} else {
		l.secondInPool = 1 - b
	}
	return saysAccepted
}

// executeStep lets the ledger decide about a batch that it has accepted.
func (w *walker) executeStep(s walkState, yield func(string, walkState)) {
	for b := range int8(2) {
		if s.ledger.pooledAttempt[b] == 0 || w.keepsOrder() && s.ledger.secondInPool == b && s.ledger.pooledAttempt[1-b] > 0 {
			continue
		}
		next := s
		next.ledger.pooledAttempt[b] = 0
		w.noteExecution(&next, b)
		yield(w.stepName("the ledger executes b%d", b), next)
		if w.faultsAllowed(&s, 1) {
			next := s
			next.faultCount++
			next.ledger.pooledAttempt[b], next.ledger.decidedAgainst[b] = 0, true
			yield(w.stepName("the ledger decides against b%d", b), next)
		}
	}
}

// noteExecution checks promises 2, 3 and 10 when a batch takes effect.
func (w *walker) noteExecution(s *walkState, b int8) {
	l := &s.ledger
	if l.executionCount[b]++; l.executionCount[b] > 1 {
		w.fail("promise 3: b%d takes effect twice", b)
	}
	l.showsExecuted[b], l.decidedAgainst[b] = l.mode != modeForgets, false
	first := s.rows[0]
	if b == 1 && !w.keepsOrder() && l.executionCount[0] == 0 && !first.final {
		w.fail("promise 2: b1 takes effect before b0, which is %s", batch.States()[first.state])
	}
	if r := s.rows[b]; r.final && batch.States()[r.state] != batch.Committed {
		w.fail("promise 10: b%d is recorded as %s and takes effect", b, batch.States()[r.state])
	}
}

// faultSteps makes the steps of faults that concern no request, and the steps that end a fault.
func (w *walker) faultSteps(s walkState, yield func(string, walkState)) {
	for p := range int8(2) {
		if !s.procs[p].isUp {
			next := s
			next.procs[p] = newProc()
			yield(w.stepName("p%d starts", p), next)
		}
	}
	if s.ledger.mode != modeWell {
		next := s
		next.ledger.mode = modeWell
		yield(w.stepName("the ledger is well again"), next)
	}
	if !s.clockWasSetRight {
		next := s
		next.clockWasSetRight = true
		w.moveClock(&next, -clockStep)
		yield("the database's clock was ahead, and is put right", next)
	}
	if !w.faultsAllowed(&s, 1) {
		return
	}
	s.faultCount++
	for p := range int8(2) {
		if !s.procs[p].isUp {
			continue
		}
		next := s
		next.procs[p] = newProc()
		next.procs[p].isUp = false
		for i := range next.wire {
			if q := &next.wire[i]; q.isOnWire && q.waitingProcess == p {
				q.waitingProcess, q.arrivesLate, q.ageMinutes = -1, true, 0
			}
		}
		yield(w.stepName("p%d crashes", p), next)
		if s.procs[p].frozenMinutes == 0 {
			next := s
			next.procs[p].frozenMinutes = walkFreezeMinutes
			yield(w.stepName("p%d is frozen", p), next)
		}
	}
	for i := range s.wire {
		if q := s.wire[i]; q.isOnWire && !q.arrivesLate {
			next := s
			next.wire[i].arrivesLate = true
			yield(w.stepName("the request for b%d is slow", q.batch), next)
		}
	}
	if s.ledger.mode == modeWell {
		for m := int8(1); m < modeCount; m++ {
			next := s
			next.ledger.mode = m
			yield(w.stepName("the ledger is in mode %d", m), next)
		}
	}
	for _, by := range []int8{} {
		next := s
		w.moveClock(&next, by)
		yield(w.stepName("the database's clock steps by %d minutes", by), next)
	}
	next := s
	next.ledger.pooledAttempt = [2]int8{}
	if !w.ignoresDuplicates { // the committed batches stay
		next.ledger.showsExecuted = [2]bool{}
	}
	yield("the ledger restarts, and loses what it had accepted", next)
}

func (w *walker) moveClock(s *walkState, by int8) {
	for b := range s.rows {
		s.rows[b] = s.rows[b].shiftTimes(by)
	}
	for p := range s.procs {
		if q := &s.procs[p]; q.askedBatch >= 0 {
			q.askedAgoByDatabase = clampToInt8(int64(q.askedAgoByDatabase)+int64(by), minPackedMinutes, maxPackedMinutes)
		}
	}
}

// maxSeenMinutes is the longest time that a rule counts by a process's own clock: a claim and
// LateArrival, and a minute more.
const maxSeenMinutes = walkClaimTTL + 2

// passMinute lets a minute pass for all processes and requests.
func (w *walker) passMinute(s *walkState) {
	awake := false
	for p := range s.procs {
		q := &s.procs[p]
		if !q.isUp {
			continue
		}
		awake = awake || q.frozenMinutes == 0
		q.frozenMinutes = max(0, q.frozenMinutes-1)
		q.minutesLeft = max(-1, q.minutesLeft-1)
		if q.waitsForClaimEnd = false; q.askedBatch >= 0 {
			q.askedAgoByProcess = min(maxSeenMinutes, q.askedAgoByProcess+1)
		}
		for b := range q.minutesSinceSeen {
			if q.minutesSinceSeen[b] >= 0 {
				q.minutesSinceSeen[b] = min(maxSeenMinutes, q.minutesSinceSeen[b]+1)
			}
		}
	}
	w.moveClock(s, 1)
	for i := range s.wire {
		w.ageRequest(s, &s.wire[i])
	}
	for b := range s.rows {
		s.ledger.dedupMinutes[b] = max(0, s.ledger.dedupMinutes[b]-1)
		if r := s.rows[b]; awake && !r.final && (b == 0 || s.rows[0].final) {
			k := &s.history[b]
			if k.minutesWithoutProgress = min(maxMinutesWithoutCall+1, k.minutesWithoutProgress+1); k.minutesWithoutProgress > maxMinutesWithoutCall && r.decision == noDecision {
				w.fail("promise 6: b%d is %s and has come no further for %d minutes, and no person was called", b, batch.States()[r.state], k.minutesWithoutProgress)
			}
		}
	}
}

// maxMinutesWithoutCall is how long a batch may stand before a person was called: StuckAfter, and
// the time to find out.
const maxMinutesWithoutCall = walkStuckAfter + 2*walkClaimTTL + 4

// ageRequest makes a request a minute older. Its connection ends in time, whether or not a process
// waits for it.
func (w *walker) ageRequest(s *walkState, q *walkRequestOnWire) {
	if !q.isOnWire {
		return
	}
	q.ageMinutes++
	switch {
	case q.waitingProcess >= 0 && q.ageMinutes >= walkRequestTimeout:
		p := &s.procs[q.waitingProcess]
		p.phase, p.answer = phaseAnswered, saysNothing
		q.waitingProcess, q.arrivesLate, q.ageMinutes = -1, true, 0
	case q.waitingProcess < 0 && q.ageMinutes >= max(2, int8(w.traits.LateArrival/minute)):
		*q = walkRequestOnWire{}
	}
}

// checkWrittenRow checks promise 10 on a row that was written, and notes how far the batch has
// come.
func (w *walker) checkWrittenRow(s *walkState, b int8, was packedRow) {
	r, k := s.rows[b], &s.history[b]
	state := batch.States()[r.state]
	if r.final && !was.final {
		if ok := s.ledger.executionCount[b] > 0; ok != (state == batch.Committed) {
			w.fail("promise 10: b%d is recorded as %s, and took effect: %v", b, state, ok)
		}
	}
	if n := stageOf(r); n > k.furthestStage {
		k.furthestStage, k.minutesWithoutProgress, k.personCalls = n, 0, 0
	}
}

// stageOf returns how far a batch has come.
func stageOf(r packedRow) int8 {
	switch s := batch.States()[r.state]; {
	case r.final:
		return 5
	case s == batch.Invalid:
		return 4
	case s == batch.Valid:
		return 3
	case s == batch.Pending:
		return 2
	case r.attempt > 0:
		return 1
	}
	return 0
}

// countPersonCall counts a call for a person.
func (w *walker) countPersonCall(s *walkState, b int8, res store.Applied) {
	if !res.Stuck {
		return
	}
	k := &s.history[b]
	if k.personCalls++; k.personCalls > 1 {
		k.personCalls = 2
		w.fail("a person is called about b%d once more, and nothing has changed since", b)
	}
}
