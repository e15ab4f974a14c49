package evm

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// blockOn returns the block of a fork at a height; its parent is the fork's block below.
func blockOn(fork byte, number uint64) block {
	hash := func(n uint64) evmtx.Hash { return evmtx.Hash{fork, byte(n >> 16), byte(n >> 8), byte(n)} }
	return block{number: number, hash: hash(number), parent: hash(number - 1)}
}

func TestALineFollowsParents(t *testing.T) {
	l := linkedBlocksOf(blockOn(1, 100))
	assert.True(t, l.has(blockOn(1, 100)))
	assert.True(t, l.has(blockOn(1, 99)), "the head's own word suffices")
	assert.False(t, l.has(blockOn(2, 99)))
	_, linked := l.hashAt(98)
	assert.False(t, linked)
	_, linked = l.hashAt(101)
	assert.False(t, linked)
	for _, wrong := range []block{blockOn(2, 99), blockOn(1, 98), blockOn(1, 100), {number: 1 << 60, hash: blockOn(1, 99).hash}, {number: 99}} {
		assert.False(t, l.addParent(wrong))
	}
	low, high := l.missingHeights(90)
	assert.Equal(t, [2]uint64{91, 99}, [2]uint64{low, high}, "the block above says which one it is")
	for n := uint64(99); n > 90; n-- {
		assert.True(t, l.addParent(blockOn(1, n)))
	}
	assert.True(t, l.has(blockOn(1, 90)))
	low, high = l.missingHeights(90)
	assert.Greater(t, low, high)
	low, high = l.missingHeights(0)
	assert.Equal(t, [2]uint64{1, 90}, [2]uint64{low, high})
	absurd := linkedBlocksOf(block{number: 1 << 60, hash: blockOn(1, 99).hash, parent: blockOn(1, 98).hash})
	low, high = absurd.missingHeights(5)
	assert.Equal(t, [2]uint64{1<<60 - linkWindow, 1<<60 - 1}, [2]uint64{low, high}, "no more than a window")
	first := linkedBlocksOf(block{hash: evmtx.Hash{1}})
	assert.False(t, first.addParent(block{number: 1<<64 - 1}))
	low, high = first.missingHeights(0)
	assert.Greater(t, low, high)
}

// Only linked blocks are remembered, and blocks of the same run lengthen it, whichever question
// has read them.
func TestOneLineIsRemembered(t *testing.T) {
	run := func(fork byte, top, low uint64) linkedBlocks {
		l := linkedBlocksOf(blockOn(fork, top))
		for n := top - 1; n >= low; n-- {
			l.addParent(blockOn(fork, n))
		}
		return l
	}
	var a ancestry
	keep := func(l linkedBlocks) { a.remember(&l) }
	joined := func(b block) (low uint64) {
		l := linkedBlocksOf(b)
		a.extend(&l)
		return l.lowest()
	}
	keep(run(1, 1<<60, 1<<60))
	assert.Empty(t, a.linkedBlocks.hashes, "one block is one node's word")
	keep(run(1, 110, 100))
	assert.EqualValues(t, 100, joined(blockOn(1, 111)))
	assert.EqualValues(t, 100, joined(blockOn(1, 105)))
	assert.EqualValues(t, 112, joined(blockOn(1, 112)), "a link is missing")
	assert.EqualValues(t, 105, joined(blockOn(2, 105)))
	keep(run(1, 105, 90))
	assert.EqualValues(t, 90, joined(blockOn(1, 111)), "longer, and not shorter at the top")
	keep(run(2, 99, 80))
	assert.EqualValues(t, 90, joined(blockOn(1, 111)), "a fork below the top is not remembered")
	keep(run(1, 112, 111))
	assert.EqualValues(t, 111, joined(blockOn(1, 113)), "what is above counts, where the two do not meet")
	sibling := linkedBlocksOf(block{number: 113, hash: evmtx.Hash{9}, parent: blockOn(1, 112).hash})
	a.extend(&sibling)
	assert.EqualValues(t, 111, sibling.lowest(), "a fork on a block that is remembered")
	keep(run(1, maxLinkedBlocks+500, 100))
	assert.Len(t, a.linkedBlocks.hashes, maxLinkedBlocks)
	assert.EqualValues(t, 501, joined(blockOn(1, maxLinkedBlocks+501)))
	cut := linkedBlocksOf(blockOn(1, maxLinkedBlocks+501))
	a.extend(&cut)
	assert.True(t, cut.has(blockOn(1, 500)), "by the parent of the lowest")
}

// A first floor that only one view has shown falls when no later view confirms it. A linked floor
// stays.
func TestTheFloorRisesByLinks(t *testing.T) {
	at := func(b block, down uint64) view {
		l := linkedBlocksOf(b)
		for n := b.number - 1; n >= b.number-down; n-- {
			l.addParent(blockOn(1, n))
		}
		return view{head: b, deep: b, linkedBlocks: &l}
	}
	absurd := view{head: block{number: 1 << 60}, deep: block{number: 1 << 60, hash: evmtx.Hash{7}}, linkedBlocks: &linkedBlocks{top: 1 << 60, hashes: []evmtx.Hash{{7}}}}
	var f deepFloor
	assert.EqualValues(t, 1<<60, f.update(absurd, false), "nobody knows better yet")
	for range maxViewsBelow - 1 {
		assert.EqualValues(t, 1<<60, f.update(at(blockOn(1, 100), 0), false))
	}
	assert.EqualValues(t, 100, f.update(at(blockOn(1, 100), 0), false))
	assert.EqualValues(t, 100, f.update(absurd, false), "it stands on nothing that is known")
	assert.EqualValues(t, 100, f.update(at(blockOn(1, 105), 2), false))
	assert.EqualValues(t, 100, f.update(at(blockOn(2, 105), 0), false))
	assert.EqualValues(t, 105, f.update(at(blockOn(1, 105), 5), false))
	for range 2 * maxViewsBelow {
		assert.EqualValues(t, 105, f.update(at(blockOn(1, 90), 0), false), "it was linked, and does not fall")
		assert.EqualValues(t, 105, f.update(view{isNoneDeep: true, linkedBlocks: &linkedBlocks{}}, false))
	}
	assert.EqualValues(t, 300, f.update(at(blockOn(1, 300), 0), true), "a transaction of ours was found below")
}
