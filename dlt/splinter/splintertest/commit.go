package splintertest

import (
	"maps"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// commitEnd says how a commit ended.
type commitEnd uint8

const (
	commitRecorded   commitEnd = iota
	commitUnrecorded           // an effect without receipts, because one of them already existed
	commitCrashed              // an effect without receipts, because the node died in between
)

// commit does what scabbard 0.6.14 does when a proposal is accepted, in its order: it writes the
// state and its root, then the receipts, then the events, and then the history. These are separate
// writes. So a crash after the first one leaves an effect without receipts, as do receipts that
// cannot be written. The caller holds the lock.
func (n *Network) commit(s *service, b *submitted) commitEnd {
	x := execute(s.state, b)
	s.state = x.next
	s.appliedIDs = append(s.appliedIDs, b.id)
	e := Entry{Kind: Applied, Service: s.name(), Batches: []batch.ID{b.id}}
	point := CrashAfterState
	if s != s.services[0] {
		point = CrashPeerAfterState
	}
	out := commitRecorded
	switch {
	case n.crash(b, point, s):
		out, e.Word = commitCrashed, "no receipt"
	case !s.node.insertReceipts(x.receipts):
		out, e.Word = commitUnrecorded, "no receipt"
	}
	n.note(e)
	if out != commitRecorded {
		return out
	}
	s.receipts = append(s.receipts, x.receipts...)
	for _, r := range x.receipts {
		n.publish(s, r)
	}
	s.history.commit(b.id)
	return commitRecorded
}

// insertReceipts writes receipts, all or none. A node has one receipt per transaction for all its
// services, because the table's key is the transaction's id alone.
func (v *node) insertReceipts(receipts []receipt) bool {
	fresh := map[string]bool{}
	for _, r := range receipts {
		if v.receipts[r.id] || fresh[r.id] {
			return false
		}
		fresh[r.id] = true
	}
	maps.Copy(v.receipts, fresh)
	return true
}

// compareStates notes when the states of a circuit's services begin to differ, and when they are
// equal again.
func (n *Network) compareStates(c *circuit) {
	first, differ := c.services[0], false
	for _, s := range c.services {
		differ = differ || !maps.Equal(s.state, first.state)
	}
	if differ == !c.dividedSince.IsZero() {
		return
	}
	e := Entry{Kind: United, Service: first.name()}
	c.dividedSince = time.Time{}
	if differ {
		e.Kind, c.dividedSince = Divided, time.Now()
	}
	if k := len(first.appliedIDs); k > 0 {
		e.Batches = []batch.ID{first.appliedIDs[k-1]}
	}
	n.note(e)
}

// Divided reports whether the states of a circuit's services differ, and since when. From then
// on every batch with different effects is rolled back, too. The service names its circuit.
func (n *Network) Divided(service batch.ServiceID) (since time.Time, divided bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.findService(service); s != nil {
		return s.dividedSince, !s.dividedSince.IsZero()
	}
	return time.Time{}, false
}
