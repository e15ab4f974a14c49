package sim

import (
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func (w *walker) may(s *state, faults int8) bool { return s.faults+faults <= w.most }

// arrive is the moment when the ledger gets a request, and answers.
func (w *walker) arrive(s state, i int, yield func(string, state)) {
	q := s.wire[i]
	end := func(s state, answer int8) state {
		s.wire[i] = request{}
		if q.by >= 0 {
			p := &s.procs[q.by]
			p.phase, p.answer = answered, answer
		}
		return s
	}
	taken := s
	answer := w.take(&taken, q)
	yield(w.say("the ledger gets b%d: answer %d", q.batch, answer), end(taken, answer))
	if q.by < 0 {
		yield(w.say("a late request for b%d is lost", q.batch), end(s, 0))
		return
	}
	if !w.may(&s, 1) {
		return
	}
	s.faults++
	taken.faults++
	yield(w.say("the ledger gets b%d, and the answer is lost", q.batch), end(taken, saysNothing))
	if s.ledger.mode != well {
		return
	}
	for a := int8(saysBusy); a <= saysUnknownWord; a++ {
		yield(w.say("the ledger does not take b%d: answer %d", q.batch, a), end(s, a))
	}
}

// take is the effect of a request.
func (w *walker) take(s *state, q request) (answer int8) {
	l, b := &s.ledger, q.batch
	switch {
	case l.mode == refuses:
		return saysUnknownWord
	case l.mode == unreachable:
		return saysUnavailable
	case l.mode == forgetful, w.ignores && (l.pool[b]+l.execs[b] > 0 || l.invalid[b]), w.window && l.dedup[b] > 0:
		return saysAccepted
	}
	if l.pool[b] > 0 { // it waits there already: both are executed
		w.execs(s, b)
	}
	l.pool[b] = max(1, q.attempt)
	if w.window {
		l.dedup[b] = walkWindow
	}
	if l.pool[1-b] > 0 {
		l.second = b
	} else {
		l.second = 1 - b
	}
	return saysAccepted
}

// execute lets the ledger decide about what it has accepted.
func (w *walker) execute(s state, yield func(string, state)) {
	for b := range int8(2) {
		if s.ledger.pool[b] == 0 || w.keeps() && s.ledger.second == b && s.ledger.pool[1-b] > 0 {
			continue
		}
		next := s
		next.ledger.pool[b] = 0
		w.execs(&next, b)
		yield(w.say("the ledger executes b%d", b), next)
		if w.may(&s, 1) {
			next := s
			next.faults++
			next.ledger.pool[b], next.ledger.invalid[b] = 0, true
			yield(w.say("the ledger decides against b%d", b), next)
		}
	}
}

// execs checks promises 2, 3 and 10 at the moment when a batch takes effect.
func (w *walker) execs(s *state, b int8) {
	l := &s.ledger
	if l.execs[b]++; l.execs[b] > 1 {
		w.fail("promise 3: b%d takes effect twice", b)
	}
	l.shown[b], l.invalid[b] = l.mode != forgetful, false
	first := s.rows[0]
	if b == 1 && !w.keeps() && l.execs[0] == 0 && !first.final {
		w.fail("promise 2: b1 takes effect before b0, which is %s", batch.States()[first.state])
	}
	if r := s.rows[b]; r.final && batch.States()[r.state] != batch.Committed {
		w.fail("promise 10: b%d is recorded as %s and takes effect", b, batch.States()[r.state])
	}
}

// fault makes the faults that need no request.
func (w *walker) fault(s state, yield func(string, state)) {
	for p := range int8(2) {
		if !s.procs[p].up {
			next := s
			next.procs[p] = newProc()
			yield(w.say("p%d starts", p), next)
		}
	}
	if s.ledger.mode != well {
		next := s
		next.ledger.mode = well
		yield(w.say("the ledger is well again"), next)
	}
	if !s.right {
		next := s
		next.right = true
		w.clock(&next, -clockStep)
		yield("the database's clock was ahead, and is put right", next)
	}
	if !w.may(&s, 1) {
		return
	}
	s.faults++
	for p := range int8(2) {
		if !s.procs[p].up {
			continue
		}
		next := s
		next.procs[p] = newProc()
		next.procs[p].up = false
		for i := range next.wire {
			if q := &next.wire[i]; q.on && q.by == p {
				q.by, q.late, q.age = -1, true, 0
			}
		}
		yield(w.say("p%d crashes", p), next)
		if s.procs[p].frozen == 0 {
			next := s
			next.procs[p].frozen = walkFreeze
			yield(w.say("p%d is frozen", p), next)
		}
	}
	for i := range s.wire {
		if q := s.wire[i]; q.on && !q.late {
			next := s
			next.wire[i].late = true
			yield(w.say("the request for b%d is slow", q.batch), next)
		}
	}
	if s.ledger.mode == well {
		for m := int8(1); m < modes; m++ {
			next := s
			next.ledger.mode = m
			yield(w.say("the ledger is in mode %d", m), next)
		}
	}
	for _, by := range []int8{} {
		next := s
		w.clock(&next, by)
		yield(w.say("the database's clock steps by %d minutes", by), next)
	}
	next := s
	next.ledger.pool = [2]int8{}
	if !w.ignores { // a chain stays
		next.ledger.shown = [2]bool{}
	}
	yield("the ledger restarts, and loses what it had accepted", next)
}

func (w *walker) clock(s *state, by int8) {
	for b := range s.rows {
		s.rows[b] = s.rows[b].passed(by)
	}
	for p := range s.procs {
		if q := &s.procs[p]; q.asks >= 0 {
			q.ago = clamp(int64(q.ago)+int64(by), oldest, farthest)
		}
	}
}

// mostSeen is as far as any rule counts by the own clock: a claim and LateArrival, and a minute
// more.
const mostSeen = walkTTL + 2

// tick lets a minute pass for everybody.
func (w *walker) tick(s *state) {
	awake := false
	for p := range s.procs {
		q := &s.procs[p]
		if !q.up {
			continue
		}
		awake = awake || q.frozen == 0
		q.frozen = max(0, q.frozen-1)
		q.until = max(-1, q.until-1)
		if q.held = false; q.asks >= 0 {
			q.own = min(mostSeen, q.own+1)
		}
		for b := range q.seen {
			if q.seen[b] >= 0 {
				q.seen[b] = min(mostSeen, q.seen[b]+1)
			}
		}
	}
	w.clock(s, 1)
	for i := range s.wire {
		w.wait(s, &s.wire[i])
	}
	for b := range s.rows {
		s.ledger.dedup[b] = max(0, s.ledger.dedup[b]-1)
		if r := s.rows[b]; awake && !r.final && (b == 0 || s.rows[0].final) {
			k := &s.past[b]
			if k.stands = min(walkBound+1, k.stands+1); k.stands > walkBound && r.decision == noDecision {
				w.fail("promise 6: b%d is %s and has come no further for %d minutes, and no person was called", b, batch.States()[r.state], k.stands)
			}
		}
	}
}

// walkBound is how long a batch may stand before a person has been called: StuckAfter, and what it
// takes to find out.
const walkBound = walkStuck + 2*walkTTL + 4

// wait lets a request wait for a minute. Its connection ends in time, whoever waits for it.
func (w *walker) wait(s *state, q *request) {
	if !q.on {
		return
	}
	q.age++
	switch {
	case q.by >= 0 && q.age >= walkRequest:
		p := &s.procs[q.by]
		p.phase, p.answer = answered, saysNothing
		q.by, q.late, q.age = -1, true, 0
	case q.by < 0 && q.age >= max(2, int8(w.traits.LateArrival/minute)):
		*q = request{}
	}
}

// moved checks a row that was written.
func (w *walker) moved(s *state, b int8, was packedRow) {
	r, k := s.rows[b], &s.past[b]
	state := batch.States()[r.state]
	if r.final && !was.final {
		if ok := s.ledger.execs[b] > 0; ok != (state == batch.Committed) {
			w.fail("promise 10: b%d is recorded as %s, and took effect: %v", b, state, ok)
		}
	}
	if n := furthest(r); n > k.best {
		k.best, k.stands, k.told = n, 0, 0
	}
}

// furthest is how far a batch has come on its way.
func furthest(r packedRow) int8 {
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

// call counts the calls for a person.
func (w *walker) call(s *state, b int8, res store.Applied) {
	if !res.Stuck {
		return
	}
	k := &s.past[b]
	if k.told++; k.told > 1 {
		k.told = 2
		w.fail("a person is called about b%d once more, and nothing has changed since", b)
	}
}
