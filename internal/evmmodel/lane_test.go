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
	keepsUnfenced              bool // the row keeps bytes without reading its version and bytes
	givesSlotUpForShallowBlock bool // a slot is given up for a block that may be taken back
	takesNonceOfNode           bool // the next nonce is what the node counts with its pool
	followsShallowForeignNonce bool // a nonce follows somebody else's that may be taken back
	runContinuesAfterFailure   bool // the rest of a run goes on behind a payment that failed
	leavesGapsOpen             bool // nobody closes a nonce that no payment holds
	ignoresLaneNonces          bool // the nonces of the lane's other payments are not looked at
	ordersRunByAge             bool // a run is in the order of age, and not of nonces
	resentWaitsForLater        bool // what goes again waits for those behind it: it breaks nothing, and has fewer worlds
	endsOnAcceptedClosing      bool // a withdrawn payment ends once what closes its nonce was accepted
	noPersonActs               bool // no person acts: it breaks nothing, and has fewer worlds
}

const (
	paymentCount   = 3
	laneNonceCount = 6
	foreignOwner   = int8(paymentCount) // owners: 0 to 2 are payments
	closingOwner   = int8(paymentCount + 1)
	noNumber       = int8(-1)
)

// paymentRow is one payment's row.
type paymentRow struct {
	state             rowState
	keptNonce         int8 // the nonce, none for no slot
	mayNotFollow      bool // waits again, and may not follow those under way
	wasGivenUp        bool // by a person: it may still be executed
	lostSlotToForeign bool // had a slot that somebody else's transaction ended
	// isWithdrawn by a person; keepsClosing says that the slot has a transfer of nothing.
	isWithdrawn, keepsClosing bool
}

// laneProcess is a process with a run of payments, or one that had it.
type laneProcess struct {
	hasRun              bool
	run                 [paymentCount]int8 // the payments of the run, of which at to end are left
	nextInRun, endOfRun int8
	stage               claimStage
	rowIsUnchanged      [paymentCount]bool // the rows still have the versions of its claims
	keptNonces          [paymentCount]int8 // what the rows kept when they were claimed, and what it kept since
	nonce               int8
	sendsClosing        bool // what it sends closes the nonce of a withdrawn payment
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

	sentOwners [laneNonceCount]int8 // bits of owners
	deepOwners [laneNonceCount]int8
	headOwner  int8
	faultCount int8
	// mustKeepOrder says that a rule is not broken which keeps the order, too.
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

// currentPayment is the payment in hand.
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

// pendingCount is the count with a pool that has forgotten nothing.
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
		for j := range i { // those behind a payment that was given up do not wait for it
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
	if !w.processes[0].hasRun && w.processes[1].hasRun { // worlds are equal that differ in the names of processes
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
		// Also while others keep bytes: they may have kept them since Decide looked, or it is
		// withdrawn.
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

// addClaimStep takes a run as queuer.Pipelined does.
func (s *laneSteps) addClaimStep(p int) {
	accepted := int8(0)
	end := int8(0)
	var open []int8
	for i, r := range s.world.rows {
		if r.state != committed && r.state != rejected {
			open = append(open, int8(i))
		}
	}
	if !s.ordersRunByAge { // what keeps bytes goes first, in the order of nonces
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

// putBackPayment ends a run: its payment goes back, and those behind it.
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
		case !holds(&s.world) || !row.isWithdrawn || s.world.latestCount() > row.keptNonce: // or it is mined, by whomever
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
			*me = idleLaneProcess() // the claim is another's
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

// seesGap reports whether a process sees that nobody of the lane holds the next nonce.
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

// nextNonce is the next one for the payment of a process.
func (s *laneSteps) nextNonce(p int) (int8, bool) {
	if s.takesNonceOfNode {
		return s.world.latestCount(), true // of a node whose pool has forgotten
	}
	n := s.world.deepCount()
	if !s.ignoresLaneNonces {
		for { // in order
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

// With three payments of an account under way each is executed once at most, and the lane always
// comes to its end. They are executed in their order, apart from a payment that has lost its nonce
// to somebody else, and one that a person has given up: it may come behind later ones.
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

// Each rule of the lane is needed.
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
