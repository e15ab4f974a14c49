package sawtooth

import (
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

// Declared is what one transaction's header declares.
type Declared struct {
	ID           string // of the transaction; "" if nothing will depend on it
	Inputs       []string
	Outputs      []string
	Dependencies []string // ids of transactions of other batches
}

// Footprint is what a batch of these transactions declares, for strategies that let
// batches overtake each other (docs/ledgers/sawtooth.md#addresses-and-conflicts,
// docs/ledgers/sawtooth.md#dependencies), in as few entries as say the same. A dependency is a
// read of the other transaction's mark, so a batch waits for the one it names where that comes
// before it in their lane; one that names a later one holds it up, as any other conflict does.
//
// The footprint is empty, and so conflicts with everything, where addresses do not
// tell: none at all is declared, one is malformed, one lies in or covers the
// namespace of settings or identities, which decide how and whether everything else
// is executed, or there are more than [batch.MaxFootprint].
//
// A Sawtooth validator keeps a transaction to what it declares. Scabbard does not
// look (docs/ledgers/splinter.md#order), so that there a footprint is no more than the signer's
// word.
func Footprint(txs ...Declared) batch.Footprint {
	var f batch.Footprint
	reads, writes := 0, 0
	for _, t := range txs {
		reads += len(t.Inputs) + len(t.Dependencies)
		writes += len(t.Outputs) + 1
	}
	f.Reads, f.Writes = make([]string, 0, reads), make([]string, 0, writes)
	for _, t := range txs {
		if !plain(t.Inputs) || !plain(t.Outputs) {
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

// plain reports whether these are addresses of ordinary state.
func plain(addresses []string) bool {
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
