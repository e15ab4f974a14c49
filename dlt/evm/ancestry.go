package evm

import (
	"slices"
	"sync"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// line is a run of blocks, each of which names the next lower one as its parent. Behind one
// address may be several nodes, and each question may go to another one. So a height and a hash
// prove nothing: a node that stands still on a fork shows an orphan at a height that is deep for
// its neighbour. The hashes of parents prove it, whichever node shows them.
type line struct {
	top    uint64       // the height of the first hash
	hashes []evmtx.Hash // from the top down, without a gap
	parent evmtx.Hash   // of the lowest
}

const (
	// maxLine is how many blocks are remembered, and so how far below a deep block one of them can
	// be proved: 32 bytes each.
	maxLine = 1 << 17
	// linkWindow is how many headers are asked for together, and linksAtOnce how many one question
	// asks for: it goes on where the one before it ended.
	linkWindow  = 100
	linksAtOnce = 1024
)

// lineOf returns the line of one block.
func lineOf(b block) line { return line{top: b.number, hashes: []evmtx.Hash{b.hash}, parent: b.parent} }

func (l *line) low() uint64 { return l.top - uint64(len(l.hashes)) + 1 }

// at returns the hash of the block at a height. ok is false where no link leads there.
func (l *line) at(height uint64) (h evmtx.Hash, ok bool) {
	switch {
	case height > l.top || len(l.hashes) == 0:
		return h, false
	case l.top-height < uint64(len(l.hashes)):
		return l.hashes[l.top-height], true
	case height+1 == l.low() && l.parent != (evmtx.Hash{}):
		return l.parent, true
	}
	return h, false
}

// has reports whether the line has this very block.
func (l *line) has(b block) bool {
	h, ok := l.at(b.number)
	return ok && h == b.hash
}

// add takes the block below the lowest. It refuses any other.
func (l *line) add(b block) bool {
	if low := l.low(); low == 0 || b.number != low-1 || b.hash != l.parent || b.hash == (evmtx.Hash{}) {
		return false
	}
	l.hashes, l.parent = append(l.hashes, b.hash), b.parent
	return true
}

// missing returns the heights of the headers to ask for next, so that a link leads to a height;
// lowest is above highest where none is missing.
func (l *line) missing(height uint64) (lowest, highest uint64) {
	if _, ok := l.at(height); ok || height >= l.top || l.low() == 0 {
		return 1, 0
	}
	highest = l.low() - 1
	return max(height+1, highest-min(highest, linkWindow-1)), highest
}

// ancestry remembers one line of blocks: the highest that was linked. A block that is not linked
// is not remembered.
type ancestry struct {
	mu   sync.Mutex
	line line // its hashes never change
}

// join lengthens a line by the blocks that are remembered below it.
func (a *ancestry) join(l *line) {
	a.mu.Lock()
	known := a.line
	a.mu.Unlock()
	low := l.low()
	if low == 0 || len(known.hashes) == 0 || low-1 > known.top || low-1 < known.low() {
		return
	}
	if from := known.top - (low - 1); known.hashes[from] == l.parent {
		l.hashes, l.parent = append(l.hashes, known.hashes[from:]...), known.parent
	}
}

// keep remembers a line that has one link at least. A higher one replaces the line that is
// remembered, and one of the same blocks lengthens it. A single block is not remembered: its
// height is one node's word.
func (a *ancestry) keep(l *line) {
	if len(l.hashes) < 2 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch h, ok := a.line.at(l.top); {
	case len(a.line.hashes) == 0 || l.top > a.line.top:
		a.line = line{l.top, slices.Clone(l.hashes), l.parent}
	case ok && h == l.hashes[0] && l.low() < a.line.low():
		a.line.hashes, a.line.parent = slices.Concat(a.line.hashes[:a.line.top-l.top], l.hashes), l.parent
	}
	if n := len(a.line.hashes); n > maxLine {
		a.line.parent, a.line.hashes = a.line.hashes[maxLine], slices.Clone(a.line.hashes[:maxLine])
	}
}
