package sawtoothtest

import (
	"maps"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Fork switches to another fork: k+1 empty blocks replace the last k blocks (at most all
// except the genesis block). It returns the batches of the lost blocks. They are not committed
// any more and wait in the pool without a PENDING notice, so that they are UNKNOWN until a
// block takes them again (docs/ledgers/sawtooth.md#statuses). Receipts stay
// (docs/ledgers/sawtooth.md#receipts-and-lookups).
func (n *Node) Fork(k int) []batch.ID {
	var gone []batch.ID
	n.whileLocked(func(now time.Time) {
		gone = n.validator.fork(now, k, 1)
		n.wake()
	})
	return gone
}

// fork replaces the last k blocks by k+more empty ones.
func (v *validator) fork(now time.Time, k, more int) []batch.ID {
	k = max(0, min(k, len(v.chain.blocks)-1))
	back := v.chain.rewind(k)
	pool := make([]*pooledBatch, 0, len(back)+len(v.pool))
	gone := make([]batch.ID, 0, len(back))
	for _, b := range back {
		gone = append(gone, b.id)
		if _, there := v.inPool[b.id]; !there {
			v.inPool[b.id] = struct{}{}
			pool = append(pool, &pooledBatch{batch: b})
		}
	}
	if !v.hasBatchesToRun() {
		v.setBlockTime(now)
	}
	v.pool = append(pool, v.pool...)
	v.journal.add(Entry{Time: now, Kind: Forked, Batches: gone, Block: len(v.chain.blocks) - 1})
	for range k + more {
		v.chain.commit(now, nil)
	}
	return gone
}

// rewind removes the last k blocks, and returns their batches in the order of execution.
func (c *chain) rewind(k int) (back []*submittedBatch) {
	keep := len(c.blocks) - k
	for _, b := range c.blocks[keep:] {
		for _, x := range b.batches {
			back = append(back, x)
			delete(c.batches, x.id)
			for _, tx := range x.txs {
				delete(c.txs, tx.id)
			}
		}
	}
	c.blocks = slices.Clip(c.blocks[:keep])
	c.forkCount++
	clear(c.state)
	for _, b := range c.blocks {
		for _, x := range b.batches {
			for _, tx := range x.txs {
				for _, w := range c.txs[tx.id].writes {
					c.state[w.address] = w.value
				}
			}
		}
	}
	for name, changes := range maps.All(c.history) {
		c.history[name] = slices.DeleteFunc(slices.Clone(changes), func(ch Change) bool { return ch.Block >= keep })
	}
	return back
}
