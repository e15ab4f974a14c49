package sawtooth

import (
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// Declared is what one transaction's header declares that the transaction reads and writes.
type Declared struct {
	ID           string // id of the transaction; "" if none will depend on it
	Inputs       []string
	Outputs      []string
	Dependencies []string // ids of transactions of other batches
}

// Footprint returns the footprint of a batch of these transactions, in as few entries as possible,
// for strategies that let batches overtake each other
// (docs/ledgers/sawtooth.md#addresses-and-conflicts, docs/ledgers/sawtooth.md#dependencies). A
// dependency is a read of the other transaction's mark. So a batch waits for an earlier batch of
// its lane that it depends on. If it depends on a later batch, the later batch waits for it, as
// with any other conflict.
//
// The footprint is empty, and so conflicts with everything, where addresses prove nothing: none is
// declared, one is malformed, one lies in or covers the namespace of settings or identities, which
// control the execution of everything else, or there are more than [batch.MaxFootprint].
//
// A Sawtooth validator lets a transaction use only the addresses that it declares. Scabbard does
// not check them (docs/ledgers/splinter.md#order), so there the footprint is right only if the
// signer declared the addresses correctly.
func Footprint(txs ...Declared) batch.Footprint {
	var f batch.Footprint
	reads, writes := 0, 0
	for _, t := range txs {
		reads += len(t.Inputs) + len(t.Dependencies)
		writes += len(t.Outputs) + 1
	}
	f.Reads, f.Writes = make([]string, 0, reads), make([]string, 0, writes)
	for _, t := range txs {
		if !areOrdinary(t.Inputs) || !areOrdinary(t.Outputs) {
			return batch.Footprint{}
		}
		f.Reads, f.Writes = append(f.Reads, t.Inputs...), append(f.Writes, t.Outputs...)
	}
	if f.Empty() {
		return batch.Footprint{}
	}
	for _, t := range txs {
		if t.ID != "" {
			f.Writes = append(f.Writes, batch.TransactionMark(t.ID))
		}
		for _, d := range t.Dependencies {
			f.Reads = append(f.Reads, batch.TransactionMark(d))
		}
	}
	f = f.Compact()
	if len(f.Reads)+len(f.Writes) > batch.MaxFootprint {
		return batch.Footprint{}
	}
	return f
}

// The namespaces of the settings and identity families.
const (
	settingsNamespace = "000000"
	identityNamespace = "00001d"
)

// areOrdinary reports whether all addresses are well-formed and outside the special namespaces.
func areOrdinary(addresses []string) bool {
	for _, a := range addresses {
		if !isAddress(a) {
			return false
		}
		for _, ns := range [...]string{settingsNamespace, identityNamespace} {
			if strings.HasPrefix(a, ns) || strings.HasPrefix(ns, a) {
				return false
			}
		}
	}
	return true
}
