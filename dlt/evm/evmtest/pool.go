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
	seq int // by arrival; in a lax pool by when it became ready
	// ready and after are of a lax pool.
	ready bool
	after *pooled // whose nonce made it ready; nil where it was the account's
}

// pool holds the transactions that a node knows and no block has. A pool of geth's kind sorts by
// the account's nonce whenever it is asked. A lax one, anvil's, decides once which transactions
// are ready, and does not look again: after a reorg the followers of a lost nonce stay ready, and
// the next block's maker forgets it.
type pool struct {
	lax bool
	txs map[evmtx.Hash]*pooled
	of  map[evmtx.Address]map[uint64]*pooled
	seq int
}

func newPool(lax bool) *pool {
	return &pool{lax: lax, txs: map[evmtx.Hash]*pooled{}, of: map[evmtx.Address]map[uint64]*pooled{}}
}

// add takes a transaction, and the place of another of its nonce. nonce is the account's.
func (p *pool) add(tx *transaction, nonce uint64) {
	mine := p.of[tx.from]
	if mine == nil {
		mine = map[uint64]*pooled{}
		p.of[tx.from] = mine
	}
	p.seq++
	x := &pooled{transaction: tx, seq: p.seq}
	if old := mine[tx.Nonce]; old != nil {
		delete(p.txs, old.hash)
		x.ready, x.after = old.ready, old.after
		for _, y := range mine {
			if y.after == old {
				y.after = x
			}
		}
	}
	mine[tx.Nonce], p.txs[tx.hash] = x, x
	if !p.lax {
		return
	}
	before := mine[tx.Nonce-1] // nil for nonce 0
	switch {
	case x.ready:
	case tx.Nonce == nonce:
		p.ripen(x, nil)
	case before != nil && before.ready:
		p.ripen(x, before)
	}
}

// ripen makes a transaction of a lax pool ready, and the transactions that waited for it.
func (p *pool) ripen(x, after *pooled) {
	for x != nil && !x.ready {
		p.seq++
		x.ready, x.after, x.seq = true, after, p.seq
		x, after = p.of[x.from][x.Nonce+1], x
	}
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

// drop removes a transaction, and in a lax pool the transactions that are ready because of it.
func (p *pool) drop(h evmtx.Hash) bool {
	x := p.txs[h]
	if x == nil {
		return false
	}
	p.remove(h)
	for _, y := range p.waiting(x.from) {
		if y.after == x {
			p.drop(y.hash)
		}
	}
	return true
}

// hold makes a transaction of a lax pool wait, and the transactions that are ready because of it.
func (p *pool) hold(h evmtx.Hash) bool {
	x := p.txs[h]
	if x == nil || !x.ready {
		return false
	}
	x.ready, x.after = false, nil
	for _, y := range p.waiting(x.from) {
		if y.after == x {
			p.hold(y.hash)
		}
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

// next returns the pending count of an account whose nonce is this.
func (p *pool) next(a evmtx.Address, nonce uint64) uint64 {
	if !p.lax {
		return p.until(a, nonce)
	}
	for _, x := range p.of[a] {
		if x.ready {
			nonce = max(nonce, x.Nonce+1)
		}
	}
	return nonce
}

// split returns the transactions that can be mined, as the pool sees it, and those waiting for an
// earlier nonce.
func (p *pool) split(a evmtx.Address, nonce uint64) (pending, queued []*pooled) {
	until := p.until(a, nonce)
	for _, x := range p.waiting(a) {
		if p.lax && x.ready || !p.lax && x.Nonce < until {
			pending = append(pending, x)
		} else {
			queued = append(queued, x)
		}
	}
	return pending, queued
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

// cost returns the cost of all transactions of an account, except at one nonce.
func (p *pool) cost(a evmtx.Address, but uint64) *big.Int {
	sum := new(big.Int)
	for nonce, x := range p.of[a] {
		if nonce != but {
			sum.Add(sum, x.cost())
		}
	}
	return sum
}

// accounts returns the accounts that have transactions, in the order of their addresses.
func (p *pool) accounts() []evmtx.Address {
	out := make([]evmtx.Address, 0, len(p.of))
	for a := range p.of {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b evmtx.Address) int { return slices.Compare(a[:], b[:]) })
	return out
}

// reserved reports whether the account has transactions of the other kind here: with blobs where
// this one has none, or the reverse. Geth keeps them in two pools, and an account in one of them.
func (p *pool) reserved(tx *transaction) bool {
	for _, x := range p.of[tx.from] {
		return (x.Type == evmtx.Blob) != (tx.Type == evmtx.Blob) // all are of one kind
	}
	return false
}

// counts returns how many can be mined as they are, and how many wait for a nonce before them.
func (p *pool) counts(c *chain) (pending, queued int) {
	for a, mine := range p.of {
		ready := 0
		if p.lax {
			for _, x := range mine {
				if x.ready {
					ready++
				}
			}
		} else {
			from := c.now(a).nonce
			ready = int(p.until(a, from) - from)
		}
		pending += ready
		queued += len(mine) - ready
	}
	return pending, queued
}
