package evm

import (
	"sync"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// mined remembers receipts of blocks that are not deep yet. The effect of a transaction in a block
// does not change, so from then on only the block has to be asked for, once for all that it
// executed: it is still on the chain, or the receipt is void.
type mined struct {
	mu sync.Mutex
	by map[evmtx.Hash]*receipt
}

const (
	maxMined      = 4096
	maxRemembered = 4 << 10 // of a receipt, in bytes
)

// of returns the receipts that are remembered, nil for the others.
func (m *mined) of(hashes []evmtx.Hash) []*receipt {
	out := make([]*receipt, len(hashes))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, h := range hashes {
		out[i] = m.by[h]
	}
	return out
}

func (m *mined) remember(r *receipt) {
	if len(r.raw) > maxRemembered {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil || len(m.by) >= maxMined {
		m.by = map[evmtx.Hash]*receipt{}
	}
	m.by[r.hash] = r
}

func (m *mined) forget(h evmtx.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.by, h)
}
