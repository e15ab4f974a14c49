package memory

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// The list has the elements of a sorted slice, whichever side it moves.
func TestListIsASortedSlice(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := list[*entry]{before: isEarlierInOrder}
		var want []*entry
		for step := range 250 {
			e := &entry{key: batch.Key{ID: batch.ID(rune('a' + r.IntN(26)))}, created: start.Add(time.Duration(step) * time.Second)}
			switch n := r.IntN(10); {
			case n < 5: // most elements are added at the end
			case n < 7:
				e.created = start.Add(time.Duration(r.IntN(250)) * time.Second)
			case len(want) > 0:
				i := 0 // most elements are removed at the front
				if n == 9 {
					i = r.IntN(len(want))
				}
				l.remove(want[i])
				want = slices.Delete(want, i, i+1)
				e = nil
			}
			if e != nil {
				if i := slices.IndexFunc(want, func(o *entry) bool { return !isEarlierInOrder(o, e) && !isEarlierInOrder(e, o) }); i >= 0 {
					continue // ids are unique
				}
				l.insert(e)
				i, _ := slices.BinarySearchFunc(want, e, func(a, b *entry) int {
					if isEarlierInOrder(a, b) {
						return -1
					}
					return 1
				})
				want = slices.Insert(want, i, e)
			} else {
				l.remove(&entry{created: start, key: batch.Key{ID: "not in it"}})
			}
			require.Equal(t, len(want), l.len(), "seed %d, step %d", seed, step)
			require.True(t, slices.Equal(want, l.items[l.head:]), "seed %d, step %d", seed, step)
			require.False(t, slices.ContainsFunc(l.items[:l.head], func(e *entry) bool { return e != nil }), "kept from being collected")
		}
	}
}
