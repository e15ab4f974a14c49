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

// steering is what a test can do to a chain besides sending transactions.
type steering interface {
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

// onSimulated steers a simulated node from inside.
type onSimulated struct {
	t    testing.TB
	node *evmtest.Node
}

func (o onSimulated) mine() { o.node.Mine() }
func (o onSimulated) reorg(depth int, raw [][]byte) {
	require.NoError(o.t, o.node.Reorg(depth, raw...))
}
func (o onSimulated) fund(address string, wei *big.Int) { o.node.SetBalance(address, wei) }
func (o onSimulated) drop(hash string)                  { o.node.Drop(hash) }
func (o onSimulated) forget()                           { o.node.Forget() }
func (o onSimulated) setBaseFee(wei *big.Int)           { o.node.SetBaseFee(wei) }

// onAnvil steers an anvil, or a node with the same methods.
type onAnvil struct{ s *stage }

func (o onAnvil) mine() { o.s.call(nil, "evm_mine") }

func (o onAnvil) reorg(depth int, raw [][]byte) {
	list := [][]any{}
	for i, tx := range raw {
		list = append(list, []any{toHex(tx), i})
	}
	o.s.call(nil, "anvil_reorg", depth, list)
}

func (o onAnvil) fund(address string, wei *big.Int) {
	o.s.call(nil, "anvil_setBalance", address, "0x"+wei.Text(16))
}

func (o onAnvil) drop(hash string) { o.s.call(nil, "anvil_dropTransaction", hash) }
func (o onAnvil) forget()          {} // anvil puts nothing back

func (o onAnvil) setBaseFee(wei *big.Int) {
	o.s.call(nil, "anvil_setNextBlockBaseFeePerGas", "0x"+wei.Text(16))
}

// onGeth is the consensus client of a geth. Since geth has no methods for funds and base fees, a
// rich account sends transactions, alone in their blocks, that change them. A restart with an
// empty file empties the pool.
type onGeth struct {
	s    *stage
	node *geth.Node
}

var faucet = evmtest.Named("faucet")

func (o onGeth) mine()                         { require.NoError(o.s, o.node.Mine()) }
func (o onGeth) reorg(depth int, raw [][]byte) { require.NoError(o.s, o.node.Reorg(depth, raw...)) }
func (o onGeth) drop(string)                   { require.NoError(o.s, o.node.Forget()) }

func (o onGeth) forget() {
	var status struct{ Pending string }
	if o.s.call(&status, "txpool_status"); status.Pending != "0x0" {
		require.NoError(o.s, o.node.Forget())
	}
}

func (o onGeth) fund(address string, wei *big.Int) {
	var has string
	o.s.call(&has, "eth_getBalance", address, "latest")
	more := new(big.Int)
	_, ok := more.SetString(has, 0)
	require.True(o.s, ok, has)
	more.Sub(wei, more)
	require.Positive(o.s, more.Sign(), "geth takes no funds from an account")
	o.spend(evmtest.Unsigned{To: address, Value: more})
}

func (o onGeth) setBaseFee(wei *big.Int) {
	price := func() *big.Int {
		var fees struct{ BaseFeePerGas []string }
		o.s.call(&fees, "eth_feeHistory", "0x1", "latest", []int{})
		next, ok := new(big.Int).SetString(fees.BaseFeePerGas[len(fees.BaseFeePerGas)-1], 0)
		require.True(o.s, ok)
		return next
	}
	for price().Cmp(wei) < 0 {
		o.spend(evmtest.Unsigned{Data: []byte{0xfe}, Gas: 11_400_000}) // this transaction uses all its gas
	}
	for most := new(big.Int).Div(new(big.Int).Mul(wei, big.NewInt(9)), big.NewInt(8)); price().Cmp(most) > 0; {
		require.NoError(o.s, o.node.MakeBlock())
	}
}

// spend makes a block with one transaction of the rich account.
func (o onGeth) spend(u evmtest.Unsigned) {
	u.ChainID, u.FeeCap = o.s.chain, big.NewInt(1e15)
	u.Nonce, _ = o.s.nonceOf(faucet.Address())
	raw, _ := faucet.Sign(u)
	require.NoError(o.s, o.node.MakeBlock(raw))
}

// overHTTP returns a stage with an anvil, or a node with the same methods, of which only the URL
// is known.
func overHTTP(t testing.TB, url string) *stage {
	s := &stage{TB: t, url: url, http: &http.Client{Transport: &http.Transport{}}, unit: 20 * time.Millisecond}
	s.steering = onAnvil{s}
	t.Cleanup(s.http.CloseIdleConnections)
	var id string
	s.call(&id, "eth_chainId")
	var err error
	s.chain, err = strconv.ParseUint(id[2:], 16, 64)
	require.NoError(t, err)
	return s
}

// overGeth returns a stage with a real geth.
func overGeth(t testing.TB) *stage {
	n := geth.Start(t, geth.Options{Funds: map[string]*big.Int{faucet.Address(): evmtest.Ether(1_000_000_000)}})
	s := overHTTP(t, n.URL())
	s.steering = onGeth{s, n}
	return s
}
