package position

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// worldLimits says which moves are possible in a world, and how often at most.
type worldLimits struct {
	name             string
	adderSteps       []string // the steps of each adder, see [world.stepAdder]
	laneOfAdder      []int    // the lane of each adder; nil means the first lane
	laneCount        int      // the number of lanes; 0 is 1
	processOfClaimer []int    // the process of each claimer
	maxClaims        int      // the number of claims in all
	firstTick        int64    // the first tick; 0 is 1
	lastTick         int64    // the highest tick
	backSteps        int      // how many times the clock steps back by two ticks
	microsPerTick    int64    // the microseconds of a tick; 0 is 1
	windowLimit      int      // the limit of a window; 0 is 2
	limitMayBeOne    bool     // the limit may also be 1
	memoryLimit      int      // how many lanes a process remembers; 0 is 100
	sealBy           byte     // how generations are sealed: 'x' by id, 'l' by lock, 'b' by either
	aborts           int      // how many adders are rolled back
	cancels          int      // cancels, and requeues in place
	halts            int      // halts and releases of a lane
	restarts         int      // restarts of the server
	crashes          int      // crashes after which the server recovers with the same start time
	lostConnections  int      // lost connections of claims
	failover         int      // failovers to a server that lacks the last changes
	prunes           int      // removals of final batches by retention
	pruneAge         int64    // the age at which they are removed, in ticks since they became final
	firstMoves       []move   // the moves made at the beginning
	readsWholeLanes  bool     // true if lanes are read from their beginnings from time to time

	notesXmax             bool  // claims note pg_snapshot_xmax instead of an id
	lanesWereUsed         bool  // the lanes were claimed from before
	requeuesAreUncounted  bool  // requeues are not counted
	oneStatementOpensLane bool  // a lane counts as open if one of the two statements saw it open
	claimClockAhead       int64 // by how many ticks the clock of claims is ahead of the clock of additions
	losesCommitsSilently  bool  // the last changes may be lost without a sign of it
}

type batchPlace uint8

const (
	placeUncommitted batchPlace = iota // not committed
	placeWaiting                       // its row is in the table of waiting rows
	placeAttempted                     // its row is in the table of attempted rows
	placeFinal                         // its row is in neither table
	placeGone                          // rolled back, or pruned
)

// adder adds one batch.
type adder struct {
	nextStep, lane   int8
	holdsLock        bool // true while it holds the lock on the table
	isPrepared       bool
	hasLostName      bool // true for a prepared transaction that has outlasted a restart
	wasAttempted     bool // true if its batch was attempted
	place            batchPlace
	xid              uint64
	lastSeenKey, key int64
	finalAt          int64
	requeuedTimes    int8
}

// isRunning reports whether the adder's transaction has an id and has not ended.
func (a *adder) isRunning() bool { return a.xid != 0 && a.place == placeUncommitted }

// isOpen reports whether the adder's batch is visible and not final.
func (a *adder) isOpen() bool { return a.place == placeWaiting || a.place == placeAttempted }

// claimer is a goroutine that claims, with what its transaction has read.
type claimer struct {
	nextStep, lane, process              int8
	transactionIsGone                    bool // its transaction is gone, and the claimer has not noticed
	attemptedShowsOpen, waitingShowsOpen bool
	requeues                             int64
	clock                                int64
	xid                                  uint64
	serverState                          ServerState
	limit                                int
	lockHolders                          []string
	ranges                               []Range
	attemptedKeys, waitingKeys           []int64
	claim                                *Claim
}

// These are the states of a claimer, by its next action.
const (
	stepIdle int8 = iota
	stepLock
	stepSeeServer
	stepSeeLocks
	stepReadWaiting
	stepReport
)

type laneState struct {
	lockHolder int8 // 0 is free; 1+i is claimer i; -1-i is the operator who requeues the batch of adder i
	requeues   int64
	isHalted   bool
}

// world is a database, with its processes and the memory of each.
type world struct {
	*worldLimits
	steps           [][]string
	clock           int64
	nextXid         uint64 // the next id
	highestEndedXid uint64 // the highest id that has ended
	incarnation     int64
	movesMade       int // the number of steps, from which a process takes its time
	backStepsMade   int8
	claimsMade      int8
	abortsMade      int8
	cancelsMade     int8
	haltsMade       int8
	restartsMade    int8
	crashesMade     int8
	connectionsLost int8
	failoversMade   int8
	prunesMade      int8
	adders          []adder
	laneStates      []laneState
	claimers        []claimer
	memories        []*Lanes
	violation       string // the violation of a rule that was found
}

func newWorld(s *worldLimits) *world {
	s.laneCount, s.microsPerTick = cmp.Or(s.laneCount, 1), cmp.Or(s.microsPerTick, 1)
	s.windowLimit, s.memoryLimit = cmp.Or(s.windowLimit, 2), cmp.Or(s.memoryLimit, 100)
	w := &world{worldLimits: s, clock: cmp.Or(s.firstTick, 1), nextXid: 1, incarnation: 1, laneStates: make([]laneState, s.laneCount)}
	for i, steps := range s.adderSteps {
		a := adder{}
		if s.laneOfAdder != nil {
			a.lane = int8(s.laneOfAdder[i])
		}
		w.adders = append(w.adders, a)
		w.steps = append(w.steps, strings.Fields(steps))
	}
	for _, p := range s.processOfClaimer {
		w.claimers = append(w.claimers, claimer{process: int8(p)})
		for len(w.memories) <= p {
			w.memories = append(w.memories, NewLanes(s.memoryLimit))
		}
	}
	return w
}

func (w *world) service(lane int8) batch.ServiceID { return batch.ServiceID('a' + rune(lane)) }

func (w *world) processTime() time.Time { return time.Unix(1_000_000+int64(w.movesMade), 0) }

// fixedTime is a time that does not pass, so that nothing becomes due by waiting.
var fixedTime = time.Unix(1_000_000, 0)

// stepAdder makes the next step of an adder.
func (w *world) stepAdder(i int8) {
	a := &w.adders[i]
	step := w.steps[i][a.nextStep]
	a.nextStep++
	switch step {
	case "begin": // takes the lock and an id, in the message that begins the transaction
		a.holdsLock = true
		a.xid = w.takeXid()
	case "lock":
		a.holdsLock = true
	case "xid":
		a.xid = w.takeXid()
	case "snap": // takes the snapshot of the statement
		a.lastSeenKey = 0
		for j := range w.adders {
			if o := &w.adders[j]; o.lane == a.lane && (o.isOpen() || o.place == placeFinal) {
				a.lastSeenKey = max(a.lastSeenKey, o.key)
			}
		}
	case "clock":
		a.key = max(w.clock*w.microsPerTick, a.lastSeenKey+1)
	case "prepare":
		a.isPrepared = true
	case "unlock":
		a.holdsLock = false
	case "end":
		a.place, a.holdsLock = placeWaiting, false
		w.highestEndedXid = max(w.highestEndedXid, a.xid)
	case "quit": // ends without an addition
		w.rollBackAdder(int(i))
	default:
		panic(step)
	}
}

func (w *world) takeXid() uint64 {
	w.nextXid++
	return w.nextXid - 1
}

func (w *world) rollBackAdder(i int) {
	a := &w.adders[i]
	a.place, a.holdsLock, a.nextStep = placeGone, false, int8(len(w.steps[i]))
	w.highestEndedXid = max(w.highestEndedXid, a.xid)
}

// holderName returns the adder's name in pg_locks.
func (w *world) holderName(i int) string {
	if w.adders[i].hasLostName {
		return fmt.Sprintf("-1/%d", i)
	}
	return fmt.Sprintf("3/%d", i)
}

// xmin returns the lowest running id.
func (w *world) xmin() uint64 {
	low := w.nextXid
	for i := range w.adders {
		if w.adders[i].isRunning() {
			low = min(low, w.adders[i].xid)
		}
	}
	for i := range w.claimers {
		if c := &w.claimers[i]; c.nextStep > stepLock && !c.transactionIsGone {
			low = min(low, c.xid)
		}
	}
	return low
}

// endClaim ends the transaction of a claimer.
func (w *world) endClaim(c *claimer) {
	if l := &w.laneStates[c.lane]; !c.transactionIsGone && c.nextStep > stepLock {
		l.lockHolder = 0
		w.highestEndedXid = max(w.highestEndedXid, c.xid)
	}
}

// restart ends all transactions that are not prepared.
func (w *world) restart() {
	for i := range w.adders {
		switch a := &w.adders[i]; {
		case a.nextStep == 0 || a.place != placeUncommitted:
		case a.isPrepared:
			a.hasLostName = true
		default:
			w.rollBackAdder(i)
		}
	}
	for i := range w.claimers {
		c := &w.claimers[i]
		w.endClaim(c)
		c.transactionIsGone = c.nextStep > stepLock
	}
	for i := range w.laneStates {
		w.laneStates[i].lockHolder = 0
	}
}

// read returns the window of a table in the ranges that the claimer reads. An open row outside of
// the ranges is a fault.
func (w *world) read(c *claimer, table batchPlace) (keys []int64, open bool) {
	if w.laneStates[c.lane].isHalted {
		return nil, false
	}
	for i := range w.adders {
		switch a := &w.adders[i]; {
		case a.lane != c.lane || a.place != table:
		case isCovered(c.ranges, a.key):
			keys = append(keys, a.key)
		default:
			w.violation = fmt.Sprintf("batch %d of key %d is hidden from a claim that reads %v", i, a.key, c.ranges)
		}
	}
	slices.Sort(keys)
	if table == placeWaiting && len(keys) > c.limit {
		n := c.limit
		for n < len(keys) && keys[n] == keys[n-1] {
			n++
		}
		keys = keys[:n]
	}
	return keys, true
}

// check compares the memory of each process with the database: the ranges must contain the key of
// every batch that is open or may yet become visible.
func (w *world) check() string {
	if w.violation != "" {
		return w.violation
	}
	for p, m := range w.memories {
		if m.incarnation != w.incarnation {
			continue
		}
		for i := range w.adders {
			a := &w.adders[i]
			l := m.findLane(w.service(a.lane))
			if l == nil || l.requeues != w.laneStates[a.lane].requeues || a.key == 0 || isCovered(l.ranges, a.key) {
				continue
			}
			switch {
			case a.isOpen():
				return fmt.Sprintf("batch %d of key %d is hidden from process %d, which reads %v", i, a.key, p, l.ranges)
			case a.place == placeUncommitted:
				return fmt.Sprintf("batch %d of key %d will be hidden from process %d, which reads %v", i, a.key, p, l.ranges)
			}
		}
	}
	return ""
}
