package queuer_test

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
)

// predecessorTree is the algorithm by which the validator's parallel scheduler decides which
// transactions a transaction waits for (docs/ledgers/sawtooth.md#addresses-and-conflicts): for
// each address a set of readers and one latest writer. The tree itself is left out: prefixes of an
// address, and addresses that it is a prefix of, are found by a search in all of them.
type predecessorTree map[string]*treeNode

type treeNode struct {
	readers    map[int]bool
	lastWriter int // -1 if there is none
}

func (t predecessorTree) node(a string) *treeNode {
	if t[a] == nil {
		t[a] = &treeNode{readers: map[int]bool{}, lastWriter: -1}
	}
	return t[a]
}

// readPredecessors adds the nearest writer at a or above, and all writers below a.
func (t predecessorTree) readPredecessors(a string, into map[int]bool) {
	for end := len(a); end >= 0; end-- {
		if n := t[a[:end]]; n != nil && n.lastWriter >= 0 {
			into[n.lastWriter] = true
			break
		}
	}
	for b, n := range t {
		if len(b) > len(a) && strings.HasPrefix(b, a) && n.lastWriter >= 0 {
			into[n.lastWriter] = true
		}
	}
}

// writePredecessors adds the nearest writer at a or above, all readers at a or above, and all
// readers and writers below a.
func (t predecessorTree) writePredecessors(a string, into map[int]bool) {
	t.readPredecessors(a, into)
	for b, n := range t {
		if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
			maps.Copy(into, n.readers)
		}
	}
}

// add returns the transactions that transaction i waits for, and records it.
func (t predecessorTree) add(i int, f batch.Footprint) map[int]bool {
	before := map[int]bool{}
	for _, a := range f.Reads {
		t.readPredecessors(a, before)
	}
	for _, a := range f.Writes {
		t.writePredecessors(a, before)
	}
	for _, a := range f.Reads {
		t.node(a).readers[i] = true
	}
	for _, a := range f.Writes {
		// A write removes the readers of its address and everything below: their transactions are
		// ordered before it.
		for b := range t {
			if strings.HasPrefix(b, a) {
				delete(t, b)
			}
		}
		t.node(a).lastWriter = i
	}
	delete(before, i)
	return before
}

// The batches that may leave at once are those that a validator's scheduler would run at once,
// whichever part of the lane is final: transitively, both rules order the same pairs.
func TestParallelAgreesWithPredecessorTree(t *testing.T) {
	tier.Plain(t)
	s := queuer.Parallel(0)
	ordered, free := 0, 0
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 2 + r.IntN(8)
		fs := make([]batch.Footprint, n)
		tree := predecessorTree{}
		after := make([]map[int]bool, n) // after[i] has all batches that i waits for, also indirectly
		for i := range fs {
			for fs[i].Empty() {
				fs[i] = batch.Footprint{Reads: nestedAddresses(r, 2), Writes: nestedAddresses(r, 2)}
			}
			after[i] = map[int]bool{}
			for p := range tree.add(i, fs[i]) {
				after[i][p] = true
				maps.Copy(after[i], after[p])
			}
		}
		// First the pairs: of two batches left in the lane, the second waits for the first or does
		// not.
		closure := make([]map[int]bool, n)
		for i := range fs {
			closure[i] = map[int]bool{}
			for p := range i {
				if len(s.Select(laneOf(fs[p], fs[i]))) == 1 {
					closure[i][p] = true
					maps.Copy(closure[i], closure[p])
				}
			}
			require.Equal(t, after[i], closure[i], "seed %d: %d of %q", seed, i, fs)
			ordered += len(closure[i])
			free += i - len(closure[i])
		}
		// Then the whole lane: a batch leaves first if it waits for none.
		var want []batch.Run
		for i := range fs {
			if len(after[i]) == 0 {
				want = append(want, batch.Run{i})
			}
		}
		require.Equal(t, want, s.Select(laneOf(fs...)), "seed %d: %q", seed, fs)
	}
	assert.Greater(t, ordered, 5_000)
	assert.Greater(t, free, 5_000)
}
