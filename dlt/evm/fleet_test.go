package evm_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// balancer is several nodes behind one address. Each request goes to one of them at random.
type balancer struct {
	mu     sync.Mutex
	random *rand.Rand
	nodes  []*scriptedNode
}

// ServeHTTP implements [http.Handler].
func (f *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	node := f.nodes[f.random.IntN(len(f.nodes))]
	f.mu.Unlock()
	node.ServeHTTP(w, r)
}

// setFinalizedHeight makes a node answer "finalized" with a height.
func setFinalizedHeight(s *scriptedNode, final uint64) *scriptedNode {
	old := s.answersByMethod["eth_getBlockByNumber"]
	s.answersByMethod["eth_getBlockByNumber"] = func(params []any) (any, string) {
		if params[0] == "finalized" {
			return old([]any{hexNumber(final), false})
		}
		return old(params)
	}
	return s
}

// startMixedBalancer returns the address of a group of nodes. Some of its nodes stand still on an
// orphaned block 99; the others have above blocks on top of the chain's own block 99. If onChain
// is true, ours is executed in the chain's block 99 and somebody else's transaction of the same
// nonce in the orphan; if it is false, the other way round.
func startMixedBalancer(t *testing.T, random *rand.Rand, above uint64, most int, ours string, onChain bool) (url, drawn string) {
	there, orphan := ours, foreignHash
	if !onChain {
		there, orphan = foreignHash, ours
	}
	good, still := 1+random.IntN(2), random.IntN(3)
	if good+still > 3 {
		good = 1
	}
	f := &balancer{random: random}
	for range good {
		final := 99 + random.Uint64N(above+1)
		f.nodes = append(f.nodes, setFinalizedHeight(newScriptWithBlock99(99+above, blockAt(99)["hash"].(string), there), final))
	}
	for range still {
		f.nodes = append(f.nodes, setFinalizedHeight(newScriptWithBlock99(99, siblingHash, orphan), 90))
	}
	for _, n := range f.nodes {
		n.maxArray = most
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return server.URL, fmt.Sprintf("%d nodes, %d of them stand still, arrays of %d", good+still, still, most)
}

// Some of several nodes behind one address are on a fork. Whatever the finality, no answer of the
// client is false, however the questions are spread over the nodes and however far the others are
// ahead: otherwise a payment would be reported as made that is not, or would be made twice. The
// right answer comes in the end.
func TestNoAnswerOfSeveralNodesIsFalse(t *testing.T) {
	tier.Plain(t)
	priceless, url := newScriptedNode(t)
	setBaseFee(priceless, big.NewInt(1e9), 0)
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	first, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{})
	require.NoError(t, err)
	intent := attempt(intentOf(t, 1, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000}), 2)
	intent.Prepared, err = first.Prepare(t.Context(), intent)
	require.NoError(t, err)
	_, _, hashes, err := evm.Slot(intent.Prepared)
	require.NoError(t, err)
	tx := signedBatch(nil)

	for seed := range uint64(*faultSeeds) / 3 {
		for _, above := range []uint64{3, 10, 20, 80, 1000} {
			for _, finality := range []evm.Finality{{}, evm.After(1), evm.After(3), evm.After(above)} {
				random := rand.New(rand.NewPCG(seed, above))
				onChain, most := random.IntN(2) == 0, []int{0, 1, 1 + random.IntN(40)}[random.IntN(3)]
				t.Run(fmt.Sprintf("%s/%d above/seed %d", finality, above, seed), func(t *testing.T) {
					url, drawn := startMixedBalancer(t, random, above, most, hashes[0], onChain)
					c, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{Options: evm.Options{Finality: finality}})
					require.NoError(t, err)
					right, wrong := batch.ReportedCommitted, batch.ReportedVoid
					if !onChain {
						right, wrong = wrong, right
					}
					rights := 0
					for asked := 0; rights < 10 && asked < 3000; asked++ {
						got, _ := c.BatchStatuses(t.Context(), intent.Service, []batch.Attempt{intent})
						for _, st := range got {
							require.NotEqual(t, wrong, st.Reported, "an intent: %s, question %d: %s", drawn, asked, st.Message)
							rights += map[bool]int{true: 1}[st.Reported == right]
						}
					}
					assert.NotZero(t, rights, "an intent: %s", drawn)

					url, drawn = startMixedBalancer(t, random, above, most, string(tx.ID), onChain)
					signedOnes := newTestClient(t, url, &evm.Options{Finality: finality})
					rights = 0
					for asked := 0; rights < 10 && asked < 3000; asked++ {
						evidence, _ := signedOnes.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(tx, 2)})
						refused := dlt.Kind(signedOnes.Submit(t.Context(), attempt(tx, 2)))
						if onChain {
							require.NotEqual(t, dlt.NotCommitted, evidence, "a transaction: %s, question %d", drawn, asked)
							require.NotEqual(t, batch.KindRejected, refused, "a transaction: %s, question %d", drawn, asked)
							rights += map[bool]int{true: 1}[evidence == dlt.Committed]
						} else {
							require.NotEqual(t, dlt.Committed, evidence, "a transaction: %s, question %d", drawn, asked)
							rights += map[bool]int{true: 1}[evidence == dlt.NotCommitted]
						}
					}
					assert.NotZero(t, rights, "a transaction: %s", drawn)
				})
			}
		}
	}
}
