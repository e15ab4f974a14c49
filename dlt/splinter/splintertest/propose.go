package splintertest

import (
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Results of an execution in an [Entry].
const (
	wordRejected   = "Rejected"
	wordAgain      = "Again"
	wordUnrecorded = "Unrecorded"
)

// propose executes a batch and runs two-phase commit. The caller holds the lock, which propose
// releases while it waits.
func (n *Network) propose(s *service, b *submitted) {
	life := s.node.processEnd
	if s.isExecutorDead || b.isPoison(&n.options) {
		n.stall(s, b, life)
		return
	}
	s.executionCounts[b.id]++
	x := execute(s.state, b)
	if x.err != nil { // the peers do not get an invalid batch
		n.noteInvalid(s, b, x)
		n.noteExecuted(s, b, wordInvalid)
		n.sleepUnlocked(life, n.options.CommitInterval)
		return
	}
	n.noteEvicted(s, s.history.setWord(b, wordValid))
	if b.fault.Reject || s.openProposals > 0 { // with two proposals at once, this one has an old hash
		for _, p := range s.services {
			n.noteEvicted(p, p.history.setWord(b, wordValid))
		}
		n.noteExecuted(s, b, wordRejected)
		n.sleepUnlocked(life, n.options.CommitInterval)
		return
	}
	s.openProposals++
	n.coordinate(s, b, x.next, life)
	s.openProposals--
}

// coordinate asks the other services of the circuit, and then commits or rolls back. life ends
// with the proposing node.
func (n *Network) coordinate(s *service, b *submitted, next state, life <-chan struct{}) {
	begun, c := time.Now(), s.services[0]
	if !n.sleepUnlocked(life, n.options.CommitInterval/2) {
		n.noteDropped(s, b, "restart")
		return
	}
	asked := n.askPeers(s, b, next)
	n.crash(b, CrashAfterProposal, c)
	wait := n.options.CommitInterval - n.options.CommitInterval/2
	if asked == peerSilent { // the coordinator waits until its timeout
		wait = n.options.CoordinatorTimeout - time.Since(begun)
	}
	if !n.sleepUnlocked(life, wait) {
		n.noteDropped(s, b, "restart")
		return
	}
	if asked != peerVerified || (c != s && c.openProposal != b.id) {
		n.rollback(s.circuit)
		n.noteExecuted(s, b, wordRejected)
		return
	}
	n.finishCommit(s, c, b, begun)
}

// The answers of the other services.
type peerAnswer uint8

const (
	peerVerified peerAnswer = iota
	peerMismatch            // a different state; rolled back at once
	peerSilent              // no answer; rolled back after the coordinator's timeout
)

// askPeers makes every other service of the circuit execute a proposal, and returns their common
// answer.
func (n *Network) askPeers(s *service, b *submitted, next state) peerAnswer {
	out := peerVerified
	for _, p := range s.services {
		if p == s {
			continue
		}
		if !p.node.isUp || p.isExecutorDead || p.openProposal != "" { // it is down, or waits for the end of an earlier proposal, which never comes
			out = max(out, peerSilent)
			continue
		}
		x := execute(p.state, b)
		if x.err != nil {
			n.noteInvalid(p, b, x)
			out = max(out, peerSilent)
			continue
		}
		n.noteEvicted(p, p.history.setWord(b, wordValid))
		p.openProposal = b.id
		if !maps.Equal(x.next, next) {
			out = max(out, peerMismatch)
		}
	}
	return out
}

// finishCommit ends a two-phase commit: first the coordinator commits, and then the others do. A
// crash of one of them in between leaves different states for good.
func (n *Network) finishCommit(s, c *service, b *submitted, begun time.Time) {
	life := c.node.processEnd
	c.openProposal = ""
	switch n.commit(c, b) {
	case commitCrashed:
		n.noteExecuted(s, b, wordUnrecorded)
		n.compareStates(s.circuit)
		return
	case commitUnrecorded:
		// The coordinator fails before it notifies its peers, still waits for them, and rolls them
		// back after its timeout.
		n.noteExecuted(s, b, wordAgain)
		n.compareStates(s.circuit)
		if n.sleepUnlocked(life, n.options.CoordinatorTimeout-time.Since(begun)) {
			n.rollback(s.circuit)
		}
		return
	}
	n.noteExecuted(s, b, wordCommitted)
	n.crash(b, CrashPeerBeforeCommit, s.services[len(s.services)-1])
	if n.crash(b, CrashAfterCommit, c) || (n.options.ApplyDelay > 0 && !n.sleepUnlocked(life, n.options.ApplyDelay)) {
		n.compareStates(s.circuit) // the others are not notified
		return
	}
	for _, p := range s.services {
		if p == c || (p != s && p.openProposal != b.id) { // it was restarted, and does not know the proposal
			continue
		}
		if p.openProposal = ""; n.commit(p, b) == commitUnrecorded {
			p.openProposal = b.id // it goes on waiting for the end of the proposal
		}
	}
	n.compareStates(s.circuit)
}

// rollback ends a proposal without an effect. The batch stays Valid in the services'
// histories.
func (n *Network) rollback(c *circuit) {
	for _, p := range c.services {
		p.openProposal = ""
	}
}

// stall has the effect of a batch to which no handler answers: it holds the locks that requests
// need.
func (n *Network) stall(s *service, b *submitted, life <-chan struct{}) {
	s.isStalled = true
	n.note(Entry{Kind: Stalled, Service: s.name(), Batches: []batch.ID{b.id}})
	if !n.sleepUnlocked(life, n.options.UnservedHold) {
		n.noteDropped(s, b, "restart")
		return
	}
	why := "no handler"
	if s.isExecutorDead {
		why = "sending on a closed channel"
	}
	s.isStalled, s.isExecutorDead = false, s.isExecutorDead || b.endsExecutor()
	n.noteDropped(s, b, why)
}

func (n *Network) noteInvalid(s *service, b *submitted, x execution) {
	n.noteEvicted(s, s.history.setWord(b, wordInvalid))
	if k := s.history.entries[b.id]; k != nil {
		k.failedTransaction, k.message = b.txs[x.failedIndex].id, x.err.Error()
	}
}

func (n *Network) noteExecuted(s *service, b *submitted, word string) {
	n.note(Entry{Kind: Executed, Service: s.name(), Batches: []batch.ID{b.id}, Try: s.executionCounts[b.id], Word: word})
}

func (n *Network) noteDropped(s *service, b *submitted, why string) {
	n.note(Entry{Kind: Dropped, Service: s.name(), Batches: []batch.ID{b.id}, Word: why})
}

// isPoison reports whether the batch's execution never gets an answer.
func (b *submitted) isPoison(o *Options) bool {
	return len(b.txs) == 0 || b.endsExecutor() || slices.ContainsFunc(b.txs, func(t transaction) bool {
		// Sabre 0.8 has a handler for these versions only.
		served := t.family != Family || slices.Contains([]string{"0.5", "0.6", "1"}, t.version)
		return !served || !slices.Contains(o.Families, t.family) || t.command() == wordTrap
	})
}

// endsExecutor reports whether the batch is poison that also ends the executor's thread.
func (b *submitted) endsExecutor() bool {
	return slices.ContainsFunc(b.txs, func(t transaction) bool { return t.command() == wordNoWasm })
}
