package evmmodel

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lane is one account's three payments, several of them under way. What a row keeps, and when a
// slot is given up, is the same as for one payment; the lane adds how a nonce follows those of the
// others. Each field breaks a rule.
type laneRules struct {
	keepsUnfenced bool // the row keeps bytes without reading its version and bytes
	voidsUnfinal  bool // a slot is given up for a block that may be taken back
	nodeCounts    bool // the next nonce is what the node counts with its pool
	aboveForeign  bool // a nonce follows somebody else's that may be taken back
	goesOn        bool // the rest of a run goes on behind a payment that failed
	gapsStay      bool // nobody closes a nonce that no payment holds
	loseLane      bool // the nonces of the lane's other payments are not looked at
	byAge         bool // a run is in the order of age, and not of nonces
	behindWait    bool // what goes again waits for those behind it: it breaks nothing, and has fewer worlds
	assumes       bool // a withdrawn payment ends once what closes its nonce was accepted
	nobody        bool // no person acts: it breaks nothing, and has fewer worlds
}

const (
	payments   = 3
	laneNonces = 6
	foreign    = int8(payments) // owners: 0 to 2 are payments
	closing    = int8(payments + 1)
	none       = int8(-1)
)

// place is one payment's row.
type place struct {
	standing standing
	keeps    int8 // the nonce, none for no slot
	lost     bool // waits again, and may not follow those under way
	givenUp  bool // by a person: it may still be executed
	voided   bool // had a slot that somebody else's transaction ended
	// withdrawn by a person; closes says that the slot has a transfer of nothing.
	withdrawn, closes bool
}

// runner is a process with a run of payments, or one that had it.
type runner struct {
	on      bool
	run     [payments]int8 // the payments of the run, of which at to end are left
	at, end int8
	stage   stage
	current [payments]bool // the rows still have the versions of its claims
	lane    [payments]int8 // what the rows kept when they were claimed, and what it kept since
	nonce   int8
	closes  bool // what it sends closes the nonce of a withdrawn payment
}

// asking is a monitor that has read a row.
type asking struct {
	on      bool
	current bool
	row     int8
	saw     int8
	verdict verdict
}

type laneWorld struct {
	rows    [payments]place
	expired bool
	all     [2]runner
	asking  asking

	sent   [laneNonces]int8 // bits of owners
	deep   [laneNonces]int8
	head   int8
	faults int8
	// ordered says that a rule is not broken which keeps the order, too.
	ordered bool
}

func newLane() (w laneWorld) {
	for i := range w.rows {
		w.rows[i].keeps = none
	}
	for i := range w.deep {
		w.deep[i] = none
	}
	w.head = none
	for i := range w.all {
		w.all[i] = idleRunner()
	}
	return w
}

// row is the payment in hand.
func (r *runner) row() int8 { return r.run[r.at] }

func idleRunner() (r runner) {
	for i := range r.lane {
		r.lane[i], r.run[i] = none, none
	}
	r.nonce = none
	return r
}

func (w *laneWorld) height() int8 {
	for n, o := range w.deep {
		if o == none {
			return int8(n)
		}
	}
	return laneNonces
}

func (w *laneWorld) latest() int8 {
	if w.head != none {
		return w.height() + 1
	}
	return w.height()
}

// pool is the count with a pool that has forgotten nothing.
func (w *laneWorld) pool() int8 {
	n := w.latest()
	for n < laneNonces && w.sent[n] != 0 {
		n++
	}
	return n
}

func (w *laneWorld) moved(i int8) {
	if w.asking.row == i {
		w.asking.current = false
	}
	for p := range w.all {
		w.all[p].current[i] = false
	}
}

func (w *laneWorld) final() bool {
	for i := range w.rows {
		if s := w.rows[i].standing; s != committed && s != rejected {
			return false
		}
	}
	return true
}

func (w *laneWorld) broken() string {
	var times [payments]int
	var where [payments]int
	see := func(o int8, n int) {
		if o >= 0 && o < payments {
			times[o]++
			where[o] = n
		}
	}
	for n, o := range w.deep {
		see(o, n)
	}
	see(w.head, int(w.height()))
	for i, r := range w.rows {
		switch {
		case times[i] > 1:
			return "executed twice"
		case r.standing == committed && times[i] == 0:
			return "committed, and not executed"
		case r.standing == rejected && !r.givenUp && times[i] > 0:
			return "rejected, and executed"
		}
		for j := range i { // those behind a payment that was given up do not wait for it
			if w.ordered && times[i] > 0 && times[j] > 0 && where[j] > where[i] && !w.rows[j].voided && !w.rows[j].givenUp {
				return "executed in another order"
			}
		}
	}
	return ""
}

type laneSteps struct {
	laneRules
	bounds
	w    laneWorld
	emit func(laneWorld, string)
}

func (s *laneSteps) to(what string, change func(w *laneWorld)) {
	w := s.w
	change(&w)
	if !w.asking.on {
		w.asking = asking{}
	}
	for i := range w.all {
		if !w.all[i].on {
			w.all[i] = idleRunner()
		}
	}
	if !w.all[0].on && w.all[1].on { // worlds are equal that differ in the names of processes
		w.all[0], w.all[1] = w.all[1], w.all[0]
	}
	s.emit(w, what)
}

func (s *laneSteps) fault(what string, change func(w *laneWorld)) {
	if int(s.w.faults) < s.faults {
		s.to(what, func(w *laneWorld) { w.faults++; change(w) })
	}
}

func (s *laneSteps) next() {
	s.chain()
	for p := range s.processes {
		s.process(p)
	}
	for i := range s.w.rows {
		if s.w.rows[i].standing == submitting && !s.w.expired {
			s.to("the claims expire", func(w *laneWorld) { w.expired = true })
			break
		}
	}
	s.monitor()
	if s.nobody {
		return
	}
	for i := range s.w.rows {
		// Also while others keep bytes: they may have kept them since Decide looked, or it is
		// withdrawn.
		if r := s.w.rows[i]; r.standing == pending && r.keeps != none {
			s.fault("a person gives a payment up", func(w *laneWorld) {
				w.moved(int8(i))
				w.rows[i].standing, w.rows[i].givenUp = rejected, true
			})
			s.fault("a person gives a payment up, and all nodes forget it", func(w *laneWorld) {
				w.moved(int8(i))
				w.rows[i].standing, w.rows[i].givenUp = rejected, true
				w.sent[r.keeps] &^= 1 << i
			})
		}
		live := s.w.rows[i].standing == submitting && !s.w.expired
		if r := s.w.rows[i]; s.w.open(int8(i)) && r.keeps != none && !r.withdrawn && !live {
			s.fault("a person withdraws a payment", func(w *laneWorld) {
				w.moved(int8(i))
				w.rows[i].withdrawn = true
			})
		}
	}
}

func (s *laneSteps) chain() {
	n := s.w.height()
	if s.w.head != none {
		s.to("a block is deep", func(w *laneWorld) { w.deep[n], w.head = w.head, none })
		s.fault("a block is taken back", func(w *laneWorld) { w.head = none })
		return
	}
	if n == laneNonces {
		return
	}
	for o := range closing + 1 {
		if s.w.sent[n]&(1<<o) != 0 {
			s.to(fmt.Sprintf("the transaction of %d is mined", o), func(w *laneWorld) { w.head = o })
		}
	}
	s.fault("somebody else's is mined", func(w *laneWorld) { w.head = foreign })
	for _, sent := range s.w.sent[n:] {
		if sent != 0 {
			s.fault("all nodes forget what is in no block", func(w *laneWorld) { clear(w.sent[n:]) })
			break
		}
	}
}

// claim takes a run as queuer.Pipelined does.
func (s *laneSteps) claim(p int) {
	accepted := int8(0)
	end := int8(0)
	var open []int8
	for i, r := range s.w.rows {
		if r.standing != committed && r.standing != rejected {
			open = append(open, int8(i))
		}
	}
	if !s.byAge { // what keeps bytes goes first, in the order of nonces
		slices.SortStableFunc(open, func(i, j int8) int {
			a, b := s.w.rows[i].keeps, s.w.rows[j].keeps
			if a == none || b == none {
				return cmp.Compare(b, a)
			}
			return cmp.Compare(a, b)
		})
	}
	behind := false
	for at, i := range open {
		switch s.w.rows[i].standing {
		case waiting:
		case pending:
			if int8(at) > accepted {
				if s.behindWait {
					return
				}
				behind = true
				continue
			}
			accepted++
		default:
			return
		}
	}
	from := accepted
	for end = from; int(end) < len(open); end++ {
		r := s.w.rows[open[end]]
		if r.standing != waiting || (r.keeps == none || s.behindWait) && (behind || accepted > 0 && r.lost) {
			break
		}
	}
	if from == end {
		return
	}
	s.to("a claim", func(w *laneWorld) {
		w.expired = false
		w.all[p] = idleRunner()
		r := &w.all[p]
		r.on, r.end, r.stage = true, int8(copy(r.run[:], open[from:end])), claimed
		for i := range w.rows {
			if w.open(int8(i)) {
				r.lane[i] = w.rows[i].keeps
			}
		}
		for _, i := range open[from:end] {
			w.moved(i)
			w.rows[i].standing = submitting
		}
		for _, i := range open[from:end] {
			w.all[p].current[i] = true
		}
	})
}

func (w *laneWorld) open(i int8) bool {
	return w.rows[i].standing != committed && w.rows[i].standing != rejected
}

// ends ends a run: its payment goes back, and those behind it.
func (w *laneWorld) ends(p int, goesOn bool) {
	r := &w.all[p]
	back := func(i int8) {
		if r.current[i] && w.rows[i].standing == submitting {
			w.moved(i)
			w.rows[i].standing = waiting
		}
	}
	back(r.row())
	if goesOn && r.at+1 < r.end {
		r.at++
		r.stage = claimed
		return
	}
	for _, i := range r.run[r.at+1 : r.end] {
		back(i)
	}
	*r = idleRunner()
}

func (s *laneSteps) process(p int) {
	r := s.w.all[p]
	if !r.on {
		if p == 0 || s.w.all[0].on {
			s.claim(p)
		}
		return
	}
	s.fault("a process dies", func(w *laneWorld) { w.all[p] = idleRunner() })
	at := r.row()
	fails := func(what string) { s.to(what, func(w *laneWorld) { w.ends(p, s.goesOn) }) }
	holds := func(w *laneWorld) bool { return w.rows[at].standing == submitting && r.current[at] }
	switch r.stage {
	case claimed:
		switch row := s.w.rows[at]; {
		case r.lane[at] == none:
		case !holds(&s.w) || !row.withdrawn || s.w.latest() > row.keeps: // or it is mined, by whomever
			s.to("kept bytes go again", func(w *laneWorld) { w.all[p].nonce, w.all[p].stage = r.lane[at], mayPost })
			return
		case row.closes:
			s.to("what closes it goes again", func(w *laneWorld) { w.all[p].nonce, w.all[p].stage, w.all[p].closes = row.keeps, mayPost, true })
			return
		default:
			s.to("what closes it is kept", func(w *laneWorld) {
				w.rows[at].closes = true
				w.all[p].nonce, w.all[p].stage, w.all[p].closes = row.keeps, mayPost, true
			})
			s.fault("the signer fails", func(w *laneWorld) { w.ends(p, s.goesOn) })
			return
		}
		s.fault("the call would be taken back", func(w *laneWorld) {
			if holds(w) {
				w.moved(at)
				w.rows[at].standing = rejected
			}
			w.ends(p, false)
		})
		s.fault("the signer fails", func(w *laneWorld) { w.ends(p, s.goesOn) })
		n, ok := s.nonce(p)
		if !ok || n >= laneNonces {
			fails("not yet")
			return
		}
		s.to("bytes are signed", func(w *laneWorld) { w.all[p].nonce, w.all[p].stage = n, signed })
	case signed:
		s.to("bytes are kept", func(w *laneWorld) {
			row, me := &w.rows[at], &w.all[p]
			if holds(w) && row.keeps == none || s.keepsUnfenced && w.open(at) {
				row.keeps, me.lane[at], me.stage = r.nonce, r.nonce, mayPost
				return
			}
			*me = idleRunner() // the claim is another's
		})
	case mayPost:
		if r.nonce > s.w.pool() {
			if !s.gapsStay && s.isGap(p) {
				s.to("a nonce is closed", func(w *laneWorld) { w.sent[w.height()] |= 1 << closing })
			}
			fails("a nonce is missing")
			return
		}
		s.to("bytes are sent", func(w *laneWorld) {
			owner := at
			if r.closes {
				owner = closing
			}
			w.sent[r.nonce] |= 1 << owner
			w.all[p].stage = posted
		})
		s.fault("the pool has forgotten", func(w *laneWorld) { w.ends(p, s.goesOn) })
	case posted:
		s.to("the acceptance is recorded", func(w *laneWorld) {
			if holds(w) {
				w.moved(at)
				w.rows[at].standing, w.rows[at].lost = pending, false
				if s.assumes && r.closes {
					w.rows[at].standing = rejected
				}
			}
			me := &w.all[p]
			if me.at++; me.at == me.end {
				*me = idleRunner()
				return
			}
			me.stage, me.nonce, me.closes = claimed, none, false
		})
	}
}

// isGap reports whether a process sees that nobody of the lane holds the next nonce.
func (s *laneSteps) isGap(p int) bool {
	if s.w.head != none || s.w.height() == laneNonces {
		return false
	}
	for _, n := range s.w.all[p].lane {
		if n == s.w.height() {
			return false
		}
	}
	return true
}

// nonce is the next one for the payment of a process.
func (s *laneSteps) nonce(p int) (int8, bool) {
	if s.nodeCounts {
		return s.w.latest(), true // of a node whose pool has forgotten
	}
	n := s.w.height()
	if !s.loseLane {
		for { // in order
			next := false
			for _, h := range s.w.all[p].lane {
				next = next || h == n
			}
			if !next {
				break
			}
			n++
		}
		for _, h := range s.w.all[p].lane {
			if h > n {
				return 0, false
			}
		}
	}
	if s.aboveForeign {
		return max(n, s.w.latest()), true
	}
	return n, s.w.latest() <= n && (s.loseLane || s.w.pool() <= n)
}

func (s *laneSteps) monitor() {
	m := s.w.asking
	owned := func(w *laneWorld, i int8) bool {
		return w.rows[i].standing == pending || w.rows[i].standing == submitting && w.expired
	}
	switch {
	case !m.on:
		for i := range int8(payments) {
			if owned(&s.w, i) {
				s.to("a row is read", func(w *laneWorld) { w.asking = asking{on: true, current: true, row: i, saw: w.rows[i].keeps} })
			}
		}
	case m.verdict == unasked:
		s.to("the chain is asked", func(w *laneWorld) {
			if w.asking.verdict = s.verdict(); w.asking.verdict == unasked {
				w.asking = asking{}
			}
		})
	default:
		s.to("the verdict is written", func(w *laneWorld) {
			w.asking = asking{}
			row := &w.rows[m.row]
			switch {
			case m.verdict == isOurs && w.open(m.row):
				w.moved(m.row)
				row.standing = committed
			case !owned(w, m.row) || !m.current:
			case m.verdict == again:
				w.moved(m.row)
				row.standing, row.lost = waiting, true
			case m.verdict == isDead && row.keeps == m.saw:
				w.moved(m.row)
				row.voided = row.voided || row.keeps != none && w.deep[row.keeps] >= foreign
				row.standing, row.keeps, row.lost = waiting, none, true
				if row.withdrawn {
					row.standing = rejected
				}
			}
		})
	}
}

func (s *laneSteps) verdict() verdict {
	m := s.w.asking
	if m.saw == none {
		return isDead
	}
	last := s.w.deep[m.saw]
	unfinal := last == none && s.w.height() == m.saw
	if unfinal {
		last = s.w.head
	}
	switch {
	case last == none:
		return again
	case last == m.row && !unfinal:
		return isOurs
	case last != m.row && (!unfinal || s.voidsUnfinal):
		return isDead
	}
	return unasked
}

func searchLane(r laneRules, b bounds) finding {
	first := newLane()
	first.ordered = !r.keepsUnfenced && !r.voidsUnfinal
	return explore(first, (*laneWorld).broken, (*laneWorld).final, func(w laneWorld, emit func(laneWorld, string)) {
		s := laneSteps{laneRules: r, bounds: b, w: w, emit: emit}
		s.next()
	})
}

// With three payments of an account under way each is executed once at most, and the lane always
// comes to its end. They are executed in their order, apart from a payment that has lost its nonce
// to somebody else, and one that a person has given up: it may come behind later ones.
func TestLane(t *testing.T) {
	all := []bounds{{processes: 1, faults: 1}, {processes: 2, faults: 0}}
	if *large {
		all = append(all, bounds{processes: 2, faults: 1}, bounds{processes: 1, faults: 2})
	}
	for _, b := range all {
		t.Run(fmt.Sprintf("%d processes/%d faults", b.processes, b.faults), func(t *testing.T) {
			t.Parallel()
			f := searchLane(laneRules{behindWait: b.processes > 1 && !*large}, b)
			require.Empty(t, f.wrong, f)
			assert.Positive(t, f.finals, "else nothing was tried")
			t.Logf("%d worlds, %d of them at their end", f.worlds, f.finals)
		})
	}
}

// Each rule of the lane is needed.
func TestBrokenLane(t *testing.T) {
	const twice, refused, order, jam = "executed twice", "rejected, and executed", "executed in another order", "no end can be reached"
	for name, c := range map[string]struct {
		laneRules
		bounds
		wrong string
	}{
		"bytes are kept whatever the row says":                  {laneRules{keepsUnfenced: true}, bounds{2, 2}, refused},
		"a slot is given up for a block that may be taken back": {laneRules{voidsUnfinal: true}, bounds{1, 2}, twice},
		"the node counts":                 {laneRules{nodeCounts: true}, bounds{1, 1}, order},
		"a nonce follows somebody else's": {laneRules{aboveForeign: true}, bounds{1, 2}, order},
		"a run goes on behind a failure":  {laneRules{goesOn: true}, bounds{1, 1}, order},
		"a gap stays":                     {laneRules{gapsStay: true}, bounds{1, 1}, jam},
		"the lane is not looked at":       {laneRules{loseLane: true}, bounds{1, 0}, order},
		"a run is in the order of age":    {laneRules{byAge: true, nobody: true}, bounds{1, 2}, jam},
		"a withdrawal is assumed":         {laneRules{assumes: true}, bounds{1, 1}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.behindWait = true
			f := searchLane(c.laneRules, c.bounds)
			require.Equal(t, c.wrong, f.wrong, "%d worlds", f.worlds)
			t.Log(f)
		})
	}
}
