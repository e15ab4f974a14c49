package evm

import (
	"sync"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// floor is the highest block that is known to be deep. A node whose own deep block is lower is
// behind. It takes nothing back, and proves nothing above its own deep block: the blocks of a node
// that stands still on a fork may be orphans.
//
// The first view lays the floor. It rises for good only to a deep block that stands on one of our
// own transactions, or on the floor, by the hashes of parents: so one absurd answer does not lift
// it. A first floor to which nothing was linked falls when floorFalls views in a row stand below
// it.
type floor struct {
	mu     sync.Mutex
	laid   bool
	number uint64
	hash   evmtx.Hash // zero where the first view did not show it
	linked bool
	below  int
}

const floorFalls = 8

// see compares a view with the floor, and returns the floor's height. proved says that the view's
// deep block stands on a transaction of ours.
func (f *floor) see(v view, proved bool) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	deep, _ := v.line.at(v.deep.number)
	set := func(linked bool) {
		f.laid, f.number, f.hash, f.linked, f.below = true, v.deep.number, deep, linked, 0
	}
	switch {
	case v.none && !f.laid:
	case v.none || v.deep.number < f.number:
		if f.below++; !f.linked && f.below >= floorFalls {
			f.laid, f.number, f.hash, f.below = !v.none, v.deep.number, deep, 0
		}
	case !f.laid:
		set(proved)
	case proved || f.hash != (evmtx.Hash{}) && deep != (evmtx.Hash{}) && v.line.has(block{number: f.number, hash: f.hash}):
		set(f.linked || proved || v.deep.number > f.number)
	default:
		f.below = 0
	}
	return f.number
}

// block returns the floor, where it was linked.
func (f *floor) block() (height uint64, h evmtx.Hash, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.number, f.hash, f.linked && f.hash != (evmtx.Hash{})
}
