package chaos

import (
	"cmp"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/binaries"
	"github.com/dltbatch/dltbatch/internal/geth"
)

// faucet is the account that pays for everything that geth cannot be configured to do: the
// accounts' funds, and prices.
var faucet = evmtest.Named("faucet")

// gethLostBlocks is how many blocks a kill removes at most.
const gethLostBlocks = 3

// gethBackend runs geth. A kill removes its last blocks, and their transactions return to its pool
// ten seconds later.
type gethBackend struct {
	rpc
	mu           sync.Mutex
	node         *geth.Node
	restarts     int
	highestBlock int // the highest block so far
}

func newGeth(dir string) (chain, error) {
	bin, err := binaries.Geth().Find()
	if err != nil {
		return nil, err
	}
	all := map[string]*big.Int{faucet.Address(): evmtest.Ether(1_000_000_000)}
	for lane := range laneCount {
		all[payer(lane).Address()] = initialFunds
	}
	n, err := geth.Run(bin, dir, geth.Options{Funds: all, FinalizedAfter: settledDepth, Args: []string{"--miner.gaslimit", "11500000"}})
	if err != nil {
		return nil, err
	}
	b := &gethBackend{rpc: rpc(n.URL()), node: n}
	for range settledDepth + 1 {
		if err := n.MakeBlock(); err != nil {
			return nil, err
		}
	}
	n.Stop() // a kill before these blocks would end the chain
	if err := n.Resume(0); err != nil {
		return nil, err
	}
	go produceBlocks(b.mine)
	return b, nil
}

func (b *gethBackend) url() string { return string(b.rpc) }

func (b *gethBackend) mine(pays bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.highestBlock = max(b.highestBlock, b.node.Height()) }()
	if pays {
		if err := b.pay(); err != nil {
			return err
		}
	}
	// If nobody else uses the chain, its price falls to nothing.
	if price, err := b.nextPrice(); err != nil || price.Cmp(big.NewInt(1e9)) < 0 {
		return cmp.Or(err, b.burn())
	}
	return b.node.Seal()
}

// nextPrice returns the price of the next block.
func (b *gethBackend) nextPrice() (*big.Int, error) {
	var fees struct{ BaseFeePerGas []string }
	if err := b.call(&fees, "eth_feeHistory", "0x1", "latest", []int{}); err != nil {
		return nil, err
	}
	price, ok := new(big.Int).SetString(fees.BaseFeePerGas[len(fees.BaseFeePerGas)-1], 0)
	if !ok {
		return nil, fmt.Errorf("a price of %q", fees.BaseFeePerGas)
	}
	return price, nil
}

// burn makes a full block without any effect.
func (b *gethBackend) burn() error {
	return b.spend(evmtest.Unsigned{Data: []byte{0xfe}, Gas: 11_000_000}) // 0xfe is an invalid instruction, which uses all gas
}

// spend makes a block with transactions of the faucet.
func (b *gethBackend) spend(all ...evmtest.Unsigned) error {
	nonce, err := b.nonce(faucet, "latest")
	if err != nil {
		return err
	}
	var raw [][]byte
	for i, u := range all {
		u.ChainID, u.Nonce, u.FeeCap = chainID, nonce+uint64(i), big.NewInt(1e15)
		tx, _ := faucet.Sign(u)
		raw = append(raw, tx)
	}
	return b.node.MakeBlock(raw...)
}

// pay gives each account its funds again.
func (b *gethBackend) pay() error {
	var all []evmtest.Unsigned
	for lane := range laneCount {
		has, err := b.balance(lane)
		if err != nil {
			return err
		}
		if more := new(big.Int).Sub(initialFunds, has); has.Cmp(evmtest.Ether(5)) < 0 {
			all = append(all, evmtest.Unsigned{To: payer(lane).Address(), Value: more})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return b.spend(all...)
}

func (b *gethBackend) balance(lane int) (*big.Int, error) {
	var text string
	if err := b.call(&text, "eth_getBalance", payer(lane).Address(), "latest"); err != nil {
		return nil, err
	}
	has, ok := new(big.Int).SetString(text, 0)
	if !ok {
		return nil, fmt.Errorf("a balance of %q", text)
	}
	return has, nil
}

// drainAccount takes nearly all funds of an account, as another holder of its key could.
func (b *gethBackend) drainAccount(lane int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	has, err := b.balance(lane)
	if err != nil {
		return err
	}
	if has.Sub(has, big.NewInt(9e15)).Sign() <= 0 {
		return nil // the account is empty already
	}
	return b.sendForeign(payer(lane), true, has)
}

func (b *gethBackend) setPrice(gwei int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for want := new(big.Int).Mul(big.NewInt(int64(gwei)), big.NewInt(1e9)); ; {
		if price, err := b.nextPrice(); err != nil || price.Cmp(want) >= 0 {
			return err
		}
		if err := b.burn(); err != nil {
			return err
		}
	}
}

func (b *gethBackend) reorg(depth int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.node.Reorg(depth)
}

func (b *gethBackend) dropPool() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restarts++
	return b.node.Forget()
}

// restart kills the node.
func (b *gethBackend) restart(down time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.node.Kill(); err != nil {
		return err
	}
	time.Sleep(down)
	b.restarts++
	return b.node.Resume(min(gethLostBlocks, maxLostBlocks-(b.highestBlock-b.node.Height())))
}

func (b *gethBackend) report() report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.executed(false, faucet.Address())
	r.Restarts = b.restarts
	return r
}
