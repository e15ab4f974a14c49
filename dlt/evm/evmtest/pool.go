package evmtest

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// pooledTx is a transaction in the pool.
type pooledTx struct {
	*transaction
	sequence int // the order of arrival; in a lax pool the order in which transactions became ready
	// isReady and readyAfter are used by a lax pool only.
	isReady    bool
	readyAfter *pooledTx // the transaction whose nonce made this one ready; nil if the account's nonce did
}

// pool holds the transactions that a node knows and no block has. A pool of geth's kind sorts them
// by the account's nonce at each question. A lax pool, as anvil's, decides once which transactions
// are ready, and does not check again: after a reorganization the transactions behind a lost nonce
// stay ready, and the next block drops them.
type pool struct {
	isLax        bool
	byHash       map[evmtx.Hash]*pooledTx
	byAccount    map[evmtx.Address]map[uint64]*pooledTx
	lastSequence int
}

func newPool(lax bool) *pool {
	return &pool{isLax: lax, byHash: map[evmtx.Hash]*pooledTx{}, byAccount: map[evmtx.Address]map[uint64]*pooledTx{}}
}

// add adds a transaction, and removes another one of its nonce. nonce is the account's next.
func (p *pool) add(tx *transaction, nonce uint64) {
	mine := p.byAccount[tx.from]
	if mine == nil {
		mine = map[uint64]*pooledTx{}
		p.byAccount[tx.from] = mine
	}
	p.lastSequence++
	x := &pooledTx{transaction: tx, sequence: p.lastSequence}
	if old := mine[tx.Nonce]; old != nil {
		delete(p.byHash, old.hash)
		x.isReady, x.readyAfter = old.isReady, old.readyAfter
		for _, y := range mine {
			if y.readyAfter == old {
				y.readyAfter = x
			}
		}
	}
	mine[tx.Nonce], p.byHash[tx.hash] = x, x
	if !p.isLax {
		return
	}
	before := mine[tx.Nonce-1] // nil for nonce 0
	switch {
	case x.isReady:
	case tx.Nonce == nonce:
		p.markReady(x, nil)
	case before != nil && before.isReady:
		p.markReady(x, before)
	}
}

// markReady makes a transaction of a lax pool ready, and with it those that waited for it.
func (p *pool) markReady(x, after *pooledTx) {
	for x != nil && !x.isReady {
		p.lastSequence++
		x.isReady, x.readyAfter, x.sequence = true, after, p.lastSequence
		x, after = p.byAccount[x.from][x.Nonce+1], x
	}
}

func (p *pool) remove(h evmtx.Hash) bool {
	x := p.byHash[h]
	if x == nil {
		return false
	}
	delete(p.byHash, h)
	delete(p.byAccount[x.from], x.Nonce)
	if len(p.byAccount[x.from]) == 0 {
		delete(p.byAccount, x.from)
	}
	return true
}

// removeWithFollowers removes a transaction and, in a lax pool, those that are ready because of
// it.
func (p *pool) removeWithFollowers(h evmtx.Hash) bool {
	x := p.byHash[h]
	if x == nil {
		return false
	}
	p.remove(h)
	for _, y := range p.txsByNonce(x.from) {
		if y.readyAfter == x {
			p.removeWithFollowers(y.hash)
		}
	}
	return true
}

// holdBack makes a transaction of a lax pool wait, and with it those that are ready because of it.
func (p *pool) holdBack(h evmtx.Hash) bool {
	x := p.byHash[h]
	if x == nil || !x.isReady {
		return false
	}
	x.isReady, x.readyAfter = false, nil
	for _, y := range p.txsByNonce(x.from) {
		if y.readyAfter == x {
			p.holdBack(y.hash)
		}
	}
	return true
}

// firstFreeNonce returns the first nonce, from nonce on, of which the pool has no transaction.
func (p *pool) firstFreeNonce(a evmtx.Address, nonce uint64) uint64 {
	mine := p.byAccount[a]
	for mine[nonce] != nil {
		nonce++
	}
	return nonce
}

// pendingNonce returns the pending count of an account with this nonce.
func (p *pool) pendingNonce(a evmtx.Address, nonce uint64) uint64 {
	if !p.isLax {
		return p.firstFreeNonce(a, nonce)
	}
	for _, x := range p.byAccount[a] {
		if x.isReady {
			nonce = max(nonce, x.Nonce+1)
		}
	}
	return nonce
}

// splitPending returns the transactions of an account that can be mined, as the pool sees it, and
// those that wait for an earlier nonce.
func (p *pool) splitPending(a evmtx.Address, nonce uint64) (pending, queued []*pooledTx) {
	until := p.firstFreeNonce(a, nonce)
	for _, x := range p.txsByNonce(a) {
		if p.isLax && x.isReady || !p.isLax && x.Nonce < until {
			pending = append(pending, x)
		} else {
			queued = append(queued, x)
		}
	}
	return pending, queued
}

// txsByNonce returns the transactions of an account by nonce.
func (p *pool) txsByNonce(a evmtx.Address) []*pooledTx {
	out := make([]*pooledTx, 0, len(p.byAccount[a]))
	for _, x := range p.byAccount[a] {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *pooledTx) int { return cmp.Compare(a.Nonce, b.Nonce) })
	return out
}

// costExcept returns the cost of all transactions of an account but the one with the nonce but.
func (p *pool) costExcept(a evmtx.Address, but uint64) *big.Int {
	sum := new(big.Int)
	for nonce, x := range p.byAccount[a] {
		if nonce != but {
			sum.Add(sum, x.cost())
		}
	}
	return sum
}

// accounts returns the accounts that have transactions, in the order of their addresses.
func (p *pool) accounts() []evmtx.Address {
	out := make([]evmtx.Address, 0, len(p.byAccount))
	for a := range p.byAccount {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b evmtx.Address) int { return slices.Compare(a[:], b[:]) })
	return out
}

// hasOtherKind reports whether the pool has transactions of the other kind of this account: with
// blobs if tx has none, or without if tx has some. Geth has a pool for each kind, and an account
// is in only one of them.
func (p *pool) hasOtherKind(tx *transaction) bool {
	for _, x := range p.byAccount[tx.from] {
		return (x.Type == evmtx.Blob) != (tx.Type == evmtx.Blob) // all are of one kind
	}
	return false
}

// counts returns how many transactions can be mined as they are, and how many wait for an earlier
// nonce.
func (p *pool) counts(c *chain) (pending, queued int) {
	for a, mine := range p.byAccount {
		ready := 0
		if p.isLax {
			for _, x := range mine {
				if x.isReady {
					ready++
				}
			}
		} else {
			from := c.accountNow(a).nonce
			ready = int(p.firstFreeNonce(a, from) - from)
		}
		pending += ready
		queued += len(mine) - ready
	}
	return pending, queued
}
