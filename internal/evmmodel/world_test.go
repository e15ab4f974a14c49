package evmmodel

import (
	"cmp"
	"slices"
)

// rules are the rules of the processes. Each field but given breaks one of them.
type rules struct {
	given bool // the nonce is part of the payload

	// Of nonces that the client chooses:
	keepsUnfenced    bool // the row keeps bytes without reading its present bytes
	postsUnkept      bool // bytes are sent before they are kept
	nonceAtTheHead   bool // a nonce follows a block that may be taken back
	voidsUnfinal     bool // a slot is given up for a block that may be taken back
	voidsUnseen      bool // a slot is given up since its receipt is missing, while its nonce is used
	voidsInDoubt     bool // a slot is given up whatever the chain says
	voidsOthersSlots bool // a process gives up another slot than it saw
	// Of given nonces:
	rejectsUnfinal bool // another's transaction in a block that may be taken back ends the payment
	rejectsUnseen  bool // a missing receipt does, while the nonce is used
	rejectsUsed    bool // "nonce too low" does
	// Of both:
	commitsUnfinal bool // a receipt in a block that may be taken back is a commit
}

const (
	maxProcesses = 3
	maxFaults    = 3
	maxNonces    = maxFaults + 2 // each foreign transaction is a fault
	entries      = 2             // bytes of one slot: the first, and some with a higher fee
)

// bounds of a search.
type bounds struct{ processes, faults int }

// owner is whose transaction used a nonce.
type owner int8

const (
	nobody owner = iota
	ours
	theirs
)

// standing is the state of the row.
type standing int8

const (
	waiting standing = iota
	submitting
	pending
	committed
	rejected
)

// kept is the content of a row: a slot's nonce, and how many of its bytes. No bytes mean no slot.
type kept struct{ nonce, n int8 }

// stage is how far a process is with its claim.
type stage int8

const (
	idle stage = iota
	claimed
	signed
	mayPost
	posted
)

// process has a claim, or had one.
type process struct {
	stage   stage
	current bool // the row still has the version of its claim
	saw     kept // in the claim
	nonce   int8 // of what it signed
	entry   int8
}

// verdict is a monitor's conclusion.
type verdict int8

const (
	unasked verdict = iota
	again
	isOurs
	isDead // never ours, or never sent
)

// monitor has read the row, and then asked the chain. Of all processes at most one does so at a
// time: two would write by the same version.
type monitor struct {
	on      bool
	current bool
	saw     kept
	verdict verdict
}

// world is a state of everything. Versions of the row are not counted: who holds the present one
// is all that matters.
type world struct {
	row     standing
	keeps   kept
	expired bool // the claim is over; its holder may not know
	all     [maxProcesses]process
	monitor monitor

	sent   [maxNonces]bool // some bytes with this nonce have left, and may be mined at any time
	deep   [maxNonces]owner
	head   owner // of the block on top of the deep ones, if there is one
	faults int8  // that have happened
}

// height is the number of nonces that are used in deep blocks.
func (w *world) height() int8 {
	for n, o := range w.deep {
		if o == nobody {
			return int8(n)
		}
	}
	return maxNonces
}

// executions is how often the payment has been made, on the chain as it is.
func (w *world) executions() (n int) {
	for _, o := range w.deep {
		if o == ours {
			n++
		}
	}
	if w.head == ours {
		n++
	}
	return n
}

// moved gives the row a new version.
func (w *world) moved() {
	w.monitor.current = false
	for i := range w.all {
		w.all[i].current = false
	}
}

func (w *world) final() bool { return w.row == committed || w.row == rejected }

// sort makes worlds equal that differ in the names of their processes.
func (w *world) sort() {
	flag := func(b bool) int8 {
		if b {
			return 1
		}
		return 0
	}
	slices.SortFunc(w.all[:], func(a, b process) int {
		return cmp.Or(cmp.Compare(b.stage, a.stage), cmp.Compare(flag(a.current), flag(b.current)), cmp.Compare(a.nonce, b.nonce),
			cmp.Compare(a.entry, b.entry), cmp.Compare(a.saw.nonce, b.saw.nonce), cmp.Compare(a.saw.n, b.saw.n))
	})
}

// steps goes through all that can happen next.
type steps struct {
	rules
	bounds
	w    world
	emit func(world, string)
}

// to is a step to a changed world.
func (s *steps) to(what string, change func(w *world)) {
	w := s.w
	change(&w)
	w.sort()
	s.emit(w, what)
}

// fault is a step that may happen a few times only.
func (s *steps) fault(what string, change func(w *world)) {
	if int(s.w.faults) < s.bounds.faults {
		s.to(what, func(w *world) { w.faults++; change(w) })
	}
}

func (s *steps) next() {
	s.chain()
	for i := range s.processes {
		s.process(i)
	}
	if s.w.row == submitting && !s.w.expired {
		s.to("the claim expires", func(w *world) { w.expired = true }) // which gives the row no new version
	}
	s.monitor()
}

func (s *steps) chain() {
	n := s.w.height()
	if s.w.head != nobody {
		s.to("a block is deep", func(w *world) { w.deep[n], w.head = w.head, nobody })
		s.fault("a block is taken back", func(w *world) { w.head = nobody })
		return
	}
	if n == maxNonces {
		return
	}
	if s.w.sent[n] {
		s.to("ours is mined", func(w *world) { w.head = ours })
	}
	s.fault("theirs is mined", func(w *world) { w.head = theirs })
}

func (s *steps) process(i int) {
	p := s.w.all[i]
	if p.stage == idle {
		if s.w.row == waiting {
			s.to("a claim", func(w *world) {
				w.moved()
				w.row, w.expired = submitting, false
				w.all[i] = process{stage: claimed, current: true, saw: w.keeps}
			})
		}
		return
	}
	s.fault("a process dies", func(w *world) { w.all[i] = process{} })
	switch p.stage {
	case claimed:
		s.sign(i)
	case signed:
		s.keep(i)
	case mayPost: // however long it was frozen
		s.to("bytes are sent", func(w *world) {
			used := w.height() > p.nonce || w.height() == p.nonce && w.head != nobody
			w.sent[p.nonce] = true
			w.all[i].stage = posted
			if s.rejectsUsed && used && p.current {
				w.moved()
				w.row, w.all[i] = rejected, process{}
			}
		})
	case posted:
		s.to("the acceptance is recorded", func(w *world) {
			if w.row == submitting && p.current {
				if s.postsUnkept && w.keeps.n == 0 {
					w.keeps = kept{p.nonce, p.entry + 1}
				}
				w.moved()
				w.row = pending
			}
			w.all[i] = process{}
		})
	}
}

// sign signs: the kept slot, perhaps with a higher fee, or one with a nonce that the chain has not
// used. The node that is asked may be a block behind.
func (s *steps) sign(i int) {
	saw := s.w.all[i].saw
	sign := func(nonce, entry int8, to stage) {
		s.to("bytes are signed", func(w *world) {
			w.all[i].nonce, w.all[i].entry, w.all[i].stage = nonce, entry, to
		})
	}
	switch {
	case s.given:
		sign(0, 0, mayPost)
	case saw.n > 0:
		sign(saw.nonce, saw.n-1, mayPost)
		if saw.n < entries {
			sign(saw.nonce, saw.n, signed)
		}
	default:
		n := s.w.height()
		if s.nonceAtTheHead && s.w.head != nobody {
			n++
		}
		for nonce := max(0, n-1); nonce <= n && nonce < maxNonces; nonce++ {
			sign(nonce, 0, signed)
		}
	}
}

func (s *steps) keep(i int) {
	p := s.w.all[i]
	s.to("bytes are kept", func(w *world) {
		may := w.row == submitting && p.current && w.keeps == p.saw
		switch {
		case s.postsUnkept:
			w.all[i].stage = mayPost
		case may || s.keepsUnfenced:
			w.keeps = kept{p.nonce, p.entry + 1}
			w.all[i].stage = mayPost
		default:
			w.all[i] = process{}
		}
	})
}

// monitor reads the row, asks the chain, and writes, with time between.
func (s *steps) monitor() {
	m := s.w.monitor
	owned := s.w.row == pending || s.w.row == submitting && s.w.expired
	switch {
	case !m.on:
		if owned {
			s.to("the row is read", func(w *world) { w.monitor = monitor{on: true, current: true, saw: w.keeps} })
		}
	case m.verdict == unasked:
		for _, v := range s.verdicts() {
			s.to("the chain is asked", func(w *world) {
				if w.monitor.verdict = v; v == unasked {
					w.monitor = monitor{}
				}
			})
		}
	default:
		s.to("the verdict is written", func(w *world) {
			w.monitor = monitor{}
			switch {
			case m.verdict == isOurs && !w.final(): // a fact, whatever has moved
				w.moved()
				w.row = committed
			case !owned || !m.current:
			case m.verdict == again:
				w.moved()
				w.row = waiting
			case m.verdict == isDead && s.given:
				w.moved()
				w.row = rejected
			case m.verdict == isDead && (w.keeps == m.saw || s.voidsOthersSlots):
				w.moved()
				w.row, w.keeps = waiting, kept{}
			}
		})
	}
}

// verdicts are those to which a monitor may come now; unasked means that it asks again later.
func (s *steps) verdicts() (all []verdict) {
	n, m := int8(0), s.w.monitor
	if !s.given {
		if n = m.saw.nonce; m.saw.n == 0 {
			return []verdict{isDead} // nothing was kept, so nothing was sent
		}
	}
	last := s.w.deep[n]
	unfinal := last == nobody && s.w.height() == n
	if unfinal {
		last = s.w.head
	}
	switch {
	case last == nobody:
		all = append(all, again)
	case last == ours && (!unfinal || s.commitsUnfinal):
		all = append(all, isOurs)
	case last == theirs && (!unfinal || s.voidsUnfinal || s.rejectsUnfinal):
		all = append(all, isDead)
	default:
		all = append(all, unasked)
	}
	if s.voidsInDoubt || last == ours && (s.voidsUnseen || s.rejectsUnseen) {
		all = append(all, isDead)
	}
	return all
}
