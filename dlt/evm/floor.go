package evm

import (
	"sync"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// deepFloor is the highest block that is known to be deep. A node whose own deep block is lower is
// behind. It takes nothing back, and proves nothing above its own deep block: the blocks of a node
// that stands still on a fork may be orphans.
//
// The first view lays the floor. It rises for good only to a deep block that stands on one of our
// own transactions, or on the floor, by the hashes of parents: so one absurd answer does not lift
// it. A first floor to which nothing was linked falls when maxViewsBelow views in a row stand
// below it.
type deepFloor struct {
	mu         sync.Mutex
	isKnown    bool
	number     uint64
	hash       evmtx.Hash // zero where the first view did not show it
	isLinked   bool
	viewsBelow int
}

const maxViewsBelow = 8

// update compares a view with the floor, and returns the floor's height. proved says that the
// view's deep block stands on a transaction of ours.
func (f *deepFloor) update(v view, proved bool) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	deep, _ := v.linkedBlocks.hashAt(v.deep.number)
	set := func(linked bool) {
		f.isKnown, f.number, f.hash, f.isLinked, f.viewsBelow = true, v.deep.number, deep, linked, 0
	}
	switch {
	case v.isNoneDeep && !f.isKnown:
	case v.isNoneDeep || v.deep.number < f.number:
		if f.viewsBelow++; !f.isLinked && f.viewsBelow >= maxViewsBelow {
			f.isKnown, f.number, f.hash, f.viewsBelow = !v.isNoneDeep, v.deep.number, deep, 0
		}
	case !f.isKnown:
		set(proved)
	case proved || f.hash != (evmtx.Hash{}) && deep != (evmtx.Hash{}) && v.linkedBlocks.has(block{number: f.number, hash: f.hash}):
		set(f.isLinked || proved || v.deep.number > f.number)
	default:
		f.viewsBelow = 0
	}
	return f.number
}

// linkedBlock returns the floor, where it was linked.
func (f *deepFloor) linkedBlock() (height uint64, h evmtx.Hash, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.number, f.hash, f.isLinked && f.hash != (evmtx.Hash{})
}
