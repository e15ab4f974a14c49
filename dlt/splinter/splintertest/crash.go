package splintertest

import (
	"context"
	"slices"
	"time"
)

// CrashPoint is a moment of two-phase commit at which a test can kill a node.
type CrashPoint uint8

// The moments, and their effects where there are several services.
const (
	CrashNever            CrashPoint = iota
	CrashAfterProposal               // the coordinator, with a proposal open: its peers wait, and the next one is rolled back after its timeout
	CrashAfterState                  // the coordinator, between its state and its receipts: the circuit is divided, and no receipt shows it
	CrashAfterCommit                 // the coordinator, before it notifies its peers: the circuit is divided
	CrashPeerBeforeCommit            // the last service, between its check and its commit: the circuit is divided
	CrashPeerAfterState              // another service, between its state and its receipts: it has the effect, but no receipt
)

// crash kills the node of s if the fault of the batch has a crash at this point, and starts it
// again after Faults.DownTime. The caller holds the lock.
func (n *Network) crash(b *submitted, at CrashPoint, s *service) bool {
	if b.fault.Crash != at || at == CrashNever {
		return false
	}
	b.fault.Crash = CrashNever
	v := s.node
	i, down := slices.Index(n.nodes, v), n.options.Faults.DownTime
	n.endProcess(v, down > 0)
	n.goUnlessClosedLocked(func() {
		if down == 0 {
			v.front.Cut()
			return
		}
		n.Stop(i)
		n.pause(down)
		_ = n.Start(i) // fails only if the network is closed
	})
	return true
}

// endProcess ends the process of a node: histories, queues and open proposals are lost, and
// written data stays. The caller holds the lock.
func (n *Network) endProcess(v *node, down bool) {
	for _, s := range n.services {
		if s.node != v {
			continue
		}
		kind := Restarted
		if down {
			kind = Killed
		}
		n.note(Entry{Kind: kind, Service: s.name()})
		s.history, s.queuedBatches, s.outgoingMessages = newHistory(n.options.HistorySize), nil, nil
		s.isRefusing, s.isStalled, s.isExecutorDead, s.openProposal = false, false, false, ""
	}
	v.isUp = !down
	close(v.processEnd)
	v.processEnd = make(chan struct{})
	v.workers = newWorkers()
	n.wake()
}

// Restart kills a node as kill -9 does, and starts it again at once: histories and queues are
// lost, commits stay. Open connections are cut; the node accepts connections all the time.
func (n *Network) Restart(node int) {
	n.mu.Lock()
	n.endProcess(n.nodes[node], false)
	n.mu.Unlock()
	n.nodes[node].front.Cut()
}

// Kill kills a node as kill -9 does; it refuses connections until [Network.Start]. Unfinished work
// of its services stays as it is; [CrashPoint] lists the effects.
func (n *Network) Kill(node int) {
	n.mu.Lock()
	if n.nodes[node].isUp {
		n.endProcess(n.nodes[node], true)
	}
	n.mu.Unlock()
	n.Stop(node)
}

// Start starts a node again after a [Network.Kill], at its address.
func (n *Network) Start(node int) error {
	n.mu.Lock()
	if v := n.nodes[node]; !v.isUp {
		v.isUp = true
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

// Shutdown stops a node as an operator does: its subscribers get a close frame (1001). The node is
// down until [Network.Start]. It waits for none of its batches.
func (n *Network) Shutdown(node int) {
	n.mu.Lock()
	for _, s := range n.services {
		if s.node == n.nodes[node] {
			for x := range s.streams {
				x.stop()
			}
		}
	}
	n.mu.Unlock()
	timer := time.NewTimer(5 * time.Second) // subscribers that do not read are not waited for any longer
	defer timer.Stop()
	if n.await(context.Background(), timer.C, func() bool { return !n.hasStreams(node) }) == nil {
		n.mu.Unlock()
	}
	n.Kill(node)
}

func (n *Network) hasStreams(node int) bool {
	return slices.ContainsFunc(n.services, func(s *service) bool { return s.node == n.nodes[node] && len(s.streams) > 0 })
}
