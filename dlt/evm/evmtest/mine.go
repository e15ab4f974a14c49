package evmtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Mine makes a block now.
func (n *Node) Mine() {
	n.withLock(func(now time.Time) { n.mine(now) })
}

// scheduleBlock sets the time of the next block, if each transaction gets a block and the pool has
// one to mine.
func (n *Node) scheduleBlock(now time.Time) {
	if pending, _ := n.pool.counts(n.chain); n.options.BlockTime == 0 && n.nextBlock.IsZero() && pending > 0 {
		n.nextBlock = now.Add(n.options.MineDelay)
	}
}

func (n *Node) mineDueBlock(at time.Time) {
	n.nextBlock = time.Time{}
	if n.options.BlockTime > 0 {
		n.nextBlock = at.Add(n.options.BlockTime)
	}
	n.mine(at)
}

// mine makes a block of the pool, followed by the reorganization that the faults draw, if any.
func (n *Node) mine(now time.Time) {
	b := n.chain.beginBlock(now)
	n.fillBlock(b)
	n.addBlock(now, b)
	n.removeMined(b)
	n.blocksMade++
	if reorg := n.options.Faults.drawForBlock(b.number, n.blocksMade); reorg > 0 {
		n.reorg(now, reorg, nil)
	}
	n.scheduleBlock(now)
}

// addBlock gives a block its hash and puts it on the chain.
func (n *Node) addBlock(now time.Time, b *block) {
	n.chain.assignHash(b)
	n.chain.appendBlock(b)
	for _, m := range b.txs {
		n.addEntry(Entry{Time: now, Kind: Mined, Hash: m.hash.String(), From: m.from.String(), Nonce: m.Nonce, Block: b.number})
	}
}

// removeMined removes the transactions of a block from the pool.
func (n *Node) removeMined(b *block) {
	for _, m := range b.txs {
		n.pool.remove(m.hash)
		if n.rules.isLax {
			n.pool.markReady(n.pool.byAccount[m.from][m.Nonce+1], nil)
		}
	}
	n.dropUnmineable()
}

// fillBlock puts mineable transactions into a block, the highest tip first.
func (n *Node) fillBlock(b *block) {
	if n.rules.isLax {
		n.fillBlockLax(b)
		return
	}
	var lanes [][]*pooledTx // each account's transactions, from its next nonce on
	for _, a := range n.pool.accounts() {
		if pending, _ := n.pool.splitPending(a, n.chain.accountNow(a).nonce); len(pending) > 0 {
			lanes = append(lanes, pending)
		}
	}
	for len(lanes) > 0 {
		best := 0
		for i, l := range lanes {
			x, y := l[0], lanes[best][0]
			if d := x.tipAt(b.baseFee).Cmp(y.tipAt(b.baseFee)); d > 0 || d == 0 && x.sequence < y.sequence {
				best = i
			}
		}
		tx := lanes[best][0].transaction
		fits := n.chain.fits(b, tx)
		if fits {
			n.chain.execute(b, tx)
		}
		if lanes[best] = lanes[best][1:]; !fits || len(lanes[best]) == 0 {
			lanes = slices.Delete(lanes, best, best+1)
		}
	}
}

// fillBlockLax fills a block as anvil does. It tries all ready transactions, the highest fee cap
// first. It forgets each that does not fit, with the transactions that became ready because of it.
func (n *Node) fillBlockLax(b *block) {
	var free, bound []*pooledTx // transactions without, and with, an earlier one to wait for
	for _, a := range n.pool.accounts() {
		pending, _ := n.pool.splitPending(a, 0)
		for _, x := range pending {
			if x.readyAfter != nil && n.pool.byHash[x.readyAfter.hash] == x.readyAfter {
				bound = append(bound, x)
			} else {
				free = append(free, x)
			}
		}
	}
	var bad []*pooledTx
	for len(free) > 0 {
		slices.SortFunc(free, func(x, y *pooledTx) int { return cmp.Or(y.FeeCap.Cmp(x.FeeCap), cmp.Compare(x.sequence, y.sequence)) })
		x := free[0]
		free = free[1:]
		switch {
		case n.chain.fits(b, x.transaction):
			n.chain.execute(b, x.transaction)
		case b.gasUsed+x.Gas > b.gasLimit, b.blobGas+x.blobGas() > maxBlobs*evmtx.BlobSize:
			continue // this transaction and those after it wait for another block
		default:
			bad = append(bad, x)
		}
		bound = slices.DeleteFunc(bound, func(y *pooledTx) bool {
			if y.readyAfter == x {
				free = append(free, y)
			}
			return y.readyAfter == x
		})
	}
	for _, x := range bad {
		n.pool.removeWithFollowers(x.hash)
	}
}

// dropUnmineable removes transactions that can never be mined, or whose account cannot pay for
// them. Anvil's pool does not check accounts again.
func (n *Node) dropUnmineable() {
	if n.rules.isLax {
		return
	}
	for _, a := range n.pool.accounts() {
		state := n.chain.accountNow(a)
		for _, x := range n.pool.txsByNonce(a) {
			if x.Nonce < state.nonce || x.cost().Cmp(state.balanceOrZero()) > 0 {
				n.pool.remove(x.hash)
			}
		}
	}
}

// reorg replaces the last blocks by the same number of blocks, plus one for all personalities but
// Anvil. include has transactions for each new block. Geth puts transactions of lost blocks back
// into its pool.
func (n *Node) reorg(now time.Time, depth int, include map[int][]*transaction) {
	head := n.chain.head().number
	depth = min(depth, int(head))
	gone := n.removeBlocksAbove(head - uint64(depth))
	blocks := depth
	if !n.rules.isLax && depth > 0 {
		blocks++
	}
	for i := range blocks {
		b := n.chain.beginBlock(now)
		for _, tx := range include[i] {
			if n.chain.fits(b, tx) {
				n.chain.execute(b, tx)
			}
		}
		n.addBlock(now, b)
		if !n.rules.isLax { // anvil's pool does not process these blocks
			n.removeMined(b)
		}
	}
	n.recordUnmined(now, gone)
	if !n.rules.isLax && depth <= 64 {
		for _, b := range gone {
			for _, m := range b.txs {
				if n.chain.txs[m.hash] == nil && n.checkAdmission(m.transaction, nil) == nil {
					n.addToPool(now, m.transaction)
				}
			}
		}
	}
}

// removeBlocksAbove removes the blocks above a number. Anvil keeps the base fee that it had.
func (n *Node) removeBlocksAbove(number uint64) []*block {
	next := n.chain.nextBaseFee
	gone := n.chain.removeAbove(number)
	if n.rules.isLax {
		n.chain.nextBaseFee = next
	}
	return gone
}

func (n *Node) recordUnmined(now time.Time, gone []*block) {
	for _, b := range gone {
		for _, m := range b.txs {
			n.addEntry(Entry{Time: now, Kind: Unmined, Hash: m.hash.String(), From: m.from.String(), Nonce: m.Nonce, Block: b.number})
		}
	}
}

// Reorg replaces the last depth blocks, at most the height, by the same number of other blocks.
// with are signed transactions: the first new block gets with[0] at its end, the second one
// with[1], and so on, where the chain allows them. A transaction of a lost block is in no block
// then. With every personality but Anvil it is in the pool again, unless the new blocks use its
// nonce.
func (n *Node) Reorg(depth int, with ...[]byte) error {
	var err error
	n.withLock(func(now time.Time) {
		include := map[int][]*transaction{}
		for i, raw := range with {
			tx, why := n.decodeSigned(raw)
			if why != nil {
				err = fmt.Errorf("evmtest: transaction %d of a reorg: %s", i, why.reason)
				return
			}
			include[i] = append(include[i], tx)
		}
		n.reorg(now, depth, include)
	})
	return err
}
