package batch

import "strings"

// MaxFootprint is the largest number of prefixes that a footprint holds, reads and writes together.
const MaxFootprint = 100_000

// Footprint is the state that a batch declares to read and to write, as address
// prefixes. One that is empty declares nothing and so conflicts with everything.
type Footprint struct {
	Reads  []string
	Writes []string
}

// Empty reports whether nothing is declared.
func (f Footprint) Empty() bool { return len(f.Reads) == 0 && len(f.Writes) == 0 }

// Conflicts reports whether the order of f and g matters: an address that one
// writes and one that the other reads or writes are prefixes of one another
// (ledgers/sawtooth-and-splinter.md A3). Two reads never conflict.
func (f Footprint) Conflicts(g Footprint) bool {
	if f.Empty() || g.Empty() {
		return true
	}
	return overlap(f.Writes, g.Writes) || overlap(f.Writes, g.Reads) || overlap(f.Reads, g.Writes)
}

func overlap(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if strings.HasPrefix(x, y) || strings.HasPrefix(y, x) {
				return true
			}
		}
	}
	return false
}

func (f Footprint) validate() error {
	if n := len(f.Reads) + len(f.Writes); n > MaxFootprint {
		return &InputError{Field: "Footprint", Value: itoa(n) + " prefixes", Want: "at most " + itoa(MaxFootprint)}
	}
	for _, p := range f.Reads {
		if err := checkText("Footprint.Reads", p, MaxIDLen); err != nil {
			return err
		}
	}
	for _, p := range f.Writes {
		if err := checkText("Footprint.Writes", p, MaxIDLen); err != nil {
			return err
		}
	}
	return nil
}
