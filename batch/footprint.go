package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// MaxFootprint is the largest number of prefixes in a footprint, reads and writes together.
const MaxFootprint = 100_000

// Footprint is the state that a batch declares to read and to write, as address prefixes. An
// empty footprint declares nothing and so conflicts with everything.
//
// Dependencies by name are entries, too: a batch writes the [TransactionMark] of each of its
// transactions, and reads the marks of the transactions that must come first. So one rule
// covers both, in every store, and a footprint without marks keeps its meaning.
type Footprint struct {
	Reads  []string
	Writes []string
}

// Empty reports whether nothing is declared.
func (f Footprint) Empty() bool { return len(f.Reads) == 0 && len(f.Writes) == 0 }

// Conflicts reports whether the order of f and g matters: an address that one writes and an
// address that the other reads or writes are prefixes of one another
// (docs/ledgers/sawtooth.md#addresses-and-conflicts). Two reads never conflict. To test one
// footprint against many, use [Footprints].
func (f Footprint) Conflicts(g Footprint) bool {
	if f.Empty() || g.Empty() {
		return true
	}
	return overlaps(f.Writes, g.Writes) || overlaps(f.Writes, g.Reads) || overlaps(f.Reads, g.Writes)
}

func overlaps(a, b []string) bool {
	for _, x := range a {
		for _, y := range b {
			if strings.HasPrefix(x, y) || strings.HasPrefix(y, x) {
				return true
			}
		}
	}
	return false
}

// Compact returns a footprint with the same conflicts and as few entries as possible, sorted.
// It drops entries that a shorter prefix covers, and reads of state that the batch writes
// anyway. It does not change f.
func (f Footprint) Compact() Footprint {
	writes, reads := withoutCovered(f.Writes), withoutCovered(f.Reads)
	reads = slices.DeleteFunc(reads, func(r string) bool {
		// No write is a prefix of another, so only the last write before r can be a prefix of r.
		i, same := slices.BinarySearch(writes, r)
		return same || i > 0 && strings.HasPrefix(r, writes[i-1])
	})
	if len(reads) == 0 {
		reads = nil
	}
	return Footprint{Reads: reads, Writes: writes}
}

// withoutCovered returns a sorted copy without the entries that begin with another entry.
func withoutCovered(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	out := slices.Sorted(slices.Values(in))
	kept := out[:1]
	for _, s := range out[1:] { // entries that begin with an entry come right after it
		if !strings.HasPrefix(s, kept[len(kept)-1]) {
			kept = append(kept, s)
		}
	}
	return slices.Clip(kept)
}

const transactionMark = "tx:" // no address of any ledger of this module begins like this

// TransactionMark returns the footprint entry of a transaction: the batch that carries it
// writes the entry, the batches that depend on it read it. All marks have the same length. Two
// ids share a mark once in 2^64 pairs; their batches would only wait for each other
// needlessly.
func TransactionMark(id string) string {
	sum := sha256.Sum256([]byte(id))
	return transactionMark + hex.EncodeToString(sum[:8])
}

// IsTransactionMark reports whether an entry is a [TransactionMark] and not an address.
func IsTransactionMark(entry string) bool { return strings.HasPrefix(entry, transactionMark) }

func (f Footprint) validate() error {
	if n := len(f.Reads) + len(f.Writes); n > MaxFootprint {
		return &InputError{Field: "Footprint", Value: numberText(n) + " prefixes", Want: "at most " + numberText(MaxFootprint)}
	}
	for _, p := range f.Reads {
		if err := CheckText("Footprint.Reads", p, MaxIDLen); err != nil {
			return err
		}
	}
	for _, p := range f.Writes {
		if err := CheckText("Footprint.Writes", p, MaxIDLen); err != nil {
			return err
		}
	}
	return nil
}
