package evm

import (
	"context"
	"sync"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// ancestry remembers on which block each block was built. With [After] a block is deep because other
// blocks stand on it. Behind one address may be several nodes, and each question of a client may go to
// another one. So a height and a hash prove nothing: a node that is behind may show an orphan at a height
// that is deep by the head of its neighbour. The hashes of parents prove it, whichever node shows them.
type ancestry struct {
	mu sync.Mutex
	by map[evmtx.Hash]block
}

const (
	maxAncestors = 4096
	// maxLinks is how many blocks below the head are linked to it. No node that is so far behind on a
	// fork is given questions, and the links of many blocks would be large.
	maxLinks = 64
)

func (a *ancestry) remember(b block) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil || len(a.by) >= maxAncestors {
		a.by = map[evmtx.Hash]block{}
	}
	a.by[b.hash] = b
}

// down follows the parents of a block to a height, and returns the lowest block that is remembered.
func (a *ancestry) down(from block, height uint64) block {
	a.mu.Lock()
	defer a.mu.Unlock()
	for from.number > height {
		next, known := a.by[from.parent]
		if !known || next.number+1 != from.number {
			break
		}
		from = next
	}
	return from
}

// missing returns the lowest and the highest height of the blocks that are not remembered between a
// height and the head; lowest is above highest where none is.
func (a *ancestry) missing(v view, height uint64) (lowest, highest uint64) {
	if !v.links(height) {
		return 1, 0
	}
	return height + 1, a.down(v.head, height+1).number - 1
}

// stands reports whether the head of a view stands on a block, by all that is remembered.
func (a *ancestry) stands(v view, b block) bool {
	if !v.links(b.number) {
		return true
	}
	last := a.down(v.head, b.number+1)
	return last.number == b.number+1 && last.parent == b.hash
}

// links reports whether a block of this height counts only if it is linked to the head.
func (v view) links(height uint64) bool {
	return v.linked && height < v.head.number && v.head.number-height <= maxLinks
}

// standsOn makes sure that the head of a view stands on a block that was read later, maybe from another node.
func (f *finder) standsOn(ctx context.Context, v view, b block) error {
	var reqs []request
	for low, high := f.ancestry.missing(v, b.number); low <= high; low++ {
		reqs = append(reqs, blockRequest(low))
	}
	if len(reqs) > 0 {
		answers, err := f.ask(ctx, f.op, f.e, reqs)
		if err != nil {
			return dlt.At(f.e.shown, f.typed(f.op, err))
		}
		for _, a := range answers {
			if b, err := decodeBlock(a); err == nil {
				f.ancestry.remember(b)
			}
		}
	}
	if !f.ancestry.stands(v, b) {
		return f.fail("block %d: the last block, %d, was not built on %s: it is of another chain, or of a node that is behind", b.number, v.head.number, b.hash)
	}
	return nil
}

func blockRequest(height uint64) request {
	return request{"eth_getBlockByNumber", []any{hexQuantity(height), false}}
}
