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
	options Options
	rules   rules

	mu             sync.Mutex
	chain          *chain
	pool           *pool
	trackedTxs     []*transaction // sent transactions, for the tracker
	dumpedBlocks   []*block       // the chain at the last dump; nil before the first
	isDown         bool
	timesEnded     uint64
	blocksMade     int // how many blocks were made, for the draws of faults
	requestsServed int // how many requests came, for the backends of a provider
	requestCounts  map[string]int
	lateArrivals   []arrival
	journal        []Entry
	// The times of the next block, the next dump and the tracker's next look; zero means none.
	nextBlock, nextDump, nextTrackerRun time.Time

	closed    chan struct{} // closed to end hanging requests
	closeOnce sync.Once
	front     simnode.Front
}

// arrival is a transaction that arrives after its sender's connection has ended.
type arrival struct {
	due time.Time
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
		options: c, rules: rulesOf(c.Personality), requestCounts: map[string]int{},
		closed: make(chan struct{}),
	}
	now := time.Now()
	n.pool = newPool(n.rules.isLax)
	n.chain = newChain(&n.options, 0, now)
	n.startTimers(now)
	return n, nil
}

// startTimers sets the times of blocks, dumps and the tracker when the node starts.
func (n *Node) startTimers(now time.Time) {
	n.isDown = false
	n.nextBlock, n.nextDump, n.nextTrackerRun = time.Time{}, time.Time{}, time.Time{}
	if n.options.BlockTime > 0 {
		n.nextBlock = now.Add(n.options.BlockTime)
	}
	if n.rules.isLax && n.options.DumpInterval > 0 {
		n.nextDump = now.Add(n.options.DumpInterval)
	}
	if n.hasTracker() {
		n.nextTrackerRun = now.Add(trackerStartDelay)
	}
}

// withLock runs f under the lock, after the node did everything that was due. A user's hook in f
// may panic or end its goroutine, and the lock must not be held for ever then.
func (n *Node) withLock(f func(now time.Time)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.runDue(now)
	f(now)
}

// runDue does everything that was due, in the order of its times.
func (n *Node) runDue(now time.Time) {
	for !n.isDown {
		var first time.Time
		var do func(time.Time)
		for _, due := range [...]struct {
			at time.Time
			do func(time.Time)
		}{{n.nextArrival(), n.receiveFirstArrival}, {n.nextBlock, n.mineDueBlock}, {n.nextDump, n.dumpChain}, {n.nextTrackerRun, n.runTracker}} {
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
	if len(n.lateArrivals) == 0 {
		return time.Time{}
	}
	return n.lateArrivals[0].due
}

func (n *Node) receiveFirstArrival(at time.Time) {
	raw := n.lateArrivals[0].raw
	n.lateArrivals = n.lateArrivals[1:]
	n.receive(at, raw, false)
}

func (n *Node) scheduleArrival(at time.Time, raw []byte) {
	n.lateArrivals = append(n.lateArrivals, arrival{at, raw})
	slices.SortStableFunc(n.lateArrivals, func(a, b arrival) int { return a.due.Compare(b.due) })
}

func (n *Node) runTracker(at time.Time) {
	n.restoreTracked(at)
	n.nextTrackerRun = at.Add(trackerInterval)
}

func (n *Node) dumpChain(at time.Time) {
	n.dumpedBlocks = slices.Clone(n.chain.blocks)
	n.nextDump = at.Add(n.options.DumpInterval)
}

// Drop makes the node forget a transaction of its pool for good, and reports whether it was there.
func (n *Node) Drop(hash string) bool {
	h, ok := evmtx.ParseHash(hash)
	n.withLock(func(time.Time) {
		n.trackedTxs = slices.DeleteFunc(n.trackedTxs, func(tx *transaction) bool { return tx.hash == h })
		ok = ok && n.pool.removeWithFollowers(h)
	})
	return ok
}

// HoldBack makes an Anvil keep a transaction of its pool, and the later ones of the account, out
// of every block, and reports whether the pool had it. The real anvil does so where it makes a
// block while the transaction arrives. Sending the same bytes again changes nothing; another
// transaction of the same nonce with higher fees replaces it and is in the next block.
func (n *Node) HoldBack(hash string) (held bool) {
	h, ok := evmtx.ParseHash(hash)
	n.withLock(func(time.Time) { held = ok && n.rules.isLax && n.pool.holdBack(h) })
	return held
}

// Forget makes the node forget its whole pool. A node that tracks sent transactions puts them back
// into its pool when the tracker checks the pool the next time.
func (n *Node) Forget() {
	n.withLock(func(time.Time) { n.pool = newPool(n.rules.isLax) })
}

// SetBaseFee sets the base fee of the next block, in wei.
func (n *Node) SetBaseFee(wei *big.Int) {
	n.withLock(func(time.Time) { n.chain.nextBaseFee = new(big.Int).Set(wei) })
}

// SetBalance sets the balance of an account, in wei. It panics if address is not an address.
func (n *Node) SetBalance(address string, wei *big.Int) {
	n.changeAddress(address, func(a *account) { a.balance = new(big.Int).Set(wei) })
}

// SetCode gives an account code. It panics if address is not an address. Code of 0xef0100 and an
// address is delegated code (EIP-7702): all but Anvil keep one transaction of such an account.
func (n *Node) SetCode(address string, code []byte) {
	n.changeAddress(address, func(a *account) { a.code = slices.Clone(code) })
}

func (n *Node) changeAddress(address string, f func(*account)) {
	at, err := evmtx.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	n.withLock(func(time.Time) { n.changeAccount(at, f) })
}

func (n *Node) changeAccount(at evmtx.Address, f func(*account)) {
	a := n.chain.accountNow(at)
	f(&a)
	n.chain.setAccount(at, a)
	n.dropUnmineable()
}

// Kill is a kill -9: the node cuts its connections and refuses new ones until [Node.Resume],
// forgets its pool, and loses blocks as Options.DumpInterval and Options.KillUnmines say.
func (n *Node) Kill() {
	n.shutDown(true)
}

// Stop stops the node as SIGTERM does, until [Node.Resume]. The node forgets its pool, but no
// block, unless it is an Anvil without Options.DumpInterval, which begins another chain.
func (n *Node) Stop() {
	n.shutDown(false)
}

func (n *Node) shutDown(killed bool) {
	n.withLock(func(now time.Time) {
		if n.isDown {
			return
		}
		n.isDown = true
		n.pool = newPool(n.rules.isLax)
		n.lateArrivals = nil
		n.timesEnded++
		n.addEntry(Entry{Time: now, Kind: Ended})
		head := n.chain.head().number
		switch {
		case n.rules.isLax && n.options.DumpInterval > 0 && !killed:
			n.dumpedBlocks = slices.Clone(n.chain.blocks)
		case n.rules.isLax && n.dumpedBlocks != nil:
			n.recordUnmined(now, n.chain.replaceBlocks(n.dumpedBlocks))
		case n.rules.isLax:
			n.recordUnmined(now, n.chain.blocks)
			n.chain = newChain(&n.options, n.timesEnded, now)
		case killed:
			n.recordUnmined(now, n.chain.removeAbove(head-min(head, uint64(n.options.KillUnmines))))
		}
	})
	n.front.Stop(func() {})
}
