package splintertest

import (
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Results of a batch in an [Entry].
const (
	wordRejected   = "Rejected"
	wordAgain      = "Again"
	wordUnrecorded = "Unrecorded"
)

// propose executes a batch and runs two-phase commit. The caller holds the lock; propose
// releases it while it rests.
func (n *Network) propose(s *service, b *submitted) {
	life := s.node.life
	if s.dead || b.poison(&n.o) {
		n.stall(s, b, life)
		return
	}
	s.runs[b.id]++
	x := execute(s.state, b)
	if x.err != nil { // the peers are not notified
		n.invalid(s, b, x)
		n.executed(s, b, wordInvalid)
		n.rest(life, n.o.CommitInterval)
		return
	}
	n.evicted(s, s.seen.set(b, wordValid))
	if b.fault.Reject || s.proposals > 0 { // a stale hash, when two nodes propose at once
		for _, p := range s.services {
			n.evicted(p, p.seen.set(b, wordValid))
		}
		n.executed(s, b, wordRejected)
		n.rest(life, n.o.CommitInterval)
		return
	}
	s.proposals++
	n.coordinate(s, b, x.next, life)
	s.proposals--
}

// coordinate asks the other services of the circuit, and commits or rolls back. life is the
// life of the proposing node.
func (n *Network) coordinate(s *service, b *submitted, next state, life <-chan struct{}) {
	begun, c := time.Now(), s.services[0]
	if !n.rest(life, n.o.CommitInterval/2) {
		n.dropped(s, b, "restart")
		return
	}
	asked := n.ask(s, b, next)
	n.crash(b, CrashProposed, c)
	wait := n.o.CommitInterval - n.o.CommitInterval/2
	if asked == silent { // the coordinator waits in vain
		wait = n.o.CoordinatorTimeout - time.Since(begun)
	}
	if !n.rest(life, wait) {
		n.dropped(s, b, "restart")
		return
	}
	if asked != verified || (c != s && c.awaits != b.id) {
		n.rollback(s.circuit)
		n.executed(s, b, wordRejected)
		return
	}
	n.decide(s, c, b, begun)
}

// The answers of the other services.
type verdict uint8

const (
	verified verdict = iota
	mismatch         // a different state: rolled back at once
	silent           // no answer: rolled back after the coordinator's timeout
)

// ask makes every other service of the circuit execute a proposal.
func (n *Network) ask(s *service, b *submitted, next state) verdict {
	out := verified
	for _, p := range s.services {
		if p == s {
			continue
		}
		if !p.node.up || p.dead || p.awaits != "" { // awaits: the end of an earlier proposal, which never comes
			out = max(out, silent)
			continue
		}
		x := execute(p.state, b)
		if x.err != nil {
			n.invalid(p, b, x)
			out = max(out, silent)
			continue
		}
		n.evicted(p, p.seen.set(b, wordValid))
		p.awaits = b.id
		if !maps.Equal(x.next, next) {
			out = max(out, mismatch)
		}
	}
	return out
}

// decide is the end of two-phase commit: the coordinator commits, then the others do. A crash
// of either in between leaves different states for good.
func (n *Network) decide(s, c *service, b *submitted, begun time.Time) {
	life := c.node.life
	c.awaits = ""
	switch n.commit(c, b) {
	case crashed:
		n.executed(s, b, wordUnrecorded)
		n.compare(s.circuit)
		return
	case unrecorded:
		// The coordinator fails before it notifies its peers, still waits for them, and rolls
		// them back after its timeout.
		n.executed(s, b, wordAgain)
		n.compare(s.circuit)
		if n.rest(life, n.o.CoordinatorTimeout-time.Since(begun)) {
			n.rollback(s.circuit)
		}
		return
	}
	n.executed(s, b, wordCommitted)
	n.crash(b, CrashPeer, s.services[len(s.services)-1])
	if n.crash(b, CrashCommitted, c) || (n.o.ApplyDelay > 0 && !n.rest(life, n.o.ApplyDelay)) {
		n.compare(s.circuit) // the others are not notified
		return
	}
	for _, p := range s.services {
		if p == c || (p != s && p.awaits != b.id) { // it restarted, and does not know the proposal
			continue
		}
		if p.awaits = ""; n.commit(p, b) == unrecorded {
			p.awaits = b.id // it goes on waiting
		}
	}
	n.compare(s.circuit)
}

// rollback ends a proposal without an effect. The batch stays Valid in the services'
// histories.
func (n *Network) rollback(c *circuit) {
	for _, p := range c.services {
		p.awaits = ""
	}
}

// stall is the effect of a batch that no handler answers: it holds the locks that requests
// need.
func (n *Network) stall(s *service, b *submitted, life <-chan struct{}) {
	s.stalled = true
	n.note(Entry{Kind: Stalled, Service: s.name(), Batches: []batch.ID{b.id}})
	if !n.rest(life, n.o.PoisonStall) {
		n.dropped(s, b, "restart")
		return
	}
	why := "no handler"
	if s.dead {
		why = "sending on a closed channel"
	}
	s.stalled, s.dead = false, s.dead || b.breaks()
	n.dropped(s, b, why)
}

func (n *Network) invalid(s *service, b *submitted, x execution) {
	n.evicted(s, s.seen.set(b, wordInvalid))
	if k := s.seen.entries[b.id]; k != nil {
		k.failed, k.message = b.txs[x.failed].id, x.err.Error()
	}
}

func (n *Network) executed(s *service, b *submitted, word string) {
	n.note(Entry{Kind: Executed, Service: s.name(), Batches: []batch.ID{b.id}, Try: s.runs[b.id], Word: word})
}

func (n *Network) dropped(s *service, b *submitted, why string) {
	n.note(Entry{Kind: Dropped, Service: s.name(), Batches: []batch.ID{b.id}, Word: why})
}

// poison reports whether the batch's execution gets no answer.
func (b *submitted) poison(o *Options) bool {
	return len(b.txs) == 0 || b.breaks() || slices.ContainsFunc(b.txs, func(t transaction) bool {
		// Sabre 0.8 has a handler for these versions only.
		served := t.family != Family || slices.Contains([]string{"0.5", "0.6", "1"}, t.version)
		return !served || !slices.Contains(o.Families, t.family) || t.word() == wordTrap
	})
}

// breaks reports whether the batch also ends the executor's thread.
func (b *submitted) breaks() bool {
	return slices.ContainsFunc(b.txs, func(t transaction) bool { return t.word() == wordNoWasm })
}
