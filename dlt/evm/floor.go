package evm

import (
	"sync"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// deepFloor is the highest block that is known to be deep. A node whose own deep block is lower is
// behind. Such a node's answers take nothing back, and they prove nothing above its own deep
// block: the blocks of a node that stands still on a fork may be orphans.
//
// The first view sets the floor. The floor rises for good only to a deep block that is linked, by
// parent hashes, to a block with one of the client's own transactions or to the floor: so one
// absurd answer does not raise it. A first floor to which nothing was linked falls when
// maxViewsBelow views in a row are below it.
type deepFloor struct {
	mu         sync.Mutex
	isKnown    bool
	number     uint64
	hash       evmtx.Hash // zero if the first view did not show it
	isLinked   bool
	viewsBelow int
}

const maxViewsBelow = 8

// update compares a view with the floor, and returns the floor's height. proved is true if the
// view's deep block is linked to a block with one of the client's own transactions.
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

// linkedBlock returns the floor. known is false if no block was linked to it.
func (f *deepFloor) linkedBlock() (height uint64, h evmtx.Hash, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.number, f.hash, f.isLinked && f.hash != (evmtx.Hash{})
}
