package sim

import (
	"fmt"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// walkState is one state of the walk: the rows of the one lane, two processes, the ledger, the
// requests on the wire, and what the checks need to know of the past. It has no pointers, so that
// it is its own key.
type walkState struct {
	rows             [2]packedRow
	procs            [2]walkProcess
	wire             [3]walkRequestOnWire
	ledger           modelLedger
	history          [2]batchHistory
	faultCount       int8 // so many have happened
	clockWasSetRight bool // the database's clock, which was ahead at first, has been put right
}

// walkProcess is one process: a claim that it delivers, and a question that it asks.
type walkProcess struct {
	isUp          bool
	frozenMinutes int8 // minutes until it goes on

	// The claim: its batches in order, the one that is posted now, and what was answered.
	phase          int8
	run            [2]int8 // batches by number, -1 for none
	rowIsUnchanged [2]bool // by batch: the row is still as this process wrote or read it
	claimedFrom    [2]int8 // by batch: the state that it was claimed from
	placeInRun     int8    // place in the run
	minutesLeft    int8    // minutes until the claim's requests must have ended, by the own clock
	answer         int8

	// The question: about which batch, the answer, and how long ago it was asked, by both clocks.
	askedBatch                            int8 // -1 for none
	askedRowIsUnchanged                   bool // the row is still as it was
	waitsForClaimEnd                      bool // a commit waits for the end of a live claim
	status, evidence                      int8
	askedAgoByDatabase, askedAgoByProcess int8

	// By batch: minutes since this process first saw the row as it is; -1 if it did not.
	minutesSinceSeen [2]int8
}

// clearEnded clears what is over.
func (q *walkProcess) clearEnded(s *walkState) {
	if q.phase == phaseIdle {
		q.run, q.rowIsUnchanged, q.claimedFrom, q.placeInRun, q.minutesLeft, q.answer = [2]int8{-1, -1}, [2]bool{}, [2]int8{}, 0, 0, 0
	}
	if q.phase != phaseAnswered {
		q.answer = 0
	}
	if q.askedBatch < 0 {
		q.askedRowIsUnchanged, q.waitsForClaimEnd, q.status, q.evidence, q.askedAgoByDatabase, q.askedAgoByProcess = false, false, 0, 0, 0, 0
	}
	for b := range q.minutesSinceSeen {
		if s.rows[b].final {
			q.minutesSinceSeen[b] = -1
		}
	}
}

// Phases of a claim.
const (
	phaseIdle = iota
	phaseClaimed
	phasePosting
	phaseAnswered
	phasePuttingBack // the rest of the run goes back
)

// Answers to a POST.
const (
	saysAccepted = iota
	saysBusy
	saysUnavailable
	saysRejected
	saysMisconfigured
	saysNotYet
	saysUnknownWord
	saysNothing // the connection ended without an answer
)

// walkRequestOnWire is one POST: on its way, or still to arrive after its connection has ended.
type walkRequestOnWire struct {
	isOnWire       bool
	batch          int8
	attempt        int8
	waitingProcess int8 // the process that waits for the answer, -1 for none
	arrivesLate    bool // it does not arrive for now
	ageMinutes     int8 // minutes since the POST began, or since the connection ended
}

// modelLedger is the truth.
type modelLedger struct {
	mode           int8
	pooledAttempt  [2]int8 // attempt that was accepted and not yet executed, 0 for none
	executionCount [2]int8
	showsExecuted  [2]bool // the ledger still knows that it executed the batch
	decidedAgainst [2]bool // it decided against the batch
	dedupMinutes   [2]int8 // minutes for which it ignores further requests of the batch
	secondInPool   int8    // the batch that was accepted behind the other; the ledger may keep that order
}

// Modes of the ledger.
const (
	modeWell        = iota
	modeRefuses     // each POST, with words that nobody knows
	modeUnreachable // each POST with "unavailable", and no status
	modeForgets     // it accepts, and knows nothing afterwards
	modeNonsense    // no status that anybody can read, or none at all
	modeCount
)

// batchHistory is what the checks remember of a batch.
type batchHistory struct {
	furthestStage          int8 // the furthest that the row came
	minutesWithoutProgress int8 // minutes since then in which a process was up and the batch was the lane's first
	personCalls            int8 // how often a person was called since then
}

func (s *walkState) String() string {
	var b strings.Builder
	for i, r := range s.rows {
		fmt.Fprintf(&b, "  b%d %-10s attempt %d doubt %d/%d claim %d notBefore %d next %d post %d resends %d err %d decision %d first %d | executed %d pool %d told %d stands %d best %d\n", i, batch.States()[r.state],
			r.attempt, r.doubtAttempt, r.doubtSince, r.claimExpires, r.notBefore, r.nextCheck, r.lastPost, r.resends, r.kind, r.decision, r.movedAt, s.ledger.executionCount[i], s.ledger.pooledAttempt[i], s.history[i].personCalls, s.history[i].minutesWithoutProgress, s.history[i].furthestStage)
	}
	for i, p := range s.procs {
		fmt.Fprintf(&b, "  p%d %+v\n", i, p)
	}
	for _, q := range s.wire {
		if q.isOnWire {
			fmt.Fprintf(&b, "  wire %+v\n", q)
		}
	}
	fmt.Fprintf(&b, "  ledger %+v faults %d\n", s.ledger, s.faultCount)
	return b.String()
}
