package sim

import (
	"fmt"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// state is one state of the walk: the rows of the one lane, two processes, the ledger, the
// requests on the wire, and what the checks need to know of the past. It has no pointers, so that
// it is its own key.
type state struct {
	rows   [2]packedRow
	procs  [2]proc
	wire   [3]request
	ledger modelLedger
	past   [2]past
	faults int8 // so many have happened
	right  bool // the database's clock, which was ahead at first, has been put right
}

// proc is one process: a claim that it delivers, and a question that it asks.
type proc struct {
	up     bool
	frozen int8 // minutes until it goes on

	// The claim: its batches in order, the one that is posted now, and what was answered.
	phase   int8
	run     [2]int8 // batches by number, -1 for none
	current [2]bool // by batch: the row is still as this process wrote or read it
	from    [2]int8 // by batch: the state that it was claimed from
	at      int8    // place in the run
	until   int8    // minutes until the claim's requests must have ended, by the own clock
	answer  int8

	// The question: about which batch, the answer, and how long ago it was asked, by both clocks.
	asks             int8 // -1 for none
	asked            bool // the row is still as it was
	held             bool // a commit waits for the end of a live claim
	status, evidence int8
	ago, own         int8

	// By batch: minutes since this process first saw the row as it is; -1 if it did not.
	seen [2]int8
}

// tidy clears what is over.
func (q *proc) tidy(s *state) {
	if q.phase == resting {
		q.run, q.current, q.from, q.at, q.until, q.answer = [2]int8{-1, -1}, [2]bool{}, [2]int8{}, 0, 0, 0
	}
	if q.phase != answered {
		q.answer = 0
	}
	if q.asks < 0 {
		q.asked, q.held, q.status, q.evidence, q.ago, q.own = false, false, 0, 0, 0, 0
	}
	for b := range q.seen {
		if s.rows[b].final {
			q.seen[b] = -1
		}
	}
}

// Phases of a claim.
const (
	resting = iota
	claimed
	posting
	answered
	leaving // the rest of the run goes back
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

// request is one POST: on its way, or still to arrive after its connection has ended.
type request struct {
	on      bool
	batch   int8
	attempt int8
	by      int8 // the process that waits for the answer, -1 for none
	late    bool // it does not arrive for now
	age     int8 // minutes since the POST began, or since the connection ended
}

// modelLedger is the truth.
type modelLedger struct {
	mode    int8
	pool    [2]int8 // attempt that was accepted and not yet executed, 0 for none
	execs   [2]int8
	shown   [2]bool // the ledger still knows that it executed the batch
	invalid [2]bool // it decided against the batch
	dedup   [2]int8 // minutes for which it ignores further requests of the batch
	second  int8    // the batch that was accepted behind the other; the ledger may keep that order
}

// Modes of the ledger.
const (
	well        = iota
	refuses     // each POST, with words that nobody knows
	unreachable // each POST with "unavailable", and no status
	forgetful   // it accepts, and knows nothing afterwards
	nonsense    // no status that anybody can read, or none at all
	modes
)

// past is what the checks remember of a batch.
type past struct {
	best   int8 // the furthest that the row came
	stands int8 // minutes since then in which a process was up and the batch was the lane's first
	told   int8 // how often a person was called since then
}

func (s *state) String() string {
	var b strings.Builder
	for i, r := range s.rows {
		fmt.Fprintf(&b, "  b%d %-10s attempt %d doubt %d/%d claim %d notBefore %d next %d post %d resends %d err %d decision %d first %d | executed %d pool %d told %d stands %d best %d\n", i, batch.States()[r.state],
			r.attempt, r.doubtAttempt, r.doubtSince, r.claimExpires, r.notBefore, r.nextCheck, r.lastPost, r.resends, r.kind, r.decision, r.movedAt, s.ledger.execs[i], s.ledger.pool[i], s.past[i].told, s.past[i].stands, s.past[i].best)
	}
	for i, p := range s.procs {
		fmt.Fprintf(&b, "  p%d %+v\n", i, p)
	}
	for _, q := range s.wire {
		if q.on {
			fmt.Fprintf(&b, "  wire %+v\n", q)
		}
	}
	fmt.Fprintf(&b, "  ledger %+v faults %d\n", s.ledger, s.faults)
	return b.String()
}
