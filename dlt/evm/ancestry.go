package evm

import (
	"slices"
	"sync"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// linkedBlocks is a run of blocks, each of which names the next lower one as its parent. One
// address may lead to several nodes, and each question may go to another node. So a height and a
// hash prove nothing: a node that stands still on a fork shows an orphaned block at a height that
// counts as deep on another node. The parent hashes prove that a block is on the chain, whichever
// node shows them.
type linkedBlocks struct {
	top    uint64       // the height of the first hash
	hashes []evmtx.Hash // from the top down, without a gap
	parent evmtx.Hash   // parent of the lowest block
}

const (
	// maxLinkedBlocks is how many blocks are remembered, at 32 bytes each, and so how far below a
	// deep block another block can be proved.
	maxLinkedBlocks = 1 << 17
	// linkWindow is how many headers are asked for together. maxLinksAsked is how many headers one
	// question asks for; the next question goes on where the last one ended.
	linkWindow    = 100
	maxLinksAsked = 1024
)

// linkedBlocksOf returns a run of the block b alone.
func linkedBlocksOf(b block) linkedBlocks {
	return linkedBlocks{top: b.number, hashes: []evmtx.Hash{b.hash}, parent: b.parent}
}

func (l *linkedBlocks) lowest() uint64 { return l.top - uint64(len(l.hashes)) + 1 }

// hashAt returns the hash of the block at a height. ok is false if the run has no block of that
// height.
func (l *linkedBlocks) hashAt(height uint64) (h evmtx.Hash, ok bool) {
	switch {
	case height > l.top || len(l.hashes) == 0:
		return h, false
	case l.top-height < uint64(len(l.hashes)):
		return l.hashes[l.top-height], true
	case height+1 == l.lowest() && l.parent != (evmtx.Hash{}):
		return l.parent, true
	}
	return h, false
}

// has reports whether the run has the block b: its height with its hash.
func (l *linkedBlocks) has(b block) bool {
	h, ok := l.hashAt(b.number)
	return ok && h == b.hash
}

// addParent adds the block below the lowest, and reports whether b is that block.
func (l *linkedBlocks) addParent(b block) bool {
	if low := l.lowest(); low == 0 || b.number != low-1 || b.hash != l.parent || b.hash == (evmtx.Hash{}) {
		return false
	}
	l.hashes, l.parent = append(l.hashes, b.hash), b.parent
	return true
}

// missingHeights returns the heights of the headers to ask for next, so that the run reaches down
// to height. lowest is above highest if no header is missing.
func (l *linkedBlocks) missingHeights(height uint64) (lowest, highest uint64) {
	if _, ok := l.hashAt(height); ok || height >= l.top || l.lowest() == 0 {
		return 1, 0
	}
	highest = l.lowest() - 1
	return max(height+1, highest-min(highest, linkWindow-1)), highest
}

// ancestry remembers one run of linked blocks: the highest. It remembers no block that is not
// linked.
type ancestry struct {
	mu           sync.Mutex
	linkedBlocks linkedBlocks // its hashes never change
}

// extend lengthens the run l by the remembered blocks below it.
func (a *ancestry) extend(l *linkedBlocks) {
	a.mu.Lock()
	known := a.linkedBlocks
	a.mu.Unlock()
	low := l.lowest()
	if low == 0 || len(known.hashes) == 0 || low-1 > known.top || low-1 < known.lowest() {
		return
	}
	if from := known.top - (low - 1); known.hashes[from] == l.parent {
		l.hashes, l.parent = append(l.hashes, known.hashes[from:]...), known.parent
	}
}

// remember remembers a run of at least two blocks. A higher run replaces the remembered one, and a
// run of the same blocks lengthens it. A single block is not remembered, because only one node has
// named its height.
func (a *ancestry) remember(l *linkedBlocks) {
	if len(l.hashes) < 2 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch h, ok := a.linkedBlocks.hashAt(l.top); {
	case len(a.linkedBlocks.hashes) == 0 || l.top > a.linkedBlocks.top:
		a.linkedBlocks = linkedBlocks{l.top, slices.Clone(l.hashes), l.parent}
	case ok && h == l.hashes[0] && l.lowest() < a.linkedBlocks.lowest():
		a.linkedBlocks.hashes, a.linkedBlocks.parent = slices.Concat(a.linkedBlocks.hashes[:a.linkedBlocks.top-l.top], l.hashes), l.parent
	}
	if n := len(a.linkedBlocks.hashes); n > maxLinkedBlocks {
		a.linkedBlocks.parent, a.linkedBlocks.hashes = a.linkedBlocks.hashes[maxLinkedBlocks], slices.Clone(a.linkedBlocks.hashes[:maxLinkedBlocks])
	}
}
