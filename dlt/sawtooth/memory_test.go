package sawtooth

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

func TestMemoryIsBoundedAndKeepsTheLast(t *testing.T) {
	id := func(n int) batch.ID { return batch.ID(strconv.Itoa(n)) }
	var m endpointMemory
	assert.Zero(t, m.mask("nobody"))
	m.forget("nobody")
	m.add("twice", 1)
	m.add("twice", 2)
	assert.EqualValues(t, 1<<1|1<<2, m.mask("twice"), "sent to two nodes")
	m.forget("twice")
	const all = 3*maxHalf + 10
	for n := range all {
		m.add(id(n), uint32(n%3))
		if n == maxHalf-1 {
			m.add(id(0), 5) // added again after the other half has become the new one
			assert.EqualValues(t, 1|1<<5, m.mask(id(0)))
		}
	}
	assert.LessOrEqual(t, len(m.newHalf)+len(m.oldHalf), 2*maxHalf)
	for n := all - maxHalf; n < all; n++ {
		if m.mask(id(n)) != 1<<(n%3) {
			t.Fatalf("%d is forgotten", n)
		}
	}
	assert.Zero(t, m.mask(id(1)))
	m.forget(id(all - 1))
	m.forget(id(all - maxHalf))
	assert.Zero(t, m.mask(id(all-1)))
	assert.Zero(t, m.mask(id(all-maxHalf)))
}
