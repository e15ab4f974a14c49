package position

import (
	"cmp"
	"math"
	"slices"
)

// Range is the order keys from From to To, both included, in microseconds as in the database.
type Range struct{ From, To int64 }

// wholeLane are the ranges that a claim reads of an unknown lane.
var wholeLane = []Range{{math.MinInt64, math.MaxInt64}}

const (
	// minGapMicros is the distance in microseconds above which the keys between two open rows are
	// left out. Each further range costs a claim one search in each index.
	minGapMicros = 1_000_000
	// maxRanges is the largest number of ranges of a lane.
	maxRanges = 8
)

// wholeFrom returns the key from which on a claim reads the whole lane.
func wholeFrom(ranges []Range) int64 { return ranges[len(ranges)-1].From }

// isCovered reports whether the ranges contain a key.
func isCovered(ranges []Range, key int64) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.From <= key && key <= r.To })
}

// coveringRanges returns ranges that contain all keys from start on, and every key in keys, which
// it sorts. It leaves out the widest gaps.
func coveringRanges(keys []int64, start int64) []Range {
	slices.Sort(keys)
	points := make([]int64, 0, len(keys)+1)
	for _, k := range keys {
		if k < start {
			points = append(points, k)
		}
	}
	points = append(points, start)
	var gaps []int // a gap i follows points[i]
	for i := range points[:len(points)-1] {
		if points[i+1]-points[i] > minGapMicros {
			gaps = append(gaps, i)
		}
	}
	if len(gaps) >= maxRanges {
		slices.SortFunc(gaps, func(a, b int) int {
			return cmp.Compare(points[b+1]-points[b], points[a+1]-points[a])
		})
		gaps = gaps[:maxRanges-1]
		slices.Sort(gaps)
	}
	ranges := make([]Range, 0, len(gaps)+1)
	from := points[0]
	for _, i := range gaps {
		ranges = append(ranges, Range{from, points[i]})
		from = points[i+1]
	}
	return append(ranges, Range{from, math.MaxInt64})
}
