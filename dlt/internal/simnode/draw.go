package simnode

import (
	"fmt"
	"hash/fnv"
	"time"
)

// Draw is a source of random numbers that depend only on its fields.
type Draw struct {
	Seed    uint64
	Subject string // what the numbers are for
	Try     int
	Salt    string
}

// Float returns a number in [0, 1).
func (d Draw) Float(what string) float64 {
	if d.Salt != "" {
		what = d.Salt + "|" + what
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d|%s|%d|%s", d.Seed, d.Subject, d.Try, what)
	x := h.Sum64()
	// The high bits of FNV hashes of short, similar texts are alike, so mix them.
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// UpTo returns a duration in [0, limit).
func (d Draw) UpTo(what string, limit time.Duration) time.Duration {
	return time.Duration(d.Float(what) * float64(limit))
}

// Pick returns the index of the rate into whose range u falls, -1 if none.
func Pick(rates []float64, u float64) int {
	for i, r := range rates {
		if u < r {
			return i
		}
		u -= r
	}
	return -1
}

// CheckRates checks the rates of faults. The rates of a group add up to at most 1, because at most
// one fault of a group happens.
func CheckRates(groups ...[]float64) error {
	for _, group := range groups {
		sum := 0.0
		for _, r := range group {
			if r < 0 {
				return fmt.Errorf("fault rate %v is negative", r)
			}
			sum += r
		}
		if sum > 1+1e-9 {
			return fmt.Errorf("fault rates %v add up to %v, more than 1", group, sum)
		}
	}
	return nil
}

// SetDefault sets a value that is not positive to its default.
func SetDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
