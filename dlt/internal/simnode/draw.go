package simnode

import "hash/fnv"

// Draw returns a number in [0, 1) that depends on the key alone.
func Draw(key string) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	x := h.Sum64()
	// FNV leaves the high bits of short changes alike; mix them.
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// Pick returns the index of the rate that u falls into, or -1.
func Pick(rates []float64, u float64) int {
	for i, r := range rates {
		if u < r {
			return i
		}
		u -= r
	}
	return -1
}
