package evm_test

import (
	"math/big"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/geth"
)

// chainControl is what a test can do to a chain besides sending transactions.
type chainControl interface {
	// mine makes a block of the transactions in the pool.
	mine()
	// reorg replaces the last blocks. The first new one has the given transactions.
	reorg(depth int, raw [][]byte)
	// fund gives an unused account its first funds, or adds to an account's funds.
	fund(address string, wei *big.Int)
	// drop makes the pool forget a transaction.
	drop(hash string)
	// forget makes the pool forget the transactions that a reorganization has put back, if the
	// node puts any back.
	forget()
	// setBaseFee makes blocks until the base fee of the next one is about this.
	setBaseFee(wei *big.Int)
}

// simulatedControl steers a simulated node from inside.
type simulatedControl struct {
	t    testing.TB
	node *evmtest.Node
}

func (o simulatedControl) mine() { o.node.Mine() }
func (o simulatedControl) reorg(depth int, raw [][]byte) {
	require.NoError(o.t, o.node.Reorg(depth, raw...))
}
func (o simulatedControl) fund(address string, wei *big.Int) { o.node.SetBalance(address, wei) }
func (o simulatedControl) drop(hash string)                  { o.node.Drop(hash) }
func (o simulatedControl) forget()                           { o.node.Forget() }
func (o simulatedControl) setBaseFee(wei *big.Int)           { o.node.SetBaseFee(wei) }

// anvilControl steers an anvil, or a node with the same methods.
type anvilControl struct{ chain *testChain }

func (o anvilControl) mine() { o.chain.call(nil, "evm_mine") }

func (o anvilControl) reorg(depth int, raw [][]byte) {
	list := [][]any{}
	for i, tx := range raw {
		list = append(list, []any{toHex(tx), i})
	}
	o.chain.call(nil, "anvil_reorg", depth, list)
}

func (o anvilControl) fund(address string, wei *big.Int) {
	o.chain.call(nil, "anvil_setBalance", address, "0x"+wei.Text(16))
}

func (o anvilControl) drop(hash string) { o.chain.call(nil, "anvil_dropTransaction", hash) }
func (o anvilControl) forget()          {} // anvil puts nothing back

func (o anvilControl) setBaseFee(wei *big.Int) {
	o.chain.call(nil, "anvil_setNextBlockBaseFeePerGas", "0x"+wei.Text(16))
}

// gethControl is the consensus client of a geth. Since geth has no methods for funds and base
// fees, a rich account sends transactions, alone in their blocks, that change them. A restart with
// an empty file empties the pool.
type gethControl struct {
	chain *testChain
	node  *geth.Node
}

var faucet = evmtest.Named("faucet")

func (o gethControl) mine() { require.NoError(o.chain, o.node.Mine()) }
func (o gethControl) reorg(depth int, raw [][]byte) {
	require.NoError(o.chain, o.node.Reorg(depth, raw...))
}
func (o gethControl) drop(string) { require.NoError(o.chain, o.node.Forget()) }

func (o gethControl) forget() {
	var status struct{ Pending string }
	if o.chain.call(&status, "txpool_status"); status.Pending != "0x0" {
		require.NoError(o.chain, o.node.Forget())
	}
}

func (o gethControl) fund(address string, wei *big.Int) {
	var has string
	o.chain.call(&has, "eth_getBalance", address, "latest")
	more := new(big.Int)
	_, ok := more.SetString(has, 0)
	require.True(o.chain, ok, has)
	more.Sub(wei, more)
	require.Positive(o.chain, more.Sign(), "geth takes no funds from an account")
	o.spend(evmtest.Unsigned{To: address, Value: more})
}

func (o gethControl) setBaseFee(wei *big.Int) {
	price := func() *big.Int {
		var fees struct{ BaseFeePerGas []string }
		o.chain.call(&fees, "eth_feeHistory", "0x1", "latest", []int{})
		next, ok := new(big.Int).SetString(fees.BaseFeePerGas[len(fees.BaseFeePerGas)-1], 0)
		require.True(o.chain, ok)
		return next
	}
	for price().Cmp(wei) < 0 {
		o.spend(evmtest.Unsigned{Data: []byte{0xfe}, Gas: 11_400_000}) // this transaction uses all its gas
	}
	for most := new(big.Int).Div(new(big.Int).Mul(wei, big.NewInt(9)), big.NewInt(8)); price().Cmp(most) > 0; {
		require.NoError(o.chain, o.node.MakeBlock())
	}
}

// spend makes a block with one transaction of the rich account.
func (o gethControl) spend(u evmtest.Unsigned) {
	u.ChainID, u.FeeCap = o.chain.chain, big.NewInt(1e15)
	u.Nonce, _ = o.chain.nextNoncesOfAddress(faucet.Address())
	raw, _ := faucet.Sign(u)
	require.NoError(o.chain, o.node.MakeBlock(raw))
}

// newChainAtURL returns a testChain with an anvil, or a node with the same methods, of which only
// the URL is known.
func newChainAtURL(t testing.TB, url string) *testChain {
	s := &testChain{TB: t, url: url, http: &http.Client{Transport: &http.Transport{}}, timeUnit: 20 * time.Millisecond}
	s.control = anvilControl{s}
	t.Cleanup(s.http.CloseIdleConnections)
	var id string
	s.call(&id, "eth_chainId")
	var err error
	s.chain, err = strconv.ParseUint(id[2:], 16, 64)
	require.NoError(t, err)
	return s
}

// newGethChain returns a testChain with a real geth.
func newGethChain(t testing.TB) *testChain {
	n := geth.Start(t, geth.Options{Funds: map[string]*big.Int{faucet.Address(): evmtest.Ether(1_000_000_000)}})
	s := newChainAtURL(t, n.URL())
	s.control = gethControl{s, n}
	return s
}
