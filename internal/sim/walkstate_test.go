package sim

import (
	"fmt"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// walkState is one state of the walk: the rows of the lane, two processes, the ledger, the
// requests on the wire, and what the checks need to know of the past. It has no pointers, so that
// it can be compared.
type walkState struct {
	rows             [2]packedRow
	procs            [2]walkProcess
	wire             [3]walkRequestOnWire
	ledger           modelLedger
	history          [2]batchHistory
	faultCount       int8 // the number of faults so far
	clockWasSetRight bool // true once the database's clock, which was ahead at first, was put right
}

// walkProcess is a process: a claim that it delivers, and a question that it asks.
type walkProcess struct {
	isUp          bool
	frozenMinutes int8 // the minutes until a frozen process goes on

	// The claim: its batches in order, the batch that is posted now, and the answer.
	phase          int8
	run            [2]int8 // the numbers of the batches; -1 for none
	rowIsUnchanged [2]bool // for each batch, whether the row is still as this process wrote or read it
	claimedFrom    [2]int8 // for each batch, the state from which it was claimed
	placeInRun     int8    // the index in run of the batch that is posted now
	minutesLeft    int8    // the minutes by the process's own clock in which the claim's requests must end
	answer         int8

	// The question: which batch it is about, the answer, and how long ago it was asked, by both
	// clocks.
	askedBatch                            int8 // -1 for none
	askedRowIsUnchanged                   bool // true if the row has not changed since it was read
	waitsForClaimEnd                      bool // true if a commit waits for the end of a live claim
	status, evidence                      int8
	askedAgoByDatabase, askedAgoByProcess int8

	// For each batch, the minutes since this process first saw the row as it is; -1 if it has not.
	minutesSinceSeen [2]int8
}

// clearEnded clears the values of a claim or a question that has ended.
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
	phasePuttingBack // the process puts the rest of the run back
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

// walkRequestOnWire is a POST: on its way, or still to arrive after its connection has ended.
type walkRequestOnWire struct {
	isOnWire       bool
	batch          int8
	attempt        int8
	waitingProcess int8 // the process that waits for the answer; -1 for none
	arrivesLate    bool // true if the request does not arrive for now
	ageMinutes     int8 // minutes since the POST began, or since its connection ended
}

// modelLedger is the ledger's real state.
type modelLedger struct {
	mode           int8
	pooledAttempt  [2]int8 // the attempt that was accepted and not yet executed; 0 for none
	executionCount [2]int8
	showsExecuted  [2]bool // true if the ledger still knows that it has executed the batch
	decidedAgainst [2]bool // true if the ledger has decided against the batch
	dedupMinutes   [2]int8 // the minutes for which it ignores further requests of the batch
	secondInPool   int8    // the batch that was accepted after the other; the ledger may keep that order
}

// Modes of the ledger.
const (
	modeWell        = iota
	modeRefuses     // answers each POST with a text that nobody knows
	modeUnreachable // answers each POST with "unavailable", and gives no status
	modeForgets     // accepts, and then has no trace
	modeNonsense    // gives a status that nobody can read, or none at all
	modeCount
)

// batchHistory is what the checks have to know of a batch's past.
type batchHistory struct {
	furthestStage          int8 // the furthest stage that the row has reached
	minutesWithoutProgress int8 // the minutes since then in which a process was up and the batch was the lane's first
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
