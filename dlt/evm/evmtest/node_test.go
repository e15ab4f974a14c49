package evmtest

import (
	"encoding/json"
	"math/big"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var accountA, accountB = Dev(1), Dev(2)

// A geth that is killed loses blocks, and for ten seconds its pool. After that the sent
// transactions are mined again, in another block.
func TestKillUnmines(t *testing.T) {
	runInBubble(t, Options{BlockTime: 2 * time.Second}, func(t *testing.T, n *Node) {
		time.Sleep(13 * time.Second)
		h := sendPayment(t, n, accountA, 0)
		waits := sendPayment(t, n, accountB, 1)
		time.Sleep(2 * time.Second)
		require.Equal(t, "0x7", blockNumberOf(t, n, h))
		before := n.Blocks()[7].Hash
		n.Kill()
		_, err := post(t, n, bodyOf(t, "eth_chainId"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NoError(t, n.Resume())
		require.Equal(t, "0x5", askResult(t, n, "eth_blockNumber"))
		require.Equal(t, false, blockNumberOf(t, n, h))
		require.Equal(t, "0x0", nonceOf(t, n, accountA, "pending"))
		time.Sleep(9 * time.Second)
		require.Equal(t, false, blockNumberOf(t, n, h))
		require.Equal(t, false, blockNumberOf(t, n, waits))
		time.Sleep(4 * time.Second)
		require.NotEqual(t, false, blockNumberOf(t, n, h))
		require.Nil(t, blockNumberOf(t, n, waits))
		require.NotEqual(t, before, n.Blocks()[7].Hash)
		require.Equal(t, []Kind{Accepted, Accepted, Mined, Ended, Unmined, Mined}, journalKinds(n))
	})
}

func journalKinds(n *Node) (out []Kind) {
	for _, e := range n.Journal() {
		out = append(out, e.Kind)
	}
	return out
}

// The tracker looks at sent transactions once a minute.
func TestTrackerLooksAgain(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		time.Sleep(20 * time.Second)
		h := sendPayment(t, n, accountA, 0)
		for range 2 {
			n.Forget()
			require.Equal(t, false, blockNumberOf(t, n, h))
			time.Sleep(time.Minute)
			require.Nil(t, blockNumberOf(t, n, h))
		}
	})
}

// Without a tracker, a killed node forgets its transactions for ever.
func TestKillForgets(t *testing.T) {
	runInBubble(t, Options{BlockTime: 2 * time.Second, NoTracker: true, KillUnmines: -1}, func(t *testing.T, n *Node) {
		h := sendPayment(t, n, accountA, 0)
		time.Sleep(3 * time.Second)
		later := sendPayment(t, n, accountA, 1)
		n.Kill()
		require.NoError(t, n.Resume())
		time.Sleep(5 * time.Minute)
		require.Equal(t, "0x1", blockNumberOf(t, n, h))
		require.Equal(t, false, blockNumberOf(t, n, later))
	})
}

// After a kill an anvil has the chain that it dumped last. Without dumps it begins another chain.
func TestDumps(t *testing.T) {
	runInBubble(t, Options{Personality: Anvil, BlockTime: time.Second, DumpInterval: 2500 * time.Millisecond}, func(t *testing.T, n *Node) {
		first := sendPayment(t, n, accountA, 0)
		time.Sleep(2600 * time.Millisecond)
		second := sendPayment(t, n, accountA, 1)
		time.Sleep(time.Second)
		require.Equal(t, "0x3", blockNumberOf(t, n, second))
		n.Kill()
		require.NoError(t, n.Resume())
		require.Equal(t, "0x1", blockNumberOf(t, n, first))
		require.Equal(t, false, blockNumberOf(t, n, second))
		require.Equal(t, "0x1", nonceOf(t, n, accountA, "latest"))
		askResult(t, n, "anvil_reorg", 1, []any{}) // the reorganization replaces blocks of the dump, and a kill brings them back
		require.NoError(t, n.Reorg(2))
		require.Equal(t, false, blockNumberOf(t, n, first))
		n.Kill()
		require.NoError(t, n.Resume())
		require.Equal(t, "0x1", blockNumberOf(t, n, first))
	})
	runInBubble(t, Options{Personality: Anvil}, func(t *testing.T, n *Node) {
		genesis := n.Blocks()[0].Hash
		sendPayment(t, n, accountA, 0)
		time.Sleep(time.Second)
		n.Stop()
		require.NoError(t, n.Resume())
		require.Equal(t, "0x0", nonceOf(t, n, accountA, "latest"))
		require.NotEqual(t, genesis, n.Blocks()[0].Hash)
		require.Equal(t, "0x7a69", askResult(t, n, "eth_chainId"))
	})
}

// A geth puts the transactions of a lost fork back into its pool, unless the fork is deeper than
// 64 blocks.
func TestReorg(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		var hashes []string
		for i := range uint64(3) {
			hashes = append(hashes, sendPayment(t, n, accountA, i))
			n.Mine()
		}
		require.NoError(t, n.Reorg(2))
		require.Equal(t, "0x1", blockNumberOf(t, n, hashes[0]))
		require.Nil(t, blockNumberOf(t, n, hashes[1]))
		require.Equal(t, "0x4", askResult(t, n, "eth_blockNumber"))
		require.Equal(t, "0x1", nonceOf(t, n, accountA, "latest"))
		require.Equal(t, "0x3", nonceOf(t, n, accountA, "pending"))
		n.Mine()
		require.Equal(t, "0x5", blockNumberOf(t, n, hashes[2]))
		requireLinked(t, n)
		for range 64 {
			n.Mine()
		}
		require.NoError(t, n.Reorg(65))
		require.Equal(t, false, blockNumberOf(t, n, hashes[2]))
		require.Equal(t, "0x1", nonceOf(t, n, accountA, "pending"))
	})
}

// requireLinked checks that each block names the one before it, and that each nonce is used once
// and in order.
func requireLinked(t *testing.T, n *Node) {
	t.Helper()
	nonces := map[string]uint64{}
	blocks := n.Blocks()
	for i, x := range blocks {
		require.Equal(t, uint64(i), x.Number)
		if i > 0 {
			require.Equal(t, blocks[i-1].Hash, x.Parent)
			require.True(t, x.Time.After(blocks[i-1].Time))
		}
		for _, tx := range x.Transactions {
			require.Equal(t, nonces[tx.From], tx.Nonce)
			nonces[tx.From]++
		}
	}
	for from, nonce := range nonces {
		latest, _ := n.Nonce(from)
		require.Equal(t, nonce, latest)
	}
}

// When another transaction uses the nonce on the new fork, the first one can never be mined.
func TestReorgWithAnother(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		raw, ours := signPayment(n, accountA, 0)
		askResult(t, n, sendMethod, raw)
		n.Mine()
		other, theirs := accountA.Sign(Unsigned{ChainID: 1337, To: deadAddress, Value: big.NewInt(9)})
		require.NoError(t, n.Reorg(1, other))
		require.Equal(t, "0x1", blockNumberOf(t, n, theirs))
		require.Equal(t, false, blockNumberOf(t, n, ours))
		_, w := ask(t, n, sendMethod, raw)
		require.Equal(t, "nonce too low: next nonce 1, tx nonce 0", w.Text)
		require.Error(t, n.Reorg(1, []byte{1}))
	})
}

// A provider's backends have different heads: a count may be ahead of a receipt, or behind it.
func TestProviderLags(t *testing.T) {
	runInBubble(t, Options{Personality: Provider, BlockTime: -1, SlotsInAnEpoch: 1}, func(t *testing.T, n *Node) {
		raw, h := signPayment(n, accountA, 0)
		askResult(t, n, sendMethod, raw) // each next request goes to the other backend
		askResult(t, n, "eth_chainId")
		n.Mine()
		require.Equal(t, "0x1", nonceOf(t, n, accountA, "latest"))
		require.Nil(t, askResult(t, n, "eth_getTransactionReceipt", h), "the count is ahead of the receipt")
		require.NotNil(t, askResult(t, n, "eth_getTransactionReceipt", h))
		require.Equal(t, "0x0", nonceOf(t, n, accountA, "latest"), "a count goes down")
		require.Equal(t, "0x1", askResult(t, n, "eth_blockNumber"))
		tx := askResult(t, n, "eth_getTransactionByHash", h).(map[string]any)
		require.Nil(t, tx["blockHash"], "it is in the pool there")
		head := n.Blocks()[1].Hash
		require.Equal(t, "0x1", nonceOf(t, n, accountA, map[string]any{"blockHash": head}))
		_, w := ask(t, n, "eth_getTransactionCount", accountA.Address(), map[string]any{"blockHash": head})
		require.Equal(t, RPCError{-32603, "proxy-nodefleet.error: header for hash not found"}, *w)
		_, w = ask(t, n, "txpool_status")
		require.Contains(t, w.Text, "the method txpool_status does not exist")
		askResult(t, n, "eth_chainId")

		r, err := post(t, n, []byte(`[{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"},{"jsonrpc":"2.0","id":2,"method":"eth_chainId"}]`))
		require.NoError(t, err)
		var list []struct{ ID int }
		require.NoError(t, json.Unmarshal([]byte(r.text), &list))
		require.Equal(t, []struct{ ID int }{{2}, {1}}, list)
	})
}

// Each personality has its own "safe" and "finalized" blocks.
func TestFinality(t *testing.T) {
	for _, x := range []struct {
		p               Personality
		safe, finalized string
	}{{Geth, "0xa", "0x8"}, {Anvil, "0x6", "0x2"}, {Provider, "0x6", "0x2"}} {
		runInBubble(t, Options{Personality: x.p, BlockTime: -1, SlotsInAnEpoch: 4}, func(t *testing.T, n *Node) {
			for range 10 {
				n.Mine()
			}
			for tag, want := range map[string]string{"safe": x.safe, "finalized": x.finalized, "earliest": "0x0"} {
				require.Equal(t, want, askResult(t, n, "eth_getBlockByNumber", tag, false).(map[string]any)["number"], "%s %s", x.p, tag)
				if x.p == Provider { // the next request is the other backend's turn
					askResult(t, n, "eth_chainId")
				}
			}
		})
	}
	runInBubble(t, Options{NoFinality: true}, func(t *testing.T, n *Node) {
		_, w := ask(t, n, "eth_getBlockByNumber", "finalized", false)
		require.Equal(t, RPCError{-32000, "finalized block not found"}, *w)
	})
}

// A geth has the state of its last 128 blocks, and all blocks.
func TestOldState(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		for range 129 {
			n.Mine()
		}
		require.Equal(t, "0x0", nonceOf(t, n, accountA, "0x1"))
		_, w := ask(t, n, "eth_getTransactionCount", accountA.Address(), "0x0")
		require.Contains(t, w.Text, "historical state")
		require.NotNil(t, askResult(t, n, "eth_getBlockByNumber", "0x0", true))
	})
}

// When an earlier nonce spends an account's funds, the later transactions are dropped silently.
func TestFundsRunOut(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		h := sendPayment(t, n, accountA, 0)
		later := sendPayment(t, n, accountA, 1)
		n.SetBalance(accountA.Address(), big.NewInt(650_000_000_000_000)) // the two transactions together may cost 630,000 gwei
		n.Mine()
		require.Equal(t, "0x1", blockNumberOf(t, n, h))
		n.SetBalance(accountA.Address(), big.NewInt(1))
		require.Equal(t, false, blockNumberOf(t, n, later))
		raw, _ := signPayment(n, accountA, 1)
		_, w := ask(t, n, sendMethod, raw)
		require.Equal(t, "insufficient funds for gas * price + value: balance 1, tx cost 630000000000001, overshot 630000000000000", w.Text)
		n.SetBalance(accountA.Address(), Ether(1))
		askResult(t, n, sendMethod, raw)
	})
}

// A replacement needs both fees higher, even if a tenth of them is less than a wei.
func TestReplacementOfTinyFees(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		tiny := func(tip, value int64) func(u *Unsigned) {
			return func(u *Unsigned) {
				u.Tip, u.FeeCap, u.Value = big.NewInt(tip), big.NewInt(value*1e9), big.NewInt(value)
			}
		}
		sendPayment(t, n, accountA, 0, tiny(1, 30))
		raw, _ := signPayment(n, accountA, 0, tiny(1, 40))
		_, w := ask(t, n, sendMethod, raw)
		require.Equal(t, Refusals(Geth)[ReplacementTooCheap], *w)
		sendPayment(t, n, accountA, 0, tiny(2, 40))
	})
}

// Of transactions with equal tips, the one that came first is mined first, whatever the accounts.
func TestFirstComesFirst(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		var want []string
		for i := range 8 {
			want = append(want, sendPayment(t, n, Dev((i*3+5)%10), 0))
		}
		n.Mine()
		for i, tx := range n.Blocks()[1].Transactions {
			require.Equal(t, want[i], tx.Hash)
		}
		require.Len(t, n.Blocks()[1].Transactions, 8)
	})
}

// A call that reverts moves no value, and pays for its gas.
func TestRevertMovesNothing(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		n.SetCode(deadAddress, []byte{0x60, 0, 0x60, 0, 0xfd})
		h := sendPayment(t, n, accountA, 0, func(u *Unsigned) { u.Gas, u.Value = 50_000, big.NewInt(5) })
		n.Mine()
		receipt := askResult(t, n, "eth_getTransactionReceipt", h).(map[string]any)
		require.Equal(t, "0x0", receipt["status"])
		require.Equal(t, "0x0", askResult(t, n, "eth_getBalance", deadAddress, "latest"))
		require.Equal(t, "0x1", nonceOf(t, n, accountA, "latest"))
		require.NotEqual(t, hexBig(Ether(10_000)), askResult(t, n, "eth_getBalance", accountA.Address(), "latest"))
		require.False(t, n.Blocks()[1].Transactions[0].OK)
	})
}

// The check of an account's balance counts its transactions in the pool, too.
func TestQueuedCost(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		n.SetBalance(accountA.Address(), big.NewInt(1_000_000_000_000_000))
		sendPayment(t, n, accountA, 0)
		raw, _ := signPayment(n, accountA, 1)
		_, w := ask(t, n, sendMethod, raw)
		require.Equal(t, "insufficient funds for gas * price + value: balance 1000000000000000, queued cost 630000000000001, tx cost 630000000000001, overshot 260000000000002", w.Text)
	})
}

// A transaction whose fee cap is below the base fee waits in a geth until the base fee falls.
func TestBaseFeeFalls(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		n.SetBaseFee(big.NewInt(40e9))
		h := sendPayment(t, n, accountA, 0)
		for range 2 {
			n.Mine()
			require.Nil(t, blockNumberOf(t, n, h))
		}
		n.Mine() // 40 * 7/8 * 7/8 = 30.6, and 26.8 after one more block
		n.Mine()
		require.Equal(t, "0x4", blockNumberOf(t, n, h))
	})
}

// A full pool with a tracker answers with the hash, and takes the transaction in when there is
// room.
func TestPoolFullIsTracked(t *testing.T) {
	runInBubble(t, Options{BlockTime: 2 * time.Second, PoolLimit: 2}, func(t *testing.T, n *Node) {
		sendPayment(t, n, accountA, 0)
		sendPayment(t, n, accountA, 1)
		h := sendPayment(t, n, accountB, 0)
		require.Equal(t, false, blockNumberOf(t, n, h))
		time.Sleep(9 * time.Second)
		require.Equal(t, false, blockNumberOf(t, n, h))
		time.Sleep(4 * time.Second)
		require.Equal(t, "0x6", blockNumberOf(t, n, h))
	})
}

// For an account with delegated code, the pool takes the second transaction when the first is
// mined and the tracker looks again.
func TestDelegatedAccount(t *testing.T) {
	runInBubble(t, Options{BlockTime: 2 * time.Second}, func(t *testing.T, n *Node) {
		n.SetCode(accountA.Address(), delegatedCode())
		sendPayment(t, n, accountA, 0)
		h := sendPayment(t, n, accountA, 1)
		require.Equal(t, false, blockNumberOf(t, n, h))
		time.Sleep(13 * time.Second)
		require.Equal(t, "0x6", blockNumberOf(t, n, h))
	})
}

func delegatedCode() []byte { return append([]byte{0xef, 0x01, 0x00}, make([]byte, 20)...) }

// A dropped transaction is gone for good; a forgotten one comes back when the tracker looks.
func TestDropAndForget(t *testing.T) {
	runInBubble(t, Options{BlockTime: -1}, func(t *testing.T, n *Node) {
		gone, stays := sendPayment(t, n, accountA, 0), sendPayment(t, n, accountB, 0)
		require.True(t, n.Drop(gone))
		require.False(t, n.Drop(gone))
		n.Forget()
		require.Equal(t, false, blockNumberOf(t, n, stays))
		time.Sleep(11 * time.Second)
		require.Equal(t, false, blockNumberOf(t, n, gone))
		require.Nil(t, blockNumberOf(t, n, stays))
	})
}

// A block is made soon after each transaction that can be mined, and none for one behind a gap.
func TestAutomine(t *testing.T) {
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		h := sendPayment(t, n, accountA, 0)
		require.Nil(t, blockNumberOf(t, n, h))
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, "0x1", blockNumberOf(t, n, h))
		gap := sendPayment(t, n, accountA, 2)
		time.Sleep(time.Hour)
		require.Nil(t, blockNumberOf(t, n, gap))
		sendPayment(t, n, accountA, 1)
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, "0x2", blockNumberOf(t, n, gap))
		requireLinked(t, n)
	})
}

// A node with a socket has the same address after a kill, and closes its connections when it ends.
func TestSocket(t *testing.T) {
	n := Start(t, &Options{BlockTime: -1, KillUnmines: -1})
	url := n.URL()
	h := sendPayment(t, n, accountA, 0)
	n.Mine()
	require.Equal(t, "0x1", blockNumberOf(t, n, h))
	n.Stop()
	_, err := post(t, n, bodyOf(t, "eth_chainId"))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, n.Resume())
	require.NoError(t, n.Resume())
	require.Equal(t, url, n.URL())
	require.Equal(t, "0x1", blockNumberOf(t, n, h))
	n.Close()
	n.Close()
	require.Error(t, n.Resume())
}

// With many clients at once, in real time, the chain stays in order through reorganizations and
// kills.
func TestConcurrent(t *testing.T) {
	n := Start(t, &Options{BlockTime: 5 * time.Millisecond})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for nonce := range uint64(25) {
				raw, h := signPayment(n, Dev(i), nonce)
				for done := false; !done; {
					r, err := post(t, n, bodyOf(t, sendMethod, raw))
					done = err == nil && r.text != ""
				}
				_, _ = post(t, n, bodyOf(t, "eth_getTransactionReceipt", h))
			}
		})
	}
	for range 5 {
		_ = n.Reorg(2)
		n.Pool()
		n.Journal()
	}
	n.Kill()
	require.NoError(t, n.Resume())
	all.Wait()
	n.Kill()
	requireLinked(t, n)
}

// Options that are out of range are refused.
func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{Personality: "parity"}, {MineDelay: -1}, {DumpInterval: -1}, {QueuedSlots: -1}, {PoolLimit: -1}, {Lag: -1},
		{Accounts: map[string]*big.Int{"0x12": nil}}, {Faults: &Faults{Hang: -1}}, {Faults: &Faults{Hang: 0.6, Late: 0.6}},
	} {
		_, err := Listen(&o)
		require.Error(t, err)
		require.Panics(t, func() { NewNode(&o) })
	}
	_, err := Listen(&Options{Addr: "nowhere:1:1"})
	require.Error(t, err)
	n := NewNode(nil)
	require.Empty(t, n.URL())
	require.Panics(t, func() { n.SetBalance("0x", nil) })
	require.Panics(t, func() { n.Nonce("0x") })
	require.Panics(t, func() { accountA.Sign(Unsigned{To: "0x"}) })
	require.Len(t, accountA.Key(), 32)
	for i, d := range devAccounts {
		require.Equal(t, d.address, accountOfKey(Dev(i).Key()).Address())
	}
	require.NotEqual(t, Named("x").Address(), Named("y").Address())
	require.False(t, n.Drop("0x"))
	n.Close()
}

// As the handler of another server, a node also answers requests that are no JSON-RPC.
func TestEnvelope(t *testing.T) {
	for p, want := range map[Personality]int{Geth: http.StatusMethodNotAllowed, Anvil: http.StatusBadRequest} {
		runInBubble(t, Options{Personality: p}, func(t *testing.T, n *Node) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", http.NoBody)
			require.NoError(t, err)
			res, err := n.Client().Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, want, res.StatusCode)
		})
	}
	r, err := post(t, Start(t, nil), make([]byte, 6<<20))
	if err == nil { // the client may notice before it has sent everything
		require.Equal(t, http.StatusRequestEntityTooLarge, r.status)
	}
	runInBubble(t, Options{}, func(t *testing.T, n *Node) {
		for _, params := range []string{`{}`, `[1]`, `["0x12"]`, `["0x12","latest"]`} {
			r, err := post(t, n, []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getTransactionCount","params":`+params+`}`))
			require.NoError(t, err)
			require.Contains(t, r.text, `"code":-32602`)
		}
	})
}
