package evm

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// blockOn is a block of a fork, on a block of the same.
func blockOn(fork byte, number uint64) block {
	return block{number: number, hash: evmtx.Hash{fork, byte(number)}, parent: evmtx.Hash{fork, byte(number - 1)}}
}

func TestAncestry(t *testing.T) {
	v := view{head: blockOn(1, 100), linked: true}
	var a ancestry
	for n := uint64(99); n > 90; n-- {
		a.remember(blockOn(2, n)) // of a fork
		if n == 95 {
			continue
		}
		a.remember(blockOn(1, n))
	}
	low, high := a.missing(v, 90)
	assert.Equal(t, [2]uint64{91, 95}, [2]uint64{low, high})
	assert.True(t, a.stands(v, blockOn(1, 98)))
	assert.True(t, a.stands(v, blockOn(1, 99)), "the head's own word suffices")
	assert.True(t, a.stands(v, blockOn(1, 95)), "its child is remembered")
	assert.False(t, a.stands(v, blockOn(1, 94)), "a link is missing")
	assert.False(t, a.stands(v, blockOn(2, 98)))
	a.remember(blockOn(1, 95))
	low, high = a.missing(v, 90)
	assert.Greater(t, low, high, "nothing is")
	assert.True(t, a.stands(v, blockOn(1, 90)))
	assert.False(t, a.stands(v, blockOn(2, 90)))
	assert.True(t, a.stands(view{head: v.head}, blockOn(2, 90)), "the node says itself which block is deep")
	assert.True(t, a.stands(v, blockOn(2, v.head.number-maxLinks-1)), "too far down")
	for n := range uint64(2 * maxAncestors) {
		a.remember(block{number: n, hash: evmtx.Hash{3, byte(n >> 8), byte(n)}})
	}
	assert.LessOrEqual(t, len(a.by), maxAncestors)
}
