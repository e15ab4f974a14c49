package splintertest

import (
	"context"
	"slices"
	"time"
)

// CrashPoint is a moment of two-phase commit at which a node may be killed.
type CrashPoint uint8

// The moments, and what they leave behind where there are several services.
const (
	CrashNever     CrashPoint = iota
	CrashProposed             // the coordinator, with a proposal open: its peers wait, and the next one is rolled back after its timeout
	CrashState                // the coordinator, between its state and its receipts: the circuit is divided, and no receipt tells
	CrashCommitted            // the coordinator, before it tells its peers: the circuit is divided
	CrashPeer                 // the last service, between its check and its commit: the circuit is divided
	CrashPeerState            // another than the coordinator, between its state and its receipts: it has the effect, and no receipt
)

// crash kills the node of s, if a batch is to be the death of it at this point, and lets
// it start again after Faults.Down. The lock is held.
func (n *Network) crash(b *submitted, at CrashPoint, s *service) bool {
	if b.fault.Crash != at || at == CrashNever {
		return false
	}
	b.fault.Crash = CrashNever
	v := s.node
	i, down := slices.Index(n.nodes, v), n.o.Faults.Down
	n.forget(v, down > 0)
	n.spawnHeld(func() {
		if down == 0 {
			v.cut()
			return
		}
		n.Stop(i)
		n.pause(down)
		_ = n.Start(i) // or the network is closed
	})
	return true
}

// forget is the end of a process: histories, queues and what it waits for are gone; what
// was written stays. The lock is held.
func (n *Network) forget(v *node, down bool) {
	for _, s := range n.services {
		if s.node != v {
			continue
		}
		kind := Restarted
		if down {
			kind = Killed
		}
		n.note(Entry{Kind: kind, Service: s.name()})
		s.seen, s.queue, s.outbox = newHistory(n.o.HistorySize), nil, nil
		s.stop, s.stalled, s.dead, s.awaits = false, false, false, ""
	}
	v.up = !down
	close(v.life)
	v.life = make(chan struct{})
	v.workers = newWorkers(n.o.Workers)
	n.wake()
}

// Restart is a kill -9 and a start of a node at once: histories and queues are gone, what
// was committed stays. Open connections are cut; it listens all the time.
func (n *Network) Restart(node int) {
	n.mu.Lock()
	n.forget(n.nodes[node], false)
	n.mu.Unlock()
	n.nodes[node].cut()
}

// Kill is a kill -9 of a node, which refuses connections until [Network.Start]. What its
// services were in the middle of stays as it is; see [CrashPoint] for what that means.
func (n *Network) Kill(node int) {
	n.mu.Lock()
	if n.nodes[node].up {
		n.forget(n.nodes[node], true)
	}
	n.mu.Unlock()
	n.Stop(node)
}

// Start starts a node again after a [Network.Kill], at its address.
func (n *Network) Start(node int) error {
	n.mu.Lock()
	if v := n.nodes[node]; !v.up {
		v.up = true
		for _, s := range n.services {
			if s.node == v {
				n.note(Entry{Kind: Restarted, Service: s.name()})
			}
		}
		n.wake()
	}
	n.mu.Unlock()
	return n.Resume(node)
}

// Shutdown ends a node as an operator does, with a goodbye to its subscribers (1001), and
// lets it be down until [Network.Start]. It waits for none of its batches.
func (n *Network) Shutdown(node int) {
	n.mu.Lock()
	for _, s := range n.services {
		if s.node == n.nodes[node] {
			for x := range s.streams {
				x.end()
			}
		}
	}
	n.mu.Unlock()
	timer := time.NewTimer(5 * time.Second) // who does not read is not waited for
	defer timer.Stop()
	if n.await(context.Background(), timer.C, func() bool { return !n.streaming(node) }) == nil {
		n.mu.Unlock()
	}
	n.Kill(node)
}

func (n *Network) streaming(node int) bool {
	return slices.ContainsFunc(n.services, func(s *service) bool { return s.node == n.nodes[node] && len(s.streams) > 0 })
}
