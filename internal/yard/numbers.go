package main

import (
	"cmp"
	"slices"
	"time"
)

// percentile sorts durations and returns the one at p percent; 0 if there are no durations.
func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[(len(d)-1)*p/100]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// median returns the median of the items' values: the mean of the middle two if their number is
// even; 0 if there are no items.
func median[T any](of []T, value func(T) float64) float64 {
	v := make([]float64, len(of))
	for i, x := range of {
		v[i] = value(x)
	}
	slices.SortFunc(v, cmp.Compare[float64])
	switch n := len(v); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (v[n/2-1] + v[n/2]) / 2
	default:
		return v[n/2]
	}
}
