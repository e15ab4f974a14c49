package evm_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

const siblingHash = "0x3333333333333333333333333333333333333333333333333333333333333333"

// newScriptWithBlock99 returns a node with this head, whose block 99 has the hash hash99 and
// contains the transaction tx of the first account with nonce 0.
func newScriptWithBlock99(head uint64, hash99, tx string) *scriptedNode {
	from := evmtest.Dev(0).Address()
	at := func(tag any) uint64 {
		if name, ok := tag.(map[string]any); ok && (name["blockHash"] == hash99 || name["blockHash"] == blockAt(99)["hash"]) {
			if name["blockHash"] != hash99 {
				return head + 1
			}
			return 99
		}
		n, known := heightOf(tag, head)
		if !known {
			return head + 1
		}
		return n
	}
	inBlock := map[string]any{"hash": tx, "from": from, "nonce": "0x0", "type": "0x2", "blockHash": hash99}
	return &scriptedNode{answersByMethod: map[string]func([]any) (any, string){
		"eth_chainId": func([]any) (any, string) { return "0x539", "" },
		"eth_getBlockByNumber": func(params []any) (any, string) {
			n := at(params[0])
			if n > head {
				return nil, ""
			}
			block := blockAt(n)
			block["baseFeePerGas"] = "0x3b9aca00"
			if n == 99 {
				block["hash"], block["transactions"] = hash99, []any{inBlock}
			}
			return block, ""
		},
		"eth_getTransactionCount": func(params []any) (any, string) {
			switch n := at(params[1]); {
			case n > head:
				return nil, "header not found"
			case n >= 99:
				return "0x1", ""
			}
			return "0x0", ""
		},
		"eth_getTransactionReceipt": func(params []any) (any, string) {
			if params[0] != tx {
				return nil, ""
			}
			return receiptIn(batch.ID(tx), 99, map[string]any{"blockHash": hash99}), ""
		},
		"eth_getTransactionByHash": func(params []any) (any, string) {
			if params[0] != tx {
				return nil, ""
			}
			return inBlock, ""
		},
		"eth_sendRawTransaction": func([]any) (any, string) { return nil, "nonce too low" },
	}}
}

// startBalancer returns an address behind which each request goes to one of two nodes at random.
func startBalancer(t *testing.T, a, b *scriptedNode) (url string) {
	random := rand.New(rand.NewPCG(1, 2))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if random.IntN(2) == 0 {
			a.ServeHTTP(w, r)
		} else {
			b.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Two nodes share one address, and one of them is behind: its last block is a sibling of the other
// node's block of that height. By the other node's head, the sibling would be deep. No status
// rests on the sibling, in whatever order the nodes answer: otherwise a payment would be reported
// as made that is not, or would be made twice.
func TestASiblingOfANodeThatIsBehindProvesNothing(t *testing.T) {
	tier.Plain(t)
	priceless, url := newScriptedNode(t)
	setBaseFee(priceless, big.NewInt(1e9), 0)
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	first, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{})
	require.NoError(t, err)
	b := intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000})
	a := attempt(b, 1)
	a.Prepared, err = first.Prepare(t.Context(), a)
	require.NoError(t, err)
	_, _, hashes, err := evm.Slot(a.Prepared)
	require.NoError(t, err)
	ours, hash99 := hashes[0], blockAt(99)["hash"].(string)
	for _, most := range []int{0, 1} { // requests in one array; 0 is any number
		// The number of blocks above the sibling's height. With one block, its parent hash would
		// already tell the sibling apart.
		const above = 3
		for name, c := range map[string]struct {
			good, behind *scriptedNode
			right, wrong batch.Reported
		}{
			"ours is on the chain":   {newScriptWithBlock99(99+above, hash99, ours), newScriptWithBlock99(99, siblingHash, foreignHash), batch.ReportedCommitted, batch.ReportedVoid},
			"ours is on the sibling": {newScriptWithBlock99(99+above, hash99, foreignHash), newScriptWithBlock99(99, siblingHash, ours), batch.ReportedVoid, batch.ReportedCommitted},
		} {
			t.Run(fmt.Sprint(name, most), func(t *testing.T) {
				c.good.maxArray, c.behind.maxArray = most, most
				client, err := evm.NewSigner(startBalancer(t, c.good, c.behind), 1337, signer, &evm.SignerOptions{Options: evm.Options{Finality: evm.After(above)}})
				require.NoError(t, err)
				found := map[batch.Reported]int{}
				for range 600 {
					got, _ := client.BatchStatuses(t.Context(), b.Service, []batch.Attempt{a})
					for _, st := range got {
						found[st.Reported]++
					}
				}
				assert.Zero(t, found[c.wrong])
				assert.NotZero(t, found[c.right])
			})
		}
	}
}

func TestASiblingOfANodeThatIsBehindRejectsNothing(t *testing.T) {
	tier.Plain(t)
	b := signedBatch(nil) // with nonce 0
	c := newTestClient(t, startBalancer(t, newScriptWithBlock99(100, blockAt(99)["hash"].(string), string(b.ID)), newScriptWithBlock99(99, siblingHash, foreignHash)), &evm.Options{Finality: evm.After(1)})
	evidence, kinds := map[dlt.Evidence]int{}, map[batch.ErrorKind]int{}
	for range 600 {
		if e, err := c.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, 2)}); err == nil {
			evidence[e]++
		}
		kinds[dlt.Kind(c.Submit(t.Context(), attempt(b, 2)))]++
	}
	assert.Zero(t, evidence[dlt.NotCommitted])
	assert.NotZero(t, evidence[dlt.Committed])
	assert.Zero(t, kinds[batch.KindRejected])
}
