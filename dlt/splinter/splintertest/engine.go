package splintertest

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// coordinator returns the service that queues the batches posted to s.
func (s *service) coordinator() *service {
	if s.Version == 1 {
		return s
	}
	return s.services[0]
}

// accept notes a batch in the history, and queues it at its proposer. The caller holds the lock.
func (n *Network) accept(s *service, b *submitted, late bool) {
	b.fault = n.options.Faults.drawBatch(b.id, n.triesByOperation[OpSubmit][b.id])
	n.noteEvicted(s, s.history.add(b))
	e := Entry{Kind: Accepted, Service: s.name(), Batches: []batch.ID{b.id}}
	if late {
		e.Word = "late"
	}
	n.note(e)
	if b.fault.Evict {
		n.noteEvicted(s, s.history.evict(b.id))
	}
	if b.fault.Lose { // the message to the coordinator is lost
		n.note(Entry{Kind: Dropped, Service: s.name(), Batches: []batch.ID{b.id}, Word: "lost"})
		return
	}
	c := s.coordinator()
	if c == s {
		n.enqueue(s, b)
		return
	}
	// The batch enters the coordinator's history when it is executed, not earlier.
	n.send(s, func() {
		if c.node.isUp {
			n.enqueue(c, b)
			return
		}
		n.note(Entry{Kind: Dropped, Service: s.name(), Batches: []batch.ID{b.id}, Word: "the coordinator is down"})
	})
}

// In version 2 a coordinator begins to answer 429 when its queue has queueStopLen batches, and
// stops when it has fewer than queueResumeLen.
const queueStopLen, queueResumeLen = 30, 15

func (n *Network) enqueue(c *service, b *submitted) {
	c.queuedBatches = append(c.queuedBatches, b)
	if c.Version == 2 && !c.isRefusing && len(c.queuedBatches) >= queueStopLen {
		n.setBackPressure(c, true)
	}
	n.wake()
}

// dequeue takes the next batch to propose from the queue. The caller holds the lock.
func (n *Network) dequeue(c *service) *submitted {
	b := c.queuedBatches[0]
	c.queuedBatches = c.queuedBatches[1:]
	if c.Version == 2 && c.isRefusing && len(c.queuedBatches) < queueResumeLen {
		n.setBackPressure(c, false)
	}
	return b
}

// setBackPressure makes the circuit refuse batches, or accept them again: the coordinator at once,
// its peers when a message arrives.
func (n *Network) setBackPressure(c *service, stop bool) {
	c.isRefusing = stop
	for _, s := range c.services {
		if s == c || (!stop && n.options.Faults.losesResume()) {
			continue
		}
		n.send(c, func() { s.isRefusing = stop && s.node.isUp })
	}
}

// send delivers a message of a service to another one, in order. The caller holds the lock, which
// is also held during the delivery.
func (n *Network) send(from *service, deliver func()) {
	if n.options.MessageDelay == 0 {
		deliver()
		return
	}
	from.outgoingMessages = append(from.outgoingMessages, peerMessage{time.Now().Add(n.options.MessageDelay), deliver})
	n.wake()
}

// peerMessage is a message between two services that was not delivered yet.
type peerMessage struct {
	deliverAt time.Time
	deliver   func()
}

// deliverMessages delivers the messages of a service, until the network is closed.
func (n *Network) deliverMessages(s *service) {
	for n.await(context.Background(), nil, func() bool { return len(s.outgoingMessages) > 0 }) == nil {
		m := s.outgoingMessages[0]
		n.mu.Unlock()
		n.pause(time.Until(m.deliverAt))
		n.mu.Lock()
		if len(s.outgoingMessages) > 0 { // else its node has died in the meantime
			s.outgoingMessages = s.outgoingMessages[1:]
			m.deliver()
		}
		n.wake()
		n.mu.Unlock()
	}
}

func (n *Network) noteEvicted(s *service, ids []batch.ID) {
	if len(ids) > 0 {
		n.note(Entry{Kind: Evicted, Service: s.name(), Batches: ids})
	}
}

// runProposer proposes the batches queued at s, one at a time, until the network is closed.
func (n *Network) runProposer(s *service) {
	for n.await(context.Background(), nil, func() bool { return len(s.queuedBatches) > 0 && s.node.isUp }) == nil {
		if n.options.PollInterval == 0 || (n.sleepUnlocked(s.node.processEnd, n.options.PollInterval) && len(s.queuedBatches) > 0) {
			n.propose(s, n.dequeue(s))
		}
		n.wake()
		n.mu.Unlock()
	}
}

// sleepUnlocked releases the lock for the time d. It reports whether life has not ended.
func (n *Network) sleepUnlocked(life <-chan struct{}, d time.Duration) bool {
	n.wake()
	n.mu.Unlock()
	n.pause(d, life)
	n.mu.Lock()
	select {
	case <-life:
		return false
	case <-n.closed:
		return false
	default:
		return true
	}
}
