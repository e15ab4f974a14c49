package splintertest

import (
	"context"
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// coordinator returns who queues what comes in at s.
func (s *service) coordinator() *service {
	if s.Version == 1 {
		return s
	}
	return s.services[0]
}

// take marks a batch in the history and queues it where it is proposed. The lock is held.
func (n *Network) take(s *service, b *submitted) {
	b.fault = n.o.Faults.batch(b.id, n.tries[OpSubmit][b.id])
	n.evicted(s, s.seen.add(b))
	n.note(Entry{Kind: Accepted, Service: s.name(), Batches: []batch.ID{b.id}})
	if b.fault.Evict {
		n.evicted(s, s.seen.evict(b.id))
	}
	if b.fault.Lose { // the forwarding message did not arrive
		n.note(Entry{Kind: Dropped, Service: s.name(), Batches: []batch.ID{b.id}, Word: "lost"})
		return
	}
	c := s.coordinator()
	if c != s {
		n.evicted(c, c.seen.add(b))
	}
	c.queue = append(c.queue, b)
	n.pressure(c)
	n.wake()
}

func (n *Network) evicted(s *service, ids []batch.ID) {
	if len(ids) > 0 {
		n.note(Entry{Kind: Evicted, Service: s.name(), Batches: ids})
	}
}

// pressure tells the peers when the coordinator's queue is full, or no longer (C7).
func (n *Network) pressure(c *service) {
	if c.Version == 1 {
		return
	}
	switch {
	case len(c.queue) >= n.o.QueueStop:
		for _, s := range c.services {
			s.stop = true
		}
	case len(c.queue) < n.o.QueueResume && c.stop:
		for _, s := range c.services {
			if s == c || !n.o.Faults.losesResume() {
				s.stop = false
			}
		}
	}
}

// run proposes what is queued at s, one at a time, until the network is closed.
func (n *Network) run(s *service) {
	for {
		if n.await(context.Background(), nil, func() bool { return len(s.queue) > 0 }) != nil {
			return
		}
		b := s.queue[0]
		s.queue = s.queue[1:]
		n.pressure(s)
		restart := s.restart
		next := n.propose(s, b)
		n.wake()
		n.mu.Unlock()
		switch next {
		case poisoned:
			n.pause(n.o.PoisonStall, restart)
		default:
			n.pause(n.o.CommitInterval, restart)
		}
		n.mu.Lock()
		select {
		case <-restart: // the proposal died with its node
			if next == proposed {
				s.proposals--
				n.note(Entry{Kind: Dropped, Service: s.name(), Batches: []batch.ID{b.id}, Word: "restart"})
			}
		case <-n.closed:
		default:
			n.finish(s, b, next)
		}
		n.wake()
		n.mu.Unlock()
	}
}

type proposal uint8

const (
	failed   proposal = iota
	poisoned          // no handler serves it
	proposed          // executed here, waiting for two-phase commit
	rejected          // rolled back, and Valid for ever
)

// propose executes a batch. The lock is held.
func (n *Network) propose(s *service, b *submitted) proposal {
	if len(b.txs) == 0 || slices.ContainsFunc(b.txs, func(t transaction) bool { return !slices.Contains(n.o.Families, t.family) }) {
		s.stalled = true
		return poisoned
	}
	s.runs[b.id]++
	if _, at, err := execute(s.state, b); err != nil {
		n.evicted(s, s.seen.set(b, wordInvalid)) // and nobody else is told (C4)
		if k := s.seen.entries[b.id]; k != nil {
			k.failed, k.message = b.txs[at].id, err.Error()
		}
		n.executed(s, b, wordInvalid)
		return failed
	}
	for _, peer := range s.services {
		n.evicted(peer, peer.seen.set(b, wordValid))
	}
	if b.fault.Reject || s.proposals > 0 { // a stale hash, where two nodes propose at once
		n.executed(s, b, "Rejected")
		return rejected
	}
	s.proposals++
	return proposed
}

// finish ends what propose began. The lock is held.
func (n *Network) finish(s *service, b *submitted, p proposal) {
	switch p {
	case poisoned:
		s.stalled = false
		n.note(Entry{Kind: Dropped, Service: s.name(), Batches: []batch.ID{b.id}, Word: "no handler"})
	case proposed:
		s.proposals--
		n.commit(s, b)
	}
}

func (n *Network) commit(s *service, b *submitted) {
	next, _, err := execute(s.state, b)
	if err != nil { // something else was committed meanwhile
		n.executed(s, b, "Rejected")
		return
	}
	s.state = next
	s.executed = append(s.executed, b.id)
	known := map[string]bool{}
	for _, r := range s.receipts {
		known[r.id] = true
	}
	if slices.ContainsFunc(b.ids, func(id string) bool { return known[id] }) {
		// The state root is written, the receipts are not, the status stays Valid (C5).
		n.executed(s, b, "Again")
		return
	}
	n.executed(s, b, wordCommitted)
	for _, peer := range s.services {
		for _, t := range b.txs {
			peer.receipts = append(peer.receipts, receipt{id: t.id, address: t.outputs})
			n.publish(peer, peer.receipts[len(peer.receipts)-1])
		}
		n.evicted(peer, peer.seen.set(b, wordCommitted))
	}
}

func (n *Network) executed(s *service, b *submitted, word string) {
	n.note(Entry{Kind: Executed, Service: s.name(), Batches: []batch.ID{b.id}, Try: s.runs[b.id], Word: word})
}
