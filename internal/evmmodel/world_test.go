package evmmodel

import (
	"cmp"
	"slices"
)

// brokenRules are the rules of the processes. Each field but given breaks one of them.
type brokenRules struct {
	nonceIsGiven bool // the nonce is part of the payload

	// Of nonces that the client chooses:
	keepsUnfenced                bool // the row keeps bytes without reading its present bytes
	postsUnkept                  bool // bytes are sent before they are kept
	takesNonceAboveHead          bool // a nonce follows a block that may be taken back
	givesSlotUpForShallowBlock   bool // a slot is given up for a block that may be taken back
	givesSlotUpForMissingReceipt bool // a slot is given up since its receipt is missing, while its nonce is used
	givesSlotUpInDoubt           bool // a slot is given up whatever the chain says
	givesUnseenSlotUp            bool // a process gives up another slot than it saw
	// Of given nonces:
	rejectsForShallowBlock   bool // another's transaction in a block that may be taken back ends the payment
	rejectsForMissingReceipt bool // a missing receipt does, while the nonce is used
	rejectsForUsedNonce      bool // "nonce too low" does
	// Of both:
	commitsShallowBlock bool // a receipt in a block that may be taken back is a commit
}

const (
	maxProcesses = 3
	maxFaults    = 3
	maxNonces    = maxFaults + 2 // each foreign transaction is a fault
	bytesPerSlot = 2             // bytes of one slot: the first, and some with a higher fee
)

// bounds of a search.
type bounds struct{ processes, faults int }

// owner is whose transaction used a nonce.
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

// keptSlot is the content of a row: a slot's nonce, and how many of its bytes. No bytes mean no
// slot.
type keptSlot struct{ nonce, byteVersions int8 }

// claimStage is how far a process is with its claim.
type claimStage int8

const (
	stageIdle claimStage = iota
	stageClaimed
	stageSigned
	stageMayPost
	stagePosted
)

// claimingProcess has a claim, or had one.
type claimingProcess struct {
	stage             claimStage
	rowIsUnchanged    bool     // the row still has the version of its claim
	seenSlot          keptSlot // in the claim
	signedNonce       int8     // of what it signed
	signedByteVersion int8
}

// verdict is a monitor's conclusion.
type verdict int8

const (
	notAsked verdict = iota
	sendAgain
	isOurs
	neverOurs // never ours, or never sent
)

// monitor has read the row, and then asked the chain. Of all processes at most one does so at a
// time: two would write by the same version.
type monitor struct {
	isAsking       bool
	rowIsUnchanged bool
	seenSlot       keptSlot
	verdict        verdict
}

// world is a state of everything. Versions of the row are not counted: who holds the present one
// is all that matters.
type world struct {
	rowState     rowState
	keptSlot     keptSlot
	claimExpired bool // the claim is over; its holder may not know
	processes    [maxProcesses]claimingProcess
	monitor      monitor

	sentNonces [maxNonces]bool // some bytes with this nonce have left, and may be mined at any time
	deepOwners [maxNonces]owner
	headOwner  owner // of the block on top of the deep ones, if there is one
	faultCount int8  // that have happened
}

// deepCount is the number of nonces that are used in deep blocks.
func (w *world) deepCount() int8 {
	for n, o := range w.deepOwners {
		if o == noOwner {
			return int8(n)
		}
	}
	return maxNonces
}

// executions is how often the payment has been made, on the chain as it is.
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

// sortProcesses makes worlds equal that differ in the names of their processes.
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

// stepMaker goes through all that can happen next.
type stepMaker struct {
	brokenRules
	bounds
	world world
	emit  func(world, string)
}

// addStep is a step to a changed world.
func (s *stepMaker) addStep(what string, change func(w *world)) {
	w := s.world
	change(&w)
	w.sortProcesses()
	s.emit(w, what)
}

// addFault is a step that may happen a few times only.
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
		s.addStep("the claim expires", func(w *world) { w.claimExpired = true }) // which gives the row no new version
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
	case stageMayPost: // however long it was frozen
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

// addSignSteps signs: the kept slot, perhaps with a higher fee, or one with a nonce that the chain
// has not used. The node that is asked may be a block behind.
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

// addMonitorSteps reads the row, asks the chain, and writes, with time between.
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
			case m.verdict == isOurs && !w.isFinal(): // a fact, whatever has moved
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

// possibleVerdicts are those to which a monitor may come now; unasked means that it asks again
// later.
func (s *stepMaker) possibleVerdicts() (all []verdict) {
	n, m := int8(0), s.world.monitor
	if !s.nonceIsGiven {
		if n = m.seenSlot.nonce; m.seenSlot.byteVersions == 0 {
			return []verdict{neverOurs} // nothing was kept, so nothing was sent
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
