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
	n.locked(func(now time.Time) { n.mine(now) })
}

// arm makes a block due where each transaction gets one.
func (n *Node) arm(now time.Time) {
	if pending, _ := n.p.counts(n.c); n.o.BlockTime == 0 && n.nextBlock.IsZero() && pending > 0 {
		n.nextBlock = now.Add(n.o.MineDelay)
	}
}

func (n *Node) blockDue(at time.Time) {
	n.nextBlock = time.Time{}
	if n.o.BlockTime > 0 {
		n.nextBlock = at.Add(n.o.BlockTime)
	}
	n.mine(at)
}

// mine makes a block of the pool, and what the faults say comes after it.
func (n *Node) mine(now time.Time) {
	b := n.c.open(now)
	n.fill(b)
	n.seal(now, b)
	n.settle(b)
	n.made++
	if reorg := n.o.Faults.block(b.number, n.made); reorg > 0 {
		n.reorg(now, reorg, nil)
	}
	n.arm(now)
}

// seal ends a block and puts it on the chain.
func (n *Node) seal(now time.Time, b *block) {
	n.c.seal(b)
	n.c.append(b)
	for _, m := range b.txs {
		n.note(Entry{Time: now, Kind: Mined, Hash: m.hash.String(), From: m.from.String(), Nonce: m.Nonce, Block: b.number})
	}
}

// settle forgets the transactions of a block.
func (n *Node) settle(b *block) {
	for _, m := range b.txs {
		n.p.remove(m.hash)
		if n.r.lax {
			n.p.ripen(n.p.of[m.from][m.Nonce+1], nil)
		}
	}
	n.tidy()
}

// fill puts mineable transactions into a block, the highest tip first.
func (n *Node) fill(b *block) {
	if n.r.lax {
		n.fillLax(b)
		return
	}
	var lanes [][]*pooled // an account's transactions, from its next nonce on
	for _, a := range n.p.accounts() {
		if pending, _ := n.p.split(a, n.c.now(a).nonce); len(pending) > 0 {
			lanes = append(lanes, pending)
		}
	}
	for len(lanes) > 0 {
		best := 0
		for i, l := range lanes {
			x, y := l[0], lanes[best][0]
			if d := x.tipAt(b.baseFee).Cmp(y.tipAt(b.baseFee)); d > 0 || d == 0 && x.seq < y.seq {
				best = i
			}
		}
		tx := lanes[best][0].transaction
		fits := n.c.fits(b, tx)
		if fits {
			n.c.execute(b, tx)
		}
		if lanes[best] = lanes[best][1:]; !fits || len(lanes[best]) == 0 {
			lanes = slices.Delete(lanes, best, best+1)
		}
	}
}

// fillLax is anvil's: it tries all ready transactions, the highest fee cap first. It forgets each
// that does not fit, with the transactions that became ready because of that.
func (n *Node) fillLax(b *block) {
	var free, bound []*pooled // first without, then with an earlier one to wait for
	for _, a := range n.p.accounts() {
		pending, _ := n.p.split(a, 0)
		for _, x := range pending {
			if x.after != nil && n.p.txs[x.after.hash] == x.after {
				bound = append(bound, x)
			} else {
				free = append(free, x)
			}
		}
	}
	var bad []*pooled
	for len(free) > 0 {
		slices.SortFunc(free, func(x, y *pooled) int { return cmp.Or(y.FeeCap.Cmp(x.FeeCap), cmp.Compare(x.seq, y.seq)) })
		x := free[0]
		free = free[1:]
		switch {
		case n.c.fits(b, x.transaction):
			n.c.execute(b, x.transaction)
		case b.gasUsed+x.Gas > b.gasLimit, b.blobGas+x.blobGas() > maxBlobs*evmtx.BlobSize:
			continue // it waits for another block, and so do its followers
		default:
			bad = append(bad, x)
		}
		bound = slices.DeleteFunc(bound, func(y *pooled) bool {
			if y.after == x {
				free = append(free, y)
			}
			return y.after == x
		})
	}
	for _, x := range bad {
		n.p.drop(x.hash)
	}
}

// tidy forgets transactions that can never be mined, and transactions that nobody can pay for.
// Anvil's pool does not look at accounts again.
func (n *Node) tidy() {
	if n.r.lax {
		return
	}
	for _, a := range n.p.accounts() {
		state := n.c.now(a)
		for _, x := range n.p.waiting(a) {
			if x.Nonce < state.nonce || x.cost().Cmp(state.funds()) > 0 {
				n.p.remove(x.hash)
			}
		}
	}
}

// reorg replaces the last blocks by as many others, with the transactions of include at their
// places, and one more with all but Anvil. Geth puts mined transactions back into its pool.
func (n *Node) reorg(now time.Time, depth int, include map[int][]*transaction) {
	head := n.c.head().number
	depth = min(depth, int(head))
	gone := n.takeBack(head - uint64(depth))
	blocks := depth
	if !n.r.lax && depth > 0 {
		blocks++
	}
	for i := range blocks {
		b := n.c.open(now)
		for _, tx := range include[i] {
			if n.c.fits(b, tx) {
				n.c.execute(b, tx)
			}
		}
		n.seal(now, b)
		if !n.r.lax { // anvil's pool does not hear of these blocks
			n.settle(b)
		}
	}
	n.unmine(now, gone)
	if !n.r.lax && depth <= 64 {
		for _, b := range gone {
			for _, m := range b.txs {
				if n.c.txs[m.hash] == nil && n.admit(m.transaction, nil) == nil {
					n.put(now, m.transaction)
				}
			}
		}
	}
}

// takeBack takes the blocks above a number away. Anvil goes on with the base fee that it had.
func (n *Node) takeBack(number uint64) []*block {
	next := n.c.next
	gone := n.c.rewind(number)
	if n.r.lax {
		n.c.next = next
	}
	return gone
}

func (n *Node) unmine(now time.Time, gone []*block) {
	for _, b := range gone {
		for _, m := range b.txs {
			n.note(Entry{Time: now, Kind: Unmined, Hash: m.hash.String(), From: m.from.String(), Nonce: m.Nonce, Block: b.number})
		}
	}
}

// Reorg replaces the last blocks by others. The first of these have the given signed bytes, where
// they may be mined there, each at the end of its block: with[0] in the first, and so on. A
// transaction that was mined in a lost block is in no block then, and with all but Anvil in the
// pool again, unless the new blocks use its nonce. depth is at most the height.
func (n *Node) Reorg(depth int, with ...[]byte) error {
	var err error
	n.locked(func(now time.Time) {
		include := map[int][]*transaction{}
		for i, raw := range with {
			tx, why := n.read(raw)
			if why != nil {
				err = fmt.Errorf("evmtest: transaction %d of a reorg: %s", i, why.why)
				return
			}
			include[i] = append(include[i], tx)
		}
		n.reorg(now, depth, include)
	})
	return err
}
