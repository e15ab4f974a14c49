package evmmodel

import (
	"cmp"
	"slices"
)

// brokenRules are the rules of the processes. Each field that is true, except nonceIsGiven, breaks
// a rule.
type brokenRules struct {
	nonceIsGiven bool // the payload has the nonce

	// If the client chooses the nonce:
	keepsUnfenced                bool // bytes are stored without a test of the row's present bytes
	postsUnkept                  bool // bytes are sent before they are stored
	takesNonceAboveHead          bool // a nonce follows a block that may be taken back
	givesSlotUpForShallowBlock   bool // a slot is given up because of a block that may be taken back
	givesSlotUpForMissingReceipt bool // a slot is given up because its receipt is missing, while its nonce is used
	givesSlotUpInDoubt           bool // a slot is given up whatever the chain says
	givesUnseenSlotUp            bool // a process gives a slot up that it has not seen
	// If the payload has the nonce:
	rejectsForShallowBlock   bool // another transaction in a block that may be taken back ends the payment
	rejectsForMissingReceipt bool // a missing receipt ends the payment, while the nonce is used
	rejectsForUsedNonce      bool // "nonce too low" ends the payment
	// In both cases:
	commitsShallowBlock bool // a receipt in a block that may be taken back is a commit
}

const (
	maxProcesses = 3
	maxFaults    = 3
	maxNonces    = maxFaults + 2 // each foreign transaction is a fault
	bytesPerSlot = 2             // the first bytes of a slot, and some with a higher fee
)

// bounds are the limits of a search.
type bounds struct{ processes, faults int }

// owner says whose transaction used a nonce.
type owner int8

const (
	noOwner owner = iota
	ownedByUs
	ownedByOthers
)

// rowState is the state of the row.
type rowState int8

const (
	waiting rowState = iota
	submitting
	pending
	committed
	rejected
)

// keptSlot is the content of a row: a slot's nonce, and how many byte sequences the slot has. 0
// means that there is no slot.
type keptSlot struct{ nonce, byteVersions int8 }

// claimStage says how far a process is with its claim.
type claimStage int8

const (
	stageIdle claimStage = iota
	stageClaimed
	stageSigned
	stageMayPost
	stagePosted
)

// claimingProcess is a process that has a claim, or had one.
type claimingProcess struct {
	stage             claimStage
	rowIsUnchanged    bool     // the row still has the version of the claim
	seenSlot          keptSlot // the slot that the claim saw
	signedNonce       int8     // the nonce that the process has signed
	signedByteVersion int8
}

// verdict is a monitor's conclusion.
type verdict int8

const (
	notAsked verdict = iota
	sendAgain
	isOurs
	neverOurs // the nonce is another transaction's for good, or nothing was sent
)

// monitor is a monitor that has read the row and then asks the chain. At most one of all processes
// does so at a time, because two would write with the same version.
type monitor struct {
	isAsking       bool
	rowIsUnchanged bool
	seenSlot       keptSlot
	verdict        verdict
}

// world is one state of everything. It does not count the versions of the row: it only matters who
// has the present one.
type world struct {
	rowState     rowState
	keptSlot     keptSlot
	claimExpired bool // the claim has expired, which its holder may not know
	processes    [maxProcesses]claimingProcess
	monitor      monitor

	sentNonces [maxNonces]bool // bytes with this nonce were sent, and may be mined at any time
	deepOwners [maxNonces]owner
	headOwner  owner // the owner of the block on top of the deep ones, if there is one
	faultCount int8  // how many faults have happened
}

// deepCount returns how many nonces are used in deep blocks.
func (w *world) deepCount() int8 {
	for n, o := range w.deepOwners {
		if o == noOwner {
			return int8(n)
		}
	}
	return maxNonces
}

// executions returns how often the payment is executed on the present chain.
func (w *world) executions() (n int) {
	for _, o := range w.deepOwners {
		if o == ownedByUs {
			n++
		}
	}
	if w.headOwner == ownedByUs {
		n++
	}
	return n
}

// changeVersion gives the row a new version.
func (w *world) changeVersion() {
	w.monitor.rowIsUnchanged = false
	for i := range w.processes {
		w.processes[i].rowIsUnchanged = false
	}
}

func (w *world) isFinal() bool { return w.rowState == committed || w.rowState == rejected }

// sortProcesses makes worlds equal that differ only in the names of their processes.
func (w *world) sortProcesses() {
	flag := func(b bool) int8 {
		if b {
			return 1
		}
		return 0
	}
	slices.SortFunc(w.processes[:], func(a, b claimingProcess) int {
		return cmp.Or(cmp.Compare(b.stage, a.stage), cmp.Compare(flag(a.rowIsUnchanged), flag(b.rowIsUnchanged)), cmp.Compare(a.signedNonce, b.signedNonce),
			cmp.Compare(a.signedByteVersion, b.signedByteVersion), cmp.Compare(a.seenSlot.nonce, b.seenSlot.nonce), cmp.Compare(a.seenSlot.byteVersions, b.seenSlot.byteVersions))
	})
}

// stepMaker adds all steps that can happen next.
type stepMaker struct {
	brokenRules
	bounds
	world world
	emit  func(world, string)
}

// addStep adds a step to a changed world.
func (s *stepMaker) addStep(what string, change func(w *world)) {
	w := s.world
	change(&w)
	w.sortProcesses()
	s.emit(w, what)
}

// addFault adds a step that may happen only a limited number of times.
func (s *stepMaker) addFault(what string, change func(w *world)) {
	if int(s.world.faultCount) < s.bounds.faults {
		s.addStep(what, func(w *world) { w.faultCount++; change(w) })
	}
}

func (s *stepMaker) addAllSteps() {
	s.addChainSteps()
	for i := range s.processes {
		s.addProcessSteps(i)
	}
	if s.world.rowState == submitting && !s.world.claimExpired {
		s.addStep("the claim expires", func(w *world) { w.claimExpired = true }) // the row gets no new version
	}
	s.addMonitorSteps()
}

func (s *stepMaker) addChainSteps() {
	n := s.world.deepCount()
	if s.world.headOwner != noOwner {
		s.addStep("a block is deep", func(w *world) { w.deepOwners[n], w.headOwner = w.headOwner, noOwner })
		s.addFault("a block is taken back", func(w *world) { w.headOwner = noOwner })
		return
	}
	if n == maxNonces {
		return
	}
	if s.world.sentNonces[n] {
		s.addStep("ours is mined", func(w *world) { w.headOwner = ownedByUs })
	}
	s.addFault("theirs is mined", func(w *world) { w.headOwner = ownedByOthers })
}

func (s *stepMaker) addProcessSteps(i int) {
	p := s.world.processes[i]
	if p.stage == stageIdle {
		if s.world.rowState == waiting {
			s.addStep("a claim", func(w *world) {
				w.changeVersion()
				w.rowState, w.claimExpired = submitting, false
				w.processes[i] = claimingProcess{stage: stageClaimed, rowIsUnchanged: true, seenSlot: w.keptSlot}
			})
		}
		return
	}
	s.addFault("a process dies", func(w *world) { w.processes[i] = claimingProcess{} })
	switch p.stage {
	case stageClaimed:
		s.addSignSteps(i)
	case stageSigned:
		s.addKeepStep(i)
	case stageMayPost: // the process may have been frozen for any time
		s.addStep("bytes are sent", func(w *world) {
			used := w.deepCount() > p.signedNonce || w.deepCount() == p.signedNonce && w.headOwner != noOwner
			w.sentNonces[p.signedNonce] = true
			w.processes[i].stage = stagePosted
			if s.rejectsForUsedNonce && used && p.rowIsUnchanged {
				w.changeVersion()
				w.rowState, w.processes[i] = rejected, claimingProcess{}
			}
		})
	case stagePosted:
		s.addStep("the acceptance is recorded", func(w *world) {
			if w.rowState == submitting && p.rowIsUnchanged {
				if s.postsUnkept && w.keptSlot.byteVersions == 0 {
					w.keptSlot = keptSlot{p.signedNonce, p.signedByteVersion + 1}
				}
				w.changeVersion()
				w.rowState = pending
			}
			w.processes[i] = claimingProcess{}
		})
	}
}

// addSignSteps adds the steps in which a process signs the stored slot, perhaps with a higher fee,
// or a slot with a nonce that the chain has not used. The node that is asked may be a block
// behind.
func (s *stepMaker) addSignSteps(i int) {
	saw := s.world.processes[i].seenSlot
	sign := func(nonce, entry int8, to claimStage) {
		s.addStep("bytes are signed", func(w *world) {
			w.processes[i].signedNonce, w.processes[i].signedByteVersion, w.processes[i].stage = nonce, entry, to
		})
	}
	switch {
	case s.nonceIsGiven:
		sign(0, 0, stageMayPost)
	case saw.byteVersions > 0:
		sign(saw.nonce, saw.byteVersions-1, stageMayPost)
		if saw.byteVersions < bytesPerSlot {
			sign(saw.nonce, saw.byteVersions, stageSigned)
		}
	default:
		n := s.world.deepCount()
		if s.takesNonceAboveHead && s.world.headOwner != noOwner {
			n++
		}
		for nonce := max(0, n-1); nonce <= n && nonce < maxNonces; nonce++ {
			sign(nonce, 0, stageSigned)
		}
	}
}

func (s *stepMaker) addKeepStep(i int) {
	p := s.world.processes[i]
	s.addStep("bytes are kept", func(w *world) {
		may := w.rowState == submitting && p.rowIsUnchanged && w.keptSlot == p.seenSlot
		switch {
		case s.postsUnkept:
			w.processes[i].stage = stageMayPost
		case may || s.keepsUnfenced:
			w.keptSlot = keptSlot{p.signedNonce, p.signedByteVersion + 1}
			w.processes[i].stage = stageMayPost
		default:
			w.processes[i] = claimingProcess{}
		}
	})
}

// addMonitorSteps adds the steps of a monitor, which reads the row, asks the chain, and writes.
// Other steps may come in between.
func (s *stepMaker) addMonitorSteps() {
	m := s.world.monitor
	owned := s.world.rowState == pending || s.world.rowState == submitting && s.world.claimExpired
	switch {
	case !m.isAsking:
		if owned {
			s.addStep("the row is read", func(w *world) { w.monitor = monitor{isAsking: true, rowIsUnchanged: true, seenSlot: w.keptSlot} })
		}
	case m.verdict == notAsked:
		for _, v := range s.possibleVerdicts() {
			s.addStep("the chain is asked", func(w *world) {
				if w.monitor.verdict = v; v == notAsked {
					w.monitor = monitor{}
				}
			})
		}
	default:
		s.addStep("the verdict is written", func(w *world) {
			w.monitor = monitor{}
			switch {
			case m.verdict == isOurs && !w.isFinal(): // a commit is a fact, whatever has changed
				w.changeVersion()
				w.rowState = committed
			case !owned || !m.rowIsUnchanged:
			case m.verdict == sendAgain:
				w.changeVersion()
				w.rowState = waiting
			case m.verdict == neverOurs && s.nonceIsGiven:
				w.changeVersion()
				w.rowState = rejected
			case m.verdict == neverOurs && (w.keptSlot == m.seenSlot || s.givesUnseenSlotUp):
				w.changeVersion()
				w.rowState, w.keptSlot = waiting, keptSlot{}
			}
		})
	}
}

// possibleVerdicts returns the verdicts that a monitor may reach now. With unasked it asks again
// later.
func (s *stepMaker) possibleVerdicts() (all []verdict) {
	n, m := int8(0), s.world.monitor
	if !s.nonceIsGiven {
		if n = m.seenSlot.nonce; m.seenSlot.byteVersions == 0 {
			return []verdict{neverOurs} // no bytes were stored, so nothing was sent
		}
	}
	last := s.world.deepOwners[n]
	unfinal := last == noOwner && s.world.deepCount() == n
	if unfinal {
		last = s.world.headOwner
	}
	switch {
	case last == noOwner:
		all = append(all, sendAgain)
	case last == ownedByUs && (!unfinal || s.commitsShallowBlock):
		all = append(all, isOurs)
	case last == ownedByOthers && (!unfinal || s.givesSlotUpForShallowBlock || s.rejectsForShallowBlock):
		all = append(all, neverOurs)
	default:
		all = append(all, notAsked)
	}
	if s.givesSlotUpInDoubt || last == ownedByUs && (s.givesSlotUpForMissingReceipt || s.rejectsForMissingReceipt) {
		all = append(all, neverOurs)
	}
	return all
}
