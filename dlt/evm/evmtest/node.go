package evmtest

import (
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// Node is an EVM node with its JSON-RPC server. It is an [http.Handler] for any server; [Start]
// and [Listen] bring their own. All methods may be called concurrently.
type Node struct {
	o Options
	r rules

	mu      sync.Mutex
	c       *chain
	p       *pool
	tracked []*transaction // sent transactions, for the tracker
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
	front  simnode.Front
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
		closed: make(chan struct{}),
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

// Drop makes the node forget a transaction of its pool for good, and reports whether it was there.
func (n *Node) Drop(hash string) bool {
	h, ok := evmtx.ParseHash(hash)
	n.locked(func(time.Time) {
		n.tracked = slices.DeleteFunc(n.tracked, func(tx *transaction) bool { return tx.hash == h })
		ok = ok && n.p.drop(h)
	})
	return ok
}

// HoldBack makes an Anvil keep a transaction of its pool out of every block, and with it the
// transactions of the account behind it, and reports whether it did. anvil does so where it makes
// a block while the transaction arrives. Sending the same bytes again changes nothing; another
// transaction of the same nonce with higher fees takes its place in the next block.
func (n *Node) HoldBack(hash string) (held bool) {
	h, ok := evmtx.ParseHash(hash)
	n.locked(func(time.Time) { held = ok && n.r.lax && n.p.hold(h) })
	return held
}

// Forget makes the node forget its whole pool. A node that tracks sent transactions remembers them
// at the tracker's next look.
func (n *Node) Forget() {
	n.locked(func(time.Time) { n.p = newPool(n.r.lax) })
}

// SetBaseFee sets the base fee of the next block, in wei.
func (n *Node) SetBaseFee(wei *big.Int) {
	n.locked(func(time.Time) { n.c.next = new(big.Int).Set(wei) })
}

// SetBalance sets the balance of an account, in wei. It panics if address is not an address.
func (n *Node) SetBalance(address string, wei *big.Int) {
	n.change(address, func(a *account) { a.balance = new(big.Int).Set(wei) })
}

// SetCode gives an account code. It panics if address is not an address. Code of 0xef0100 and an
// address is delegated code (EIP-7702): all but Anvil keep one transaction of such an account.
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
	n.front.Stop(func() {})
}
