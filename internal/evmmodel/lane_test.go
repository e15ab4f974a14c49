package evmmodel

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// laneRules are the rules of a lane: one account's three payments, several of which are under way.
// The rules for storing bytes and giving a slot up are those of one payment. In a lane, a nonce
// also follows those of the other payments. Each field that is true breaks a rule, unless its
// comment says otherwise.
type laneRules struct {
	keepsUnfenced              bool // bytes are stored without a test of the row's version and bytes
	givesSlotUpForShallowBlock bool // a slot is given up because of a block that may be taken back
	takesNonceOfNode           bool // the next nonce is the node's count with its pool
	followsShallowForeignNonce bool // a nonce follows another wallet's transaction that may be taken back
	runContinuesAfterFailure   bool // after a payment that failed, the rest of its run goes on
	leavesGapsOpen             bool // a nonce that no payment holds is never closed
	ignoresLaneNonces          bool // the nonces of the lane's other payments are ignored
	ordersRunByAge             bool // a run is in the order of age, not of nonces
	resentWaitsForLater        bool // a payment that is sent again waits for those behind it; breaks no rule, and makes fewer worlds
	endsOnAcceptedClosing      bool // a withdrawn payment ends once the transaction that closes its nonce was accepted
	noPersonActs               bool // no person acts; breaks no rule, and makes fewer worlds
}

const (
	paymentCount   = 3
	laneNonceCount = 6
	foreignOwner   = int8(paymentCount) // the owners 0 to 2 are the payments
	closingOwner   = int8(paymentCount + 1)
	noNumber       = int8(-1)
)

// paymentRow is the row of one payment.
type paymentRow struct {
	state             rowState
	keptNonce         int8 // the nonce of its slot; noNumber without a slot
	mayNotFollow      bool // it is sent again, and may not follow payments under way
	wasGivenUp        bool // a person has given it up: it may still be executed
	lostSlotToForeign bool // another wallet's transaction has ended a slot of it
	// isWithdrawn: a person has withdrawn it. keepsClosing: its slot has a transfer of nothing.
	isWithdrawn, keepsClosing bool
}

// laneProcess is a process, with its run of payments if it has one.
type laneProcess struct {
	hasRun              bool
	run                 [paymentCount]int8 // the run's payments, of which those from nextInRun to endOfRun are left
	nextInRun, endOfRun int8
	stage               claimStage
	rowIsUnchanged      [paymentCount]bool // the row still has the version of this process's claim
	keptNonces          [paymentCount]int8 // the nonces in the rows at the claim, and those that this process has stored since
	nonce               int8
	sendsClosing        bool // it sends the transaction that closes the nonce of a withdrawn payment
}

// laneMonitor is a monitor that has read a row.
type laneMonitor struct {
	isAsking       bool
	rowIsUnchanged bool
	row            int8
	seenNonce      int8
	verdict        verdict
}

type laneWorld struct {
	rows          [paymentCount]paymentRow
	claimsExpired bool
	processes     [2]laneProcess
	monitor       laneMonitor

	sentOwners [laneNonceCount]int8 // for each nonce, a bit for each owner that has sent a transaction
	deepOwners [laneNonceCount]int8
	headOwner  int8
	faultCount int8
	// mustKeepOrder is true if no rule is broken that also keeps the order.
	mustKeepOrder bool
}

func newLaneWorld() (w laneWorld) {
	for i := range w.rows {
		w.rows[i].keptNonce = noNumber
	}
	for i := range w.deepOwners {
		w.deepOwners[i] = noNumber
	}
	w.headOwner = noNumber
	for i := range w.processes {
		w.processes[i] = idleLaneProcess()
	}
	return w
}

// currentPayment is the payment on which the process works.
func (r *laneProcess) currentPayment() int8 { return r.run[r.nextInRun] }

func idleLaneProcess() (r laneProcess) {
	for i := range r.keptNonces {
		r.keptNonces[i], r.run[i] = noNumber, noNumber
	}
	r.nonce = noNumber
	return r
}

func (w *laneWorld) deepCount() int8 {
	for n, o := range w.deepOwners {
		if o == noNumber {
			return int8(n)
		}
	}
	return laneNonceCount
}

func (w *laneWorld) latestCount() int8 {
	if w.headOwner != noNumber {
		return w.deepCount() + 1
	}
	return w.deepCount()
}

// pendingCount is the account's count at a node whose pool has forgotten nothing.
func (w *laneWorld) pendingCount() int8 {
	n := w.latestCount()
	for n < laneNonceCount && w.sentOwners[n] != 0 {
		n++
	}
	return n
}

func (w *laneWorld) changeVersion(i int8) {
	if w.monitor.row == i {
		w.monitor.rowIsUnchanged = false
	}
	for p := range w.processes {
		w.processes[p].rowIsUnchanged[i] = false
	}
}

func (w *laneWorld) allFinal() bool {
	for i := range w.rows {
		if s := w.rows[i].state; s != committed && s != rejected {
			return false
		}
	}
	return true
}

func (w *laneWorld) brokenPromise() string {
	var times [paymentCount]int
	var where [paymentCount]int
	see := func(o int8, n int) {
		if o >= 0 && o < paymentCount {
			times[o]++
			where[o] = n
		}
	}
	for n, o := range w.deepOwners {
		see(o, n)
	}
	see(w.headOwner, int(w.deepCount()))
	for i, r := range w.rows {
		switch {
		case times[i] > 1:
			return "executed twice"
		case r.state == committed && times[i] == 0:
			return "committed, and not executed"
		case r.state == rejected && !r.wasGivenUp && times[i] > 0:
			return "rejected, and executed"
		}
		for j := range i { // payments behind one that was given up do not wait for it
			if w.mustKeepOrder && times[i] > 0 && times[j] > 0 && where[j] > where[i] && !w.rows[j].lostSlotToForeign && !w.rows[j].wasGivenUp {
				return "executed in another order"
			}
		}
	}
	return ""
}

type laneSteps struct {
	laneRules
	bounds
	world laneWorld
	emit  func(laneWorld, string)
}

func (s *laneSteps) addStep(what string, change func(w *laneWorld)) {
	w := s.world
	change(&w)
	if !w.monitor.isAsking {
		w.monitor = laneMonitor{}
	}
	for i := range w.processes {
		if !w.processes[i].hasRun {
			w.processes[i] = idleLaneProcess()
		}
	}
	if !w.processes[0].hasRun && w.processes[1].hasRun { // worlds that differ only in the names of their processes are equal
		w.processes[0], w.processes[1] = w.processes[1], w.processes[0]
	}
	s.emit(w, what)
}

func (s *laneSteps) addFault(what string, change func(w *laneWorld)) {
	if int(s.world.faultCount) < s.faults {
		s.addStep(what, func(w *laneWorld) { w.faultCount++; change(w) })
	}
}

func (s *laneSteps) addAllSteps() {
	s.addChainSteps()
	for p := range s.processes {
		s.addProcessSteps(p)
	}
	for i := range s.world.rows {
		if s.world.rows[i].state == submitting && !s.world.claimsExpired {
			s.addStep("the claims expire", func(w *laneWorld) { w.claimsExpired = true })
			break
		}
	}
	s.addMonitorSteps()
	if s.noPersonActs {
		return
	}
	for i := range s.world.rows {
		// A person may give a payment up even while others have bytes: those may have been stored
		// since Decide looked, or the payment is withdrawn.
		if r := s.world.rows[i]; r.state == pending && r.keptNonce != noNumber {
			s.addFault("a person gives a payment up", func(w *laneWorld) {
				w.changeVersion(int8(i))
				w.rows[i].state, w.rows[i].wasGivenUp = rejected, true
			})
			s.addFault("a person gives a payment up, and all nodes forget it", func(w *laneWorld) {
				w.changeVersion(int8(i))
				w.rows[i].state, w.rows[i].wasGivenUp = rejected, true
				w.sentOwners[r.keptNonce] &^= 1 << i
			})
		}
		live := s.world.rows[i].state == submitting && !s.world.claimsExpired
		if r := s.world.rows[i]; s.world.isOpen(int8(i)) && r.keptNonce != noNumber && !r.isWithdrawn && !live {
			s.addFault("a person withdraws a payment", func(w *laneWorld) {
				w.changeVersion(int8(i))
				w.rows[i].isWithdrawn = true
			})
		}
	}
}

func (s *laneSteps) addChainSteps() {
	n := s.world.deepCount()
	if s.world.headOwner != noNumber {
		s.addStep("a block is deep", func(w *laneWorld) { w.deepOwners[n], w.headOwner = w.headOwner, noNumber })
		s.addFault("a block is taken back", func(w *laneWorld) { w.headOwner = noNumber })
		return
	}
	if n == laneNonceCount {
		return
	}
	for o := range closingOwner + 1 {
		if s.world.sentOwners[n]&(1<<o) != 0 {
			s.addStep(fmt.Sprintf("the transaction of %d is mined", o), func(w *laneWorld) { w.headOwner = o })
		}
	}
	s.addFault("somebody else's is mined", func(w *laneWorld) { w.headOwner = foreignOwner })
	for _, sent := range s.world.sentOwners[n:] {
		if sent != 0 {
			s.addFault("all nodes forget what is in no block", func(w *laneWorld) { clear(w.sentOwners[n:]) })
			break
		}
	}
}

// addClaimStep adds the claim of a run, as queuer.Pipelined makes it.
func (s *laneSteps) addClaimStep(p int) {
	accepted := int8(0)
	end := int8(0)
	var open []int8
	for i, r := range s.world.rows {
		if r.state != committed && r.state != rejected {
			open = append(open, int8(i))
		}
	}
	if !s.ordersRunByAge { // payments with bytes go first, in the order of their nonces
		slices.SortStableFunc(open, func(i, j int8) int {
			a, b := s.world.rows[i].keptNonce, s.world.rows[j].keptNonce
			if a == noNumber || b == noNumber {
				return cmp.Compare(b, a)
			}
			return cmp.Compare(a, b)
		})
	}
	behind := false
	for at, i := range open {
		switch s.world.rows[i].state {
		case waiting:
		case pending:
			if int8(at) > accepted {
				if s.resentWaitsForLater {
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
		r := s.world.rows[open[end]]
		if r.state != waiting || (r.keptNonce == noNumber || s.resentWaitsForLater) && (behind || accepted > 0 && r.mayNotFollow) {
			break
		}
	}
	if from == end {
		return
	}
	s.addStep("a claim", func(w *laneWorld) {
		w.claimsExpired = false
		w.processes[p] = idleLaneProcess()
		r := &w.processes[p]
		r.hasRun, r.endOfRun, r.stage = true, int8(copy(r.run[:], open[from:end])), stageClaimed
		for i := range w.rows {
			if w.isOpen(int8(i)) {
				r.keptNonces[i] = w.rows[i].keptNonce
			}
		}
		for _, i := range open[from:end] {
			w.changeVersion(i)
			w.rows[i].state = submitting
		}
		for _, i := range open[from:end] {
			w.processes[p].rowIsUnchanged[i] = true
		}
	})
}

func (w *laneWorld) isOpen(i int8) bool {
	return w.rows[i].state != committed && w.rows[i].state != rejected
}

// putBackPayment puts the current payment back. If goesOn is true the run goes on; otherwise it
// ends, and its later payments are put back, too.
func (w *laneWorld) putBackPayment(p int, goesOn bool) {
	r := &w.processes[p]
	back := func(i int8) {
		if r.rowIsUnchanged[i] && w.rows[i].state == submitting {
			w.changeVersion(i)
			w.rows[i].state = waiting
		}
	}
	back(r.currentPayment())
	if goesOn && r.nextInRun+1 < r.endOfRun {
		r.nextInRun++
		r.stage = stageClaimed
		return
	}
	for _, i := range r.run[r.nextInRun+1 : r.endOfRun] {
		back(i)
	}
	*r = idleLaneProcess()
}

func (s *laneSteps) addProcessSteps(p int) {
	r := s.world.processes[p]
	if !r.hasRun {
		if p == 0 || s.world.processes[0].hasRun {
			s.addClaimStep(p)
		}
		return
	}
	s.addFault("a process dies", func(w *laneWorld) { w.processes[p] = idleLaneProcess() })
	at := r.currentPayment()
	fails := func(what string) {
		s.addStep(what, func(w *laneWorld) { w.putBackPayment(p, s.runContinuesAfterFailure) })
	}
	holds := func(w *laneWorld) bool { return w.rows[at].state == submitting && r.rowIsUnchanged[at] }
	switch r.stage {
	case stageClaimed:
		switch row := s.world.rows[at]; {
		case r.keptNonces[at] == noNumber:
		case !holds(&s.world) || !row.isWithdrawn || s.world.latestCount() > row.keptNonce: // or the nonce is used, by any transaction
			s.addStep("kept bytes go again", func(w *laneWorld) { w.processes[p].nonce, w.processes[p].stage = r.keptNonces[at], stageMayPost })
			return
		case row.keepsClosing:
			s.addStep("what closes it goes again", func(w *laneWorld) {
				w.processes[p].nonce, w.processes[p].stage, w.processes[p].sendsClosing = row.keptNonce, stageMayPost, true
			})
			return
		default:
			s.addStep("what closes it is kept", func(w *laneWorld) {
				w.rows[at].keepsClosing = true
				w.processes[p].nonce, w.processes[p].stage, w.processes[p].sendsClosing = row.keptNonce, stageMayPost, true
			})
			s.addFault("the signer fails", func(w *laneWorld) { w.putBackPayment(p, s.runContinuesAfterFailure) })
			return
		}
		s.addFault("the call would be taken back", func(w *laneWorld) {
			if holds(w) {
				w.changeVersion(at)
				w.rows[at].state = rejected
			}
			w.putBackPayment(p, false)
		})
		s.addFault("the signer fails", func(w *laneWorld) { w.putBackPayment(p, s.runContinuesAfterFailure) })
		n, ok := s.nextNonce(p)
		if !ok || n >= laneNonceCount {
			fails("not yet")
			return
		}
		s.addStep("bytes are signed", func(w *laneWorld) { w.processes[p].nonce, w.processes[p].stage = n, stageSigned })
	case stageSigned:
		s.addStep("bytes are kept", func(w *laneWorld) {
			row, me := &w.rows[at], &w.processes[p]
			if holds(w) && row.keptNonce == noNumber || s.keepsUnfenced && w.isOpen(at) {
				row.keptNonce, me.keptNonces[at], me.stage = r.nonce, r.nonce, stageMayPost
				return
			}
			*me = idleLaneProcess() // the row is another process's now
		})
	case stageMayPost:
		if r.nonce > s.world.pendingCount() {
			if !s.leavesGapsOpen && s.seesGap(p) {
				s.addStep("a nonce is closed", func(w *laneWorld) { w.sentOwners[w.deepCount()] |= 1 << closingOwner })
			}
			fails("a nonce is missing")
			return
		}
		s.addStep("bytes are sent", func(w *laneWorld) {
			owner := at
			if r.sendsClosing {
				owner = closingOwner
			}
			w.sentOwners[r.nonce] |= 1 << owner
			w.processes[p].stage = stagePosted
		})
		s.addFault("the pool has forgotten", func(w *laneWorld) { w.putBackPayment(p, s.runContinuesAfterFailure) })
	case stagePosted:
		s.addStep("the acceptance is recorded", func(w *laneWorld) {
			if holds(w) {
				w.changeVersion(at)
				w.rows[at].state, w.rows[at].mayNotFollow = pending, false
				if s.endsOnAcceptedClosing && r.sendsClosing {
					w.rows[at].state = rejected
				}
			}
			me := &w.processes[p]
			if me.nextInRun++; me.nextInRun == me.endOfRun {
				*me = idleLaneProcess()
				return
			}
			me.stage, me.nonce, me.sendsClosing = stageClaimed, noNumber, false
		})
	}
}

// seesGap reports whether, for a process, no payment of the lane holds the next nonce.
func (s *laneSteps) seesGap(p int) bool {
	if s.world.headOwner != noNumber || s.world.deepCount() == laneNonceCount {
		return false
	}
	for _, n := range s.world.processes[p].keptNonces {
		if n == s.world.deepCount() {
			return false
		}
	}
	return true
}

// nextNonce returns the next nonce for a process's payment. It returns false if none may be taken.
func (s *laneSteps) nextNonce(p int) (int8, bool) {
	if s.takesNonceOfNode {
		return s.world.latestCount(), true // the count of a node whose pool has forgotten everything
	}
	n := s.world.deepCount()
	if !s.ignoresLaneNonces {
		for { // skips the nonces that follow each other
			next := false
			for _, h := range s.world.processes[p].keptNonces {
				next = next || h == n
			}
			if !next {
				break
			}
			n++
		}
		for _, h := range s.world.processes[p].keptNonces {
			if h > n {
				return 0, false
			}
		}
	}
	if s.followsShallowForeignNonce {
		return max(n, s.world.latestCount()), true
	}
	return n, s.world.latestCount() <= n && (s.ignoresLaneNonces || s.world.pendingCount() <= n)
}

func (s *laneSteps) addMonitorSteps() {
	m := s.world.monitor
	owned := func(w *laneWorld, i int8) bool {
		return w.rows[i].state == pending || w.rows[i].state == submitting && w.claimsExpired
	}
	switch {
	case !m.isAsking:
		for i := range int8(paymentCount) {
			if owned(&s.world, i) {
				s.addStep("a row is read", func(w *laneWorld) {
					w.monitor = laneMonitor{isAsking: true, rowIsUnchanged: true, row: i, seenNonce: w.rows[i].keptNonce}
				})
			}
		}
	case m.verdict == notAsked:
		s.addStep("the chain is asked", func(w *laneWorld) {
			if w.monitor.verdict = s.laneVerdict(); w.monitor.verdict == notAsked {
				w.monitor = laneMonitor{}
			}
		})
	default:
		s.addStep("the verdict is written", func(w *laneWorld) {
			w.monitor = laneMonitor{}
			row := &w.rows[m.row]
			switch {
			case m.verdict == isOurs && w.isOpen(m.row):
				w.changeVersion(m.row)
				row.state = committed
			case !owned(w, m.row) || !m.rowIsUnchanged:
			case m.verdict == sendAgain:
				w.changeVersion(m.row)
				row.state, row.mayNotFollow = waiting, true
			case m.verdict == neverOurs && row.keptNonce == m.seenNonce:
				w.changeVersion(m.row)
				row.lostSlotToForeign = row.lostSlotToForeign || row.keptNonce != noNumber && w.deepOwners[row.keptNonce] >= foreignOwner
				row.state, row.keptNonce, row.mayNotFollow = waiting, noNumber, true
				if row.isWithdrawn {
					row.state = rejected
				}
			}
		})
	}
}

func (s *laneSteps) laneVerdict() verdict {
	m := s.world.monitor
	if m.seenNonce == noNumber {
		return neverOurs
	}
	last := s.world.deepOwners[m.seenNonce]
	unfinal := last == noNumber && s.world.deepCount() == m.seenNonce
	if unfinal {
		last = s.world.headOwner
	}
	switch {
	case last == noNumber:
		return sendAgain
	case last == m.row && !unfinal:
		return isOurs
	case last != m.row && (!unfinal || s.givesSlotUpForShallowBlock):
		return neverOurs
	}
	return notAsked
}

func searchLane(r laneRules, b bounds) searchResult {
	first := newLaneWorld()
	first.mustKeepOrder = !r.keepsUnfenced && !r.givesSlotUpForShallowBlock
	return explore(first, (*laneWorld).brokenPromise, (*laneWorld).allFinal, func(w laneWorld, emit func(laneWorld, string)) {
		s := laneSteps{laneRules: r, bounds: b, world: w, emit: emit}
		s.addAllSteps()
	})
}

// With three payments of an account under way, each is executed at most once, and the lane always
// comes to an end. They are executed in their order, except a payment whose nonce another wallet
// has used, and one that a person has given up: these may come after later ones.
func TestLane(t *testing.T) {
	all := []bounds{{processes: 1, faults: 1}, {processes: 2, faults: 0}}
	if *runsLargeSearches {
		all = append(all, bounds{processes: 2, faults: 1}, bounds{processes: 1, faults: 2})
	}
	for _, b := range all {
		t.Run(fmt.Sprintf("%d processes/%d faults", b.processes, b.faults), func(t *testing.T) {
			t.Parallel()
			f := searchLane(laneRules{resentWaitsForLater: b.processes > 1 && !*runsLargeSearches}, b)
			require.Empty(t, f.brokenPromise, f)
			assert.Positive(t, f.finalCount, "else nothing was tried")
			t.Logf("%d worlds, %d of them at their end", f.worldCount, f.finalCount)
		})
	}
}

// Without any one of the lane's rules, the search finds a wrong outcome.
func TestBrokenLane(t *testing.T) {
	const twice, refused, order, jam = "executed twice", "rejected, and executed", "executed in another order", "no end can be reached"
	for name, c := range map[string]struct {
		laneRules
		bounds
		wrong string
	}{
		"bytes are kept whatever the row says":                  {laneRules{keepsUnfenced: true}, bounds{2, 2}, refused},
		"a slot is given up for a block that may be taken back": {laneRules{givesSlotUpForShallowBlock: true}, bounds{1, 2}, twice},
		"the node counts":                 {laneRules{takesNonceOfNode: true}, bounds{1, 1}, order},
		"a nonce follows somebody else's": {laneRules{followsShallowForeignNonce: true}, bounds{1, 2}, order},
		"a run goes on behind a failure":  {laneRules{runContinuesAfterFailure: true}, bounds{1, 1}, order},
		"a gap stays":                     {laneRules{leavesGapsOpen: true}, bounds{1, 1}, jam},
		"the lane is not looked at":       {laneRules{ignoresLaneNonces: true}, bounds{1, 0}, order},
		"a run is in the order of age":    {laneRules{ordersRunByAge: true, noPersonActs: true}, bounds{1, 2}, jam},
		"a withdrawal is assumed":         {laneRules{endsOnAcceptedClosing: true}, bounds{1, 1}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.resentWaitsForLater = true
			f := searchLane(c.laneRules, c.bounds)
			require.Equal(t, c.wrong, f.brokenPromise, "%d worlds", f.worldCount)
			t.Log(f)
		})
	}
}
