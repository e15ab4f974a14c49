package batch

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// MaxFootprint is the largest number of prefixes that a footprint holds, reads and writes together.
const MaxFootprint = 100_000

// Footprint is the state that a batch declares to read and to write, as address
// prefixes. One that is empty declares nothing and so conflicts with everything.
//
// What has to go before it by name is an entry, too: a batch writes the
// [TransactionMark] of each transaction it carries, and reads those of the
// transactions that must be there before its own. So one rule covers both, in
// every store, and a footprint without marks means what it always did.
type Footprint struct {
	Reads  []string
	Writes []string
}

// Empty reports whether nothing is declared.
func (f Footprint) Empty() bool { return len(f.Reads) == 0 && len(f.Writes) == 0 }

// Conflicts reports whether the order of f and g matters: an address that one
// writes and one that the other reads or writes are prefixes of one another
// (docs/ledgers/sawtooth.md#addresses-and-conflicts). Two reads never conflict. For one among
// many there is [Footprints].
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

// Compact returns a footprint that conflicts with the same others and has as few
// entries as possible, sorted: what a shorter prefix covers says nothing more, nor
// does a read of what the batch writes anyway. f is not changed.
func (f Footprint) Compact() Footprint {
	writes, reads := shortest(f.Writes), shortest(f.Reads)
	reads = slices.DeleteFunc(reads, func(r string) bool {
		// No write is a prefix of another, so only the last one before r can be one of r.
		i, same := slices.BinarySearch(writes, r)
		return same || i > 0 && strings.HasPrefix(r, writes[i-1])
	})
	if len(reads) == 0 {
		reads = nil
	}
	return Footprint{Reads: reads, Writes: writes}
}

// shortest returns a sorted copy without what another entry is a prefix of.
func shortest(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	out := slices.Sorted(slices.Values(in))
	kept := out[:1]
	for _, s := range out[1:] { // all that begins with an entry comes right after it
		if !strings.HasPrefix(s, kept[len(kept)-1]) {
			kept = append(kept, s)
		}
	}
	return slices.Clip(kept)
}

const transactionMark = "tx:" // no address of any ledger of this module begins so

// TransactionMark is the entry of a footprint that stands for a transaction: written
// by the batch that carries it, read by those that depend on it. All marks are of
// the same length. Two ids of one mark, one pair in 2^64, would only wait for each
// other in vain.
func TransactionMark(id string) string {
	sum := sha256.Sum256([]byte(id))
	return transactionMark + hex.EncodeToString(sum[:8])
}

// IsTransactionMark tells a [TransactionMark] from an address.
func IsTransactionMark(entry string) bool { return strings.HasPrefix(entry, transactionMark) }

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
