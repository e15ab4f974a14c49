package evmtest

import (
	"cmp"
	"fmt"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Node is an EVM node with its JSON-RPC server. It is an [http.Handler] for any server; [Start] and
// [Listen] bring their own. All methods may be called concurrently.
type Node struct {
	o Options
	r rules

	mu      sync.Mutex
	c       *chain
	p       *pool
	tracked []*transaction // what was sent, for the tracker
	dumped  []*block       // the chain as it was dumped last; nil before the first time
	down    bool
	lives   uint64
	made    int // blocks, for the draws of faults
	asked   int // requests, for the backends of a provider
	tries   map[string]int
	late    []arrival
	journal []Entry
	// When the next block, the next dump and the tracker's next look are due; zero where none is.
	nextBlock, nextDump, nextLook time.Time

	closed chan struct{} // ends hanging requests when it is closed
	once   sync.Once
	front  front
}

// arrival is a transaction that comes in after its sender has left.
type arrival struct {
	at  time.Time
	raw []byte
}

// NewNode returns a node that does not listen anywhere. It panics on options that are out of
// range; [Listen] returns an error instead.
func NewNode(o *Options) *Node {
	n, err := newNode(o)
	if err != nil {
		panic(err)
	}
	return n
}

func newNode(o *Options) (*Node, error) {
	c, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		o: c, r: rulesOf(c.Personality), tries: map[string]int{},
		closed: make(chan struct{}), front: front{conns: map[net.Conn]struct{}{}},
	}
	now := time.Now()
	n.p = newPool(n.r.lax)
	n.c = newChain(&n.o, 0, now)
	n.begin(now)
	return n, nil
}

// begin starts what happens by itself.
func (n *Node) begin(now time.Time) {
	n.down = false
	n.nextBlock, n.nextDump, n.nextLook = time.Time{}, time.Time{}, time.Time{}
	if n.o.BlockTime > 0 {
		n.nextBlock = now.Add(n.o.BlockTime)
	}
	if n.r.lax && n.o.DumpInterval > 0 {
		n.nextDump = now.Add(n.o.DumpInterval)
	}
	if n.tracks() {
		n.nextLook = now.Add(trackerStart)
	}
}

// locked runs f under the lock, on a node that is up to date. A user's hook may panic or end its
// goroutine in there; that must not hold the lock for ever.
func (n *Node) locked(f func(now time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.advance(now)
	f(now)
}

// advance does all that was due, in the order of its times.
func (n *Node) advance(now time.Time) {
	for !n.down {
		var first time.Time
		var do func(time.Time)
		for _, due := range [...]struct {
			at time.Time
			do func(time.Time)
		}{{n.nextArrival(), n.arrive}, {n.nextBlock, n.blockDue}, {n.nextDump, n.dump}, {n.nextLook, n.lookDue}} {
			if !due.at.IsZero() && !due.at.After(now) && (do == nil || due.at.Before(first)) {
				first, do = due.at, due.do
			}
		}
		if do == nil {
			return
		}
		do(first)
	}
}

func (n *Node) nextArrival() time.Time {
	if len(n.late) == 0 {
		return time.Time{}
	}
	return n.late[0].at
}

func (n *Node) arrive(at time.Time) {
	raw := n.late[0].raw
	n.late = n.late[1:]
	n.send(at, raw, false)
}

func (n *Node) arriveLater(at time.Time, raw []byte) {
	n.late = append(n.late, arrival{at, raw})
	slices.SortStableFunc(n.late, func(a, b arrival) int { return a.at.Compare(b.at) })
}

func (n *Node) lookDue(at time.Time) {
	n.look(at)
	n.nextLook = at.Add(trackerInterval)
}

func (n *Node) dump(at time.Time) {
	n.dumped = slices.Clone(n.c.blocks)
	n.nextDump = at.Add(n.o.DumpInterval)
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
	reorg, spike := n.o.Faults.block(b.number, n.made)
	if reorg > 0 {
		n.reorg(now, reorg, nil)
	}
	if spike {
		n.c.next = new(big.Int).Mul(n.c.next, big.NewInt(int64(n.o.Faults.SpikeTimes)))
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

// settle forgets what a block has.
func (n *Node) settle(b *block) {
	for _, m := range b.txs {
		n.p.remove(m.hash)
		if n.r.lax {
			n.p.ripen(n.p.of[m.from][m.Nonce+1], nil)
		}
	}
	n.tidy()
}

// fill puts what can be mined into a block, the highest tip first.
func (n *Node) fill(b *block) {
	if n.r.lax {
		n.fillLax(b)
		return
	}
	var lanes [][]*pooled // what an account has, from its next nonce on
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

// fillLax is anvil's: it tries all that is ready, the highest fee cap first, and forgets what does not
// fit, with what became ready because of it.
func (n *Node) fillLax(b *block) {
	var free, bound []*pooled // those that wait for no other, and those that do
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
		case b.gasUsed+x.Gas > b.gasLimit:
			continue // it waits for another block, and so does what follows it
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

// tidy forgets what can never be mined, and what nobody can pay for. Anvil's pool does not look at
// accounts again.
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

// Mine makes a block now.
func (n *Node) Mine() {
	n.locked(func(now time.Time) { n.mine(now) })
}

// reorg replaces the last blocks by as many others, with the transactions of include at their
// places, and one more with all but Anvil. Geth puts what was mined back into its pool.
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

// Drop makes the node forget a transaction of its pool for good, and reports whether it was there.
func (n *Node) Drop(hash string) bool {
	h, ok := evmtx.ParseHash(hash)
	n.locked(func(time.Time) {
		n.tracked = slices.DeleteFunc(n.tracked, func(tx *transaction) bool { return tx.hash == h })
		ok = ok && n.p.drop(h)
	})
	return ok
}

// Forget makes the node forget its whole pool. One that tracks what it was sent remembers it at the
// tracker's next look.
func (n *Node) Forget() {
	n.locked(func(time.Time) { n.p = newPool(n.r.lax) })
}

// SetBaseFee sets the base fee of the next block, in wei.
func (n *Node) SetBaseFee(wei *big.Int) {
	n.locked(func(time.Time) { n.c.next = new(big.Int).Set(wei) })
}

// SetBalance sets what an account has, in wei. It panics if address is none.
func (n *Node) SetBalance(address string, wei *big.Int) {
	n.change(address, func(a *account) { a.balance = new(big.Int).Set(wei) })
}

// SetCode gives an account code. It panics if address is none. Code of 0xef0100 and an address is
// delegated code (EIP-7702): all but Anvil keep one transaction of such an account.
func (n *Node) SetCode(address string, code []byte) {
	n.change(address, func(a *account) { a.code = slices.Clone(code) })
}

func (n *Node) change(address string, f func(*account)) {
	at, err := evmtx.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	n.locked(func(time.Time) { n.alter(at, f) })
}

func (n *Node) alter(at evmtx.Address, f func(*account)) {
	a := n.c.now(at)
	f(&a)
	n.c.put(at, a)
	n.tidy()
}

// Kill is a kill -9: connections are cut and refused until [Node.Resume], the pool is forgotten,
// and blocks are lost as Options.DumpInterval and Options.KillUnmines say.
func (n *Node) Kill() {
	n.end(true)
}

// Stop ends the node with a signal that it obeys. It forgets its pool, but no block, unless it is
// an Anvil without Options.DumpInterval, which begins another chain.
func (n *Node) Stop() {
	n.end(false)
}

func (n *Node) end(killed bool) {
	n.locked(func(now time.Time) {
		if n.down {
			return
		}
		n.down = true
		n.p = newPool(n.r.lax)
		n.late = nil
		n.lives++
		n.note(Entry{Time: now, Kind: Ended})
		head := n.c.head().number
		switch {
		case n.r.lax && n.o.DumpInterval > 0 && !killed:
			n.dumped = slices.Clone(n.c.blocks)
		case n.r.lax && n.dumped != nil:
			n.unmine(now, n.c.restore(n.dumped))
		case n.r.lax:
			n.unmine(now, n.c.blocks)
			n.c = newChain(&n.o, n.lives, now)
		case killed:
			n.unmine(now, n.c.rewind(head-min(head, uint64(n.o.KillUnmines))))
		}
	})
	n.shut()
}
