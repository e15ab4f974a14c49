package position

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCoveringRanges(t *testing.T) {
	const s = minGapMicros
	for _, c := range []struct {
		name  string
		keys  []int64
		start int64
		want  []Range
	}{
		{"nothing below", []int64{7, 9}, 5, rangeFrom(5)},
		{"the lowest", []int64{9, 3}, 5, rangeFrom(3)},
		{"a stuck head", []int64{s, 9 * s}, 8 * s, []Range{{s, s}, {8 * s, math.MaxInt64}}},
		{"near ones stay together", []int64{s, s + 5, 2*s + 5, 9 * s}, 8 * s, []Range{{s, 2*s + 5}, {8 * s, math.MaxInt64}}},
		{"as far apart as may be", []int64{s, 2 * s}, 3 * s, rangeFrom(s)},
		{"one more", []int64{s, 2*s + 1}, 3 * s, []Range{{s, s}, {2*s + 1, math.MaxInt64}}},
		{"no start", []int64{s, 9 * s}, math.MinInt64, wholeLane},
	} {
		assert.Equal(t, c.want, coveringRanges(c.keys, c.start), c.name)
	}
	many := make([]int64, 20) // the gaps become ever wider
	for i := range many {
		many[i] = int64(i*i+2*i) * s
	}
	ranges := coveringRanges(many, 1000*s)
	require.Len(t, ranges, maxRanges)
	assert.Equal(t, Range{0, many[13]}, ranges[0], "the widest gaps are left out")
}

// For any keys the ranges contain all of them, and all keys from start on.
func TestCoverHoldsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		keys := make([]int64, r.IntN(30))
		for i := range keys {
			keys[i] = r.Int64N(40 * minGapMicros)
		}
		start := r.Int64N(50 * minGapMicros)
		ranges := coveringRanges(slices.Clone(keys), start)
		require.LessOrEqual(t, len(ranges), maxRanges)
		require.LessOrEqual(t, wholeFrom(ranges), start)
		require.Equal(t, int64(math.MaxInt64), ranges[len(ranges)-1].To)
		for _, k := range keys {
			require.True(t, isCovered(ranges, k), "%d of %v is not in %v", k, keys, ranges)
		}
		for i := range ranges[1:] {
			require.Greater(t, ranges[i+1].From, ranges[i].To+minGapMicros)
		}
	}
}
