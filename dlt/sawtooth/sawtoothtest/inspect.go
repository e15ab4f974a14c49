package sawtoothtest

import (
	"slices"

	"github.com/dltbatch/dltbatch/batch"
)

// Value returns the number of a name in the committed state.
func (n *Node) Value(name string) (value int64, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.advanceToNow()
	return decodeEntry(n.validator.chain.state[Address(name)], name)
}

// History returns the changes of a name, in the order of execution.
func (n *Node) History(name string) []Change {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.advanceToNow()
	return slices.Clone(n.validator.chain.history[name])
}

// Status returns the status that a status query would get. It does not renew anything, and adds no
// entry to the journal.
func (n *Node) Status(id batch.ID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.advanceToNow()
	return n.validator.tracker.peekStatus(now, id)
}

// Chain returns all committed batches in the order of execution.
func (n *Node) Chain() []batch.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.advanceToNow()
	var out []batch.ID
	for _, b := range n.validator.chain.blocks {
		for _, s := range b.batches {
			out = append(out, s.id)
		}
	}
	return out
}

// PoolLen returns the number of batches in the pending pool.
func (n *Node) PoolLen() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.advanceToNow()
	return len(n.validator.pool)
}
