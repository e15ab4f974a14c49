package evm

import (
	"sync"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// receiptMemory remembers receipts of blocks that are not deep yet. The effect of a transaction in
// a block does not change. So afterwards one question about the block serves all its transactions:
// the block is still on the chain, or its receipts are void.
type receiptMemory struct {
	mu     sync.Mutex
	byHash map[evmtx.Hash]*receipt
}

const (
	maxRememberedReceipts = 4096
	maxRememberedBytes    = 4 << 10 // largest receipt that is remembered
)

// receiptsOf returns the remembered receipts of the transactions with these hashes, nil where none
// is remembered.
func (m *receiptMemory) receiptsOf(hashes []evmtx.Hash) []*receipt {
	out := make([]*receipt, len(hashes))
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, h := range hashes {
		out[i] = m.byHash[h]
	}
	return out
}

func (m *receiptMemory) remember(r *receipt) {
	if len(r.raw) > maxRememberedBytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byHash == nil || len(m.byHash) >= maxRememberedReceipts {
		m.byHash = map[evmtx.Hash]*receipt{}
	}
	m.byHash[r.hash] = r
}

func (m *receiptMemory) forget(h evmtx.Hash) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byHash, h)
}
