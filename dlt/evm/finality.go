package evm

import "fmt"

// Finality says how deep a block must be before its transactions count as Committed or Invalid.
// The zero value means that the chain itself says so, by its "finalized" block.
type Finality struct {
	blocks    uint64
	isInstant bool
}

// Instant is for chains whose blocks are final at once (QBFT, IBFT, Raft). On any other chain it
// makes the client report commits that a reorganization may take back.
func Instant() Finality { return Finality{isInstant: true} }

// After counts a block as deep once this number of blocks stands on top of it; After(0) is
// [Instant]. A reorganization of more blocks takes back batches that were reported as committed.
// The engine reports that as an event (Traits.Vanish) and does not undo it.
func After(blocks uint64) Finality { return Finality{blocks: blocks, isInstant: blocks == 0} }

// String returns the rule in words.
func (f Finality) String() string {
	switch {
	case f.isInstant:
		return "instant"
	case f.blocks > 0:
		return fmt.Sprintf("after %d blocks", f.blocks)
	}
	return "finalized"
}

// usesTag reports whether the node's "finalized" block says which block is deep.
func (f Finality) usesTag() bool { return !f.isInstant && f.blocks == 0 }
