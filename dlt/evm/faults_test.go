package evm_test

import (
	"context"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

var faultSeeds = flag.Int("evm.seeds", 6, "seeds of TestFaults")

// TestFaults delivers payments while everything goes wrong: answers are lost, late, stale or
// nonsense, pools forget, blocks are replaced, the node is killed, and processes end and begin. At
// the end the chain says, block by block, that each payment was made once.
func TestFaults(t *testing.T) { runFaultSeeds(t, false) }

// TestAlternativeFaults is TestFaults for payments with several fees, while the price leaps.
func TestAlternativeFaults(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	runFaultSeeds(t, true)
}

func runFaultSeeds(t *testing.T, lists bool) {
	for seed := range *faultSeeds {
		p := []evmtest.Personality{evmtest.Geth, evmtest.Anvil, evmtest.Provider}[seed%3]
		t.Run(fmt.Sprintf("%s/%d", p, seed), func(t *testing.T) {
			if seed > 0 {
				tier.Plain(t)
			}
			synctest.Test(t, func(t *testing.T) { runFaults(t, p, uint64(seed), lists) })
		})
	}
}

func runFaults(t *testing.T, p evmtest.Personality, seed uint64, lists bool) {
	const accounts, each = 5, 8
	s := newSimulatedChain(t, evmtest.Options{
		Personality: p, BlockTime: 3 * time.Second, DumpInterval: 2 * time.Second,
		Faults: &evmtest.Faults{
			Seed: seed, Hang: 0.03, ResetBefore: 0.05, ResetAfter: 0.08, ErrorBefore: 0.04, ErrorAfter: 0.04, TimeoutText: 0.03,
			Late: 0.05, MaxLateDelay: 20 * time.Second, Busy: 0.04,
			QueryHang: 0.005, QueryReset: 0.03, QueryError: 0.03, QueryBusy: 0.02, QueryTruncated: 0.02,
			Behind: 0.1, Latency: 0.2, Drop: 0.05, Reorg: 0.05, MaxTries: 6,
		},
	})
	store := memory.New()
	seen := &eventRecorder{}
	start := func() (stop func()) {
		r, err := dltbatch.New(store, s.newClient(evm.Options{Finality: evm.After(8)}), &dltbatch.Options{
			Strategy: queuer.Pipelined(16), Observer: seen, StuckAfter: 24 * time.Hour, RequestTimeout: 5 * time.Second,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		return func() { cancel(); require.NoError(t, <-done) }
	}
	adds, err := dltbatch.New(store, s.newClient(evm.Options{Finality: evm.After(8)}), nil)
	require.NoError(t, err)
	want := map[string][]batch.ID{}
	ids := map[batch.ID]batch.ID{} // the batches' ids by the hashes of their transactions
	var all []batch.Batch
	for n := range uint64(each) {
		for i := range accounts {
			b := s.newPayment(evmtest.Dev(i), n, 1)
			if lists {
				b = s.signAlternatives(evmtest.Dev(i), evmtest.Unsigned{Nonce: n, To: evmtest.Dev(9).Address(), Value: big.NewInt(1)}, feeInGwei(.1, 3), feeInGwei(.2, 20), feeInGwei(.4, 120))
				for at := range 3 {
					ids[s.alternativeAsBatch(b, at).ID] = b.ID
				}
			} else {
				ids[b.ID] = b.ID
			}
			all = append(all, b)
			want[evmtest.Dev(i).Address()] = append(want[evmtest.Dev(i).Address()], b.ID)
		}
	}
	require.NoError(t, adds.Add(context.Background(), all...))
	random := rand.New(rand.NewPCG(seed, 1))
	stops := []func(){start(), start()}
	final := func() bool {
		for _, b := range all {
			if rec, err := adds.Get(context.Background(), b.Key()); err != nil || !rec.Final() {
				return false
			}
		}
		return true
	}
	for hour := 0; hour < 48 && !final(); {
		time.Sleep(time.Duration(random.IntN(60)) * time.Second)
		switch random.IntN(12) {
		case 0:
			s.node.Kill()
			time.Sleep(time.Duration(random.IntN(20)) * time.Second)
			require.NoError(t, s.node.Resume())
		case 1:
			i := random.IntN(2)
			stops[i]()
			stops[i] = start()
		case 2:
			s.node.Forget()
		case 3, 4, 5:
			if lists {
				s.setBaseFee(int64(random.IntN(90)))
			}
		}
		if random.IntN(100) == 0 {
			hour++
		}
	}
	for _, stop := range stops {
		stop()
	}
	executed, risen := map[string][]batch.ID{}, 0
	for _, b := range s.node.Blocks() {
		for _, tx := range b.Transactions {
			executed[tx.From] = append(executed[tx.From], ids[batch.ID(tx.Hash)])
			if lists && batch.ID(tx.Hash) != ids[batch.ID(tx.Hash)] {
				risen++
			}
		}
	}
	assert.Equal(t, want, executed, "each payment once, in the order of nonces")
	for _, b := range all {
		rec, err := adds.Get(context.Background(), b.Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State, "%s after attempt %d: %v", b.Key(), rec.Attempt, rec.Error)
	}
	assert.Empty(t, seen.ofKind(batch.EventVanished))
	t.Logf("seed %d: %d of %d were executed with higher fees", seed, risen, len(all))
}
