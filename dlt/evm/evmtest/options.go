package evmtest

import (
	"fmt"
	"math/big"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Options of a node. Nil, or any zero field, means the default.
type Options struct {
	// Personality is the software that the node pretends to be. Defaults to [Geth].
	Personality Personality
	// Addr is the host:port to listen on. With a fixed port a test reaches a later node at the
	// same address. Defaults to "127.0.0.1:0", any free port.
	Addr string
	// InMemory listens on no socket: only [Node.Client] reaches the node. It is for tests in a
	// bubble of testing/synctest. Defaults to false.
	InMemory bool

	// ChainID defaults to 31337 for Anvil and 1337 for all others.
	ChainID uint64
	// Accounts are the balances at the beginning, in wei, by address. Defaults to 10,000 ether for
	// each of the accounts [Dev].
	Accounts map[string]*big.Int
	// GasLimit is the gas limit of the genesis block. All personalities but Anvil raise it block
	// by block, to 60 million. Defaults to 30 million for Anvil and 11.5 million for all others.
	GasLimit uint64

	// BlockTime is the time between blocks, empty ones, too. Negative means that only [Node.Mine]
	// and evm_mine make blocks. Defaults to 0: a block soon after each transaction that can be
	// mined.
	BlockTime time.Duration
	// MineDelay is the time from a transaction that can be mined to its block, where BlockTime is
	// 0. Defaults to 2 ms.
	MineDelay time.Duration
	// SlotsInAnEpoch is the length of an epoch in blocks, which decides about the blocks "safe"
	// and "finalized". For Anvil and Provider they are one and two epochs behind the head. For all
	// others safe is the head, and finalized the last block whose number is a multiple of
	// SlotsInAnEpoch. Defaults to 32.
	SlotsInAnEpoch uint64
	// NoFinality answers the tags safe and finalized with an error, as chains without them do.
	// Defaults to false.
	NoFinality bool

	// NoBaseFee makes a chain before EIP-1559: its blocks have no base fee, and it takes
	// transactions of the types 0 and 1 only. Not for Anvil. Defaults to false.
	NoBaseFee bool

	// DumpInterval is how often an Anvil writes its blocks to disk, as with --state and
	// --state-interval; after [Node.Kill] it has the blocks that it wrote last. Defaults to 0:
	// then the node begins another chain with the same id after a kill, as without --state.
	DumpInterval time.Duration
	// KillUnmines is how many of the last blocks a [Node.Kill] removes. Not for Anvil. Negative
	// means none. Defaults to 2, as many as geth was seen to lose.
	KillUnmines int

	// QueuedSlots is how many transactions behind a gap the pool keeps for an account; the node
	// forgets further ones without an error. Not for Anvil. Defaults to 64.
	QueuedSlots int
	// PoolLimit is the largest number of transactions in the pool. Not for Anvil. Defaults to
	// 6144.
	PoolLimit int
	// NoTracker switches geth's tracker of sent transactions off: the node forgets the
	// transactions that its pool has no room for, and all of them in a kill. Defaults to false:
	// the tracker puts them back into the pool ten seconds after a start, and then each minute.
	// Not for Anvil, which has no tracker.
	NoTracker bool

	// Lag is how many blocks one of the two backends of a Provider is behind. Defaults to 1.
	Lag int

	// Faults to inject. Defaults to none.
	Faults *Faults
}

// The times at which a tracker looks at sent transactions that the pool does not have.
const (
	trackerStartDelay = 10 * time.Second
	trackerInterval   = time.Minute
)

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Personality == "" {
		c.Personality = Geth
	}
	if !isPersonality(c.Personality) {
		return Options{}, fmt.Errorf("evmtest: no personality %q", c.Personality)
	}
	if c.MineDelay < 0 || c.DumpInterval < 0 || c.QueuedSlots < 0 || c.PoolLimit < 0 || c.Lag < 0 {
		return Options{}, fmt.Errorf("evmtest: MineDelay (%v), DumpInterval (%v), QueuedSlots (%d), PoolLimit (%d), Lag (%d): none may be negative",
			c.MineDelay, c.DumpInterval, c.QueuedSlots, c.PoolLimit, c.Lag)
	}
	isAnvil := c.Personality == Anvil
	either := func(v *uint64, anvil, other uint64) {
		switch {
		case *v != 0:
		case isAnvil:
			*v = anvil
		default:
			*v = other
		}
	}
	either(&c.ChainID, 31337, 1337)
	either(&c.GasLimit, 30_000_000, 11_500_000)
	either(&c.SlotsInAnEpoch, 32, 32)
	for _, d := range [...]struct {
		n   *int
		def int
	}{{&c.KillUnmines, 2}, {&c.QueuedSlots, 64}, {&c.PoolLimit, 6144}, {&c.Lag, 1}} {
		if *d.n == 0 {
			*d.n = d.def
		}
	}
	c.KillUnmines = max(c.KillUnmines, 0)
	if c.MineDelay == 0 {
		c.MineDelay = 2 * time.Millisecond
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.Accounts == nil {
		c.Accounts = map[string]*big.Int{}
		for _, d := range devAccounts {
			c.Accounts[d.address] = Ether(10_000)
		}
	}
	for text := range c.Accounts {
		if _, err := evmtx.ParseAddress(text); err != nil {
			return Options{}, fmt.Errorf("evmtest: Accounts: %w", err)
		}
	}
	if c.Faults != nil {
		f := *c.Faults
		if err := f.setDefaultsAndCheck(); err != nil {
			return Options{}, err
		}
		c.Faults = &f
	}
	return c, nil
}

// Ether returns a number of ethers in wei.
func Ether(n int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e18))
}
