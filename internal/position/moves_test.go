package position

import (
	"fmt"
)

// move is one event that may happen next. The meaning of i and j depends on kind.
type move struct {
	kind              moveKind
	subject, argument int8
}

type moveKind uint8

const (
	addStep       moveKind = iota // adder i makes a step; if the step reads the clock, the clock has moved by j
	abortAdd                      // the transaction of adder i is rolled back
	beginClaim                    // claimer i begins a claim of lane j
	claimStep                     // claimer i makes a step; j is its choice, or by how much the clock has moved
	finishBatch                   // the batch of adder i becomes final, or is cancelled
	pruneBatch                    // retention removes a batch, after the clock has moved by j
	beginRequeue                  // a transaction begins to requeue the batch of adder i
	commitRequeue                 // that transaction commits
	haltOrRelease                 // lane i is halted or released
	restartServer
	crashServer
	loseConnection // the connection of claimer i is lost
	failOver
)

var moveKindNames = [...]string{
	"add", "abort", "begins to claim", "claim", "final", "prune", "requeue begins",
	"requeue commits", "halt or release", "restart", "crash", "connection lost", "failover",
}

func (m move) String() string {
	return fmt.Sprintf("%s %d/%d", moveKindNames[m.kind], m.subject, m.argument)
}

// possibleMoves appends all moves that are possible next.
func (w *world) possibleMoves(to []move) []move {
	can := func(ok bool, kind moveKind, i, j int) {
		if ok {
			to = append(to, move{kind, int8(i), int8(j)})
		}
	}
	clock := func(ok bool, kind moveKind, i int) { // the clock matters only for moves that read it
		for by := int64(0); ok && w.clock+by <= w.worldLimits.lastTick; by++ {
			can(true, kind, i, int(by))
		}
		can(ok && int(w.backStepsMade) < w.backSteps && w.clock >= 3, kind, i, -2)
	}
	for i := range w.claimers {
		if w.claimers[i].nextStep == stepLock && w.hasOneClaimerEach() {
			clock(true, claimStep, i)
			return to
		}
	}
	for i := range w.adders {
		a := &w.adders[i]
		alike := i > 0 && w.worldLimits.adderSteps[i] == w.worldLimits.adderSteps[i-1] && a.lane == w.adders[i-1].lane
		if ok := int(a.nextStep) < len(w.steps[i]) && (a.nextStep > 0 || !alike || w.adders[i-1].nextStep > 0); ok && w.steps[i][a.nextStep] == "clock" {
			clock(ok, addStep, i)
		} else {
			can(ok, addStep, i, 0)
		}
		can(int(w.abortsMade) < w.aborts && a.nextStep > 0 && a.place == placeUncommitted, abortAdd, i, 0)
		can(a.place == placeAttempted || (a.place == placeWaiting && int(w.cancelsMade) < w.cancels), finishBatch, i, 0)
		for by := int64(0); int(w.prunesMade) < w.prunes && a.place == placeFinal && w.clock+by <= w.worldLimits.lastTick; by++ {
			can(w.clock+by >= a.finalAt+w.pruneAge, pruneBatch, i, int(by))
		}
		can(a.place == placeFinal && a.requeuedTimes == 0 && int(w.cancelsMade) < w.cancels && w.laneStates[a.lane].lockHolder == 0, beginRequeue, i, 0)
	}
	for i := range w.claimers {
		c := &w.claimers[i]
		if c.nextStep == stepIdle {
			for l := range w.laneStates {
				can(int(w.claimsMade) < w.maxClaims && (w.lanesWereUsed || w.wasAddedTo(l)) && (!w.hasOneClaimerEach() || w.laneStates[l].lockHolder == 0), beginClaim, i, l)
			}
			continue
		}
		if c.nextStep == stepLock {
			clock(w.laneStates[c.lane].lockHolder == 0, claimStep, i)
			continue
		}
		can(true, claimStep, i, 0)
		for k := range c.waitingKeys {
			can(c.nextStep == stepReport && !c.transactionIsGone, claimStep, i, 1+k)
		}
		can(c.nextStep == stepReadWaiting && w.limitMayBeOne, claimStep, i, 1)
		can(c.nextStep == stepSeeServer && w.sealBy == 'b', claimStep, i, 1)
		can(c.nextStep == stepSeeServer && w.readsWholeLanes, claimStep, i, 2)
		can(c.nextStep > stepLock && !c.transactionIsGone && int(w.connectionsLost) < w.lostConnections, loseConnection, i, 0)
	}
	for l := range w.laneStates {
		can(w.laneStates[l].lockHolder < 0, commitRequeue, l, 0)
		can(w.laneStates[l].isHalted || int(w.haltsMade) < w.halts, haltOrRelease, l, 0)
	}
	can(int(w.restartsMade) < w.restarts, restartServer, 0, 0)
	can(int(w.crashesMade) < w.crashes, crashServer, 0, 0)
	if int(w.failoversMade) < w.worldLimits.failover {
		for i := range w.adders {
			can(w.adders[i].place == placeFinal, failOver, i, 0)
		}
	}
	return to
}

// hasOneClaimerEach reports whether each process has one claimer. Then no event between the
// beginning of a claim and its first statement matters.
func (w *world) hasOneClaimerEach() bool { return len(w.memories) == len(w.claimers) }

// wasAddedTo reports whether a batch was ever added to a lane.
func (w *world) wasAddedTo(lane int) bool {
	for i := range w.adders {
		if int(w.adders[i].lane) == lane && w.adders[i].place != placeUncommitted {
			return true
		}
	}
	return false
}

func (w *world) makeMove(m move) {
	w.movesMade++
	switch m.kind {
	case addStep:
		w.moveClock(m.argument)
		w.stepAdder(m.subject)
	case abortAdd:
		w.rollBackAdder(int(m.subject))
		w.abortsMade++
	case beginClaim:
		c := &w.claimers[m.subject]
		now := w.processTime()
		if w.sealBy != 'l' {
			now = fixedTime
		}
		*c = claimer{process: c.process, lane: m.argument, nextStep: stepLock, claim: w.memories[c.process].Claim(now)}
		w.claimsMade++
	case claimStep:
		w.stepClaim(&w.claimers[m.subject], m)
	case finishBatch:
		a := &w.adders[m.subject]
		if a.place == placeWaiting {
			w.cancelsMade++
		}
		a.place, a.finalAt = placeFinal, w.clock
	case pruneBatch:
		w.moveClock(m.argument)
		w.adders[m.subject].place = placeGone
		w.prunesMade++
	case beginRequeue:
		a := &w.adders[m.subject]
		w.laneStates[a.lane].lockHolder = -1 - m.subject
		w.cancelsMade++
	case commitRequeue:
		l := &w.laneStates[m.subject]
		a := &w.adders[-1-l.lockHolder]
		l.lockHolder = 0
		if a.place, a.requeuedTimes = placeWaiting, 1; a.wasAttempted {
			a.place = placeAttempted
		}
		if !w.requeuesAreUncounted {
			l.requeues++
		}
	case haltOrRelease:
		l := &w.laneStates[m.subject]
		if !l.isHalted {
			w.haltsMade++
		}
		l.isHalted = !l.isHalted
	case restartServer:
		w.restart()
		w.incarnation++
		w.restartsMade++
	case crashServer:
		w.restart()
		w.crashesMade++
	case loseConnection:
		c := &w.claimers[m.subject]
		w.endClaim(c)
		c.transactionIsGone = true
		w.connectionsLost++
	case failOver:
		w.restart()
		if !w.losesCommitsSilently {
			w.incarnation++
		}
		w.failoversMade++
		w.adders[m.subject].place = placeWaiting
	}
}

// moveClock moves the clock.
func (w *world) moveClock(by int8) {
	w.clock += int64(by)
	if by < 0 {
		w.backStepsMade++
	}
}

// stepClaim makes the next step of a claimer. The claimer reports what a statement found in its
// next step; until then any other move may happen.
func (w *world) stepClaim(c *claimer, m move) {
	l := &w.laneStates[c.lane]
	switch c.nextStep {
	case stepLock:
		w.moveClock(m.argument)
		l.lockHolder = 1 + m.subject
		c.requeues, c.clock = l.requeues, (w.clock+w.claimClockAhead)*w.microsPerTick
		c.xid, c.nextStep = w.takeXid(), stepSeeServer
		c.serverState = ServerState{Incarnation: w.incarnation, Xid: c.xid, Xmin: w.xmin()}
		if w.notesXmax {
			c.serverState.Xid = w.highestEndedXid + 1
		}
	case stepSeeServer:
		now := w.processTime()
		switch {
		case m.argument == 2:
			now = now.Add(2 * wholeReadInterval)
		case w.sealBy == 'x', w.sealBy == 'b' && m.argument == 0:
			now = fixedTime
		}
		ask := c.claim.SawServer(c.serverState, now)
		switch {
		case c.transactionIsGone:
			c.nextStep = stepIdle
		case ask && w.sealBy != 'x':
			c.lockHolders = c.lockHolders[:0:0]
			for i := range w.adders {
				if w.adders[i].holdsLock {
					c.lockHolders = append(c.lockHolders, w.holderName(i))
				}
			}
			c.nextStep = stepSeeLocks
		default:
			w.readAttempted(c)
		}
	case stepSeeLocks:
		c.claim.SawLocks(c.lockHolders)
		if c.transactionIsGone {
			c.nextStep = stepIdle
			return
		}
		w.readAttempted(c)
	case stepReadWaiting:
		if c.transactionIsGone {
			c.nextStep = stepIdle
			return
		}
		c.limit = w.windowLimit
		if m.argument == 1 {
			c.limit = 1
		}
		c.waitingKeys, c.waitingShowsOpen = w.read(c, placeWaiting)
		c.nextStep = stepReport
	case stepReport:
		if c.claim.SawWindow(w.service(c.lane), Window{Attempted: c.attemptedKeys, Waiting: c.waitingKeys, Limit: c.limit, Open: c.attemptedShowsOpen && c.waitingShowsOpen || w.oneStatementOpensLane && (c.attemptedShowsOpen || c.waitingShowsOpen)}) {
			w.violation = "a read from the beginning found what was hidden"
		}
		for i := range w.adders { // the claimer takes one row, or none
			if a := &w.adders[i]; m.argument > 0 && a.lane == c.lane && a.place == placeWaiting && a.key == c.waitingKeys[m.argument-1] {
				a.place, a.wasAttempted = placeAttempted, true
				break
			}
		}
		w.endClaim(c)
		*c = claimer{process: c.process}
	}
}

func (w *world) readAttempted(c *claimer) {
	c.ranges = c.claim.Ranges(w.service(c.lane), c.requeues, c.clock)
	c.attemptedKeys, c.attemptedShowsOpen = w.read(c, placeAttempted)
	c.nextStep = stepReadWaiting
}
