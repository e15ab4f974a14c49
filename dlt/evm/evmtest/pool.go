package evmtest

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// pooled is a transaction that waits.
type pooled struct {
	*transaction
	seq int // by arrival
}

// pool is what a node knows and no block has.
type pool struct {
	txs map[evmtx.Hash]*pooled
	of  map[evmtx.Address]map[uint64]*pooled
	seq int
}

func newPool() *pool {
	return &pool{txs: map[evmtx.Hash]*pooled{}, of: map[evmtx.Address]map[uint64]*pooled{}}
}

// add takes a transaction, and the place of another of its nonce.
func (p *pool) add(tx *transaction) {
	mine := p.of[tx.from]
	if mine == nil {
		mine = map[uint64]*pooled{}
		p.of[tx.from] = mine
	}
	if old := mine[tx.Nonce]; old != nil {
		delete(p.txs, old.hash)
	}
	p.seq++
	x := &pooled{tx, p.seq}
	mine[tx.Nonce], p.txs[tx.hash] = x, x
}

func (p *pool) remove(h evmtx.Hash) bool {
	x := p.txs[h]
	if x == nil {
		return false
	}
	delete(p.txs, h)
	delete(p.of[x.from], x.Nonce)
	if len(p.of[x.from]) == 0 {
		delete(p.of, x.from)
	}
	return true
}

// until returns the first nonce that the pool does not have, from one on.
func (p *pool) until(a evmtx.Address, nonce uint64) uint64 {
	mine := p.of[a]
	for mine[nonce] != nil {
		nonce++
	}
	return nonce
}

// waiting returns the transactions of an account by nonce.
func (p *pool) waiting(a evmtx.Address) []*pooled {
	out := make([]*pooled, 0, len(p.of[a]))
	for _, x := range p.of[a] {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *pooled) int { return cmp.Compare(a.Nonce, b.Nonce) })
	return out
}

// cost is what all transactions of an account cost, but for that of one nonce.
func (p *pool) cost(a evmtx.Address, but uint64) *big.Int {
	sum := new(big.Int)
	for nonce, x := range p.of[a] {
		if nonce != but {
			sum.Add(sum, x.cost())
		}
	}
	return sum
}

// accounts returns those with transactions, in the order of their addresses.
func (p *pool) accounts() []evmtx.Address {
	out := make([]evmtx.Address, 0, len(p.of))
	for a := range p.of {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b evmtx.Address) int { return slices.Compare(a[:], b[:]) })
	return out
}

// counts returns how many can be mined as they are, and how many wait for a nonce before them.
func (p *pool) counts(c *chain) (pending, queued int) {
	for a, mine := range p.of {
		from := c.now(a).nonce
		n := int(p.until(a, from) - from)
		pending += n
		queued += len(mine) - n
	}
	return pending, queued
}
