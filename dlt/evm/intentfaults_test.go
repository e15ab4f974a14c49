package evm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// TestIntentFaults executes intents under all the faults of TestFaults. In addition, another
// wallet uses the same keys, base fees leap, signers fail, and people withdraw batches that are
// under way. At the end the chain shows, block by block, that each intent was executed once, or
// was withdrawn and never executed.
func TestIntentFaults(t *testing.T) {
	for seed := range *faultSeeds {
		p := []evmtest.Personality{evmtest.Geth, evmtest.Anvil, evmtest.Provider}[seed%3]
		for name, strategy := range map[string]queuer.Strategy{"serial": queuer.Serial(), "pipelined": queuer.Pipelined(4)} {
			t.Run(fmt.Sprintf("%s/%s/%d", name, p, seed), func(t *testing.T) {
				if seed > 0 {
					tier.Plain(t)
				}
				synctest.Test(t, func(t *testing.T) { runIntentFaults(t, p, strategy, uint64(seed)) })
			})
		}
	}
}

func runIntentFaults(t *testing.T, p evmtest.Personality, strategy queuer.Strategy, seed uint64) {
	const accounts, each = 4, 6
	s := newSimulatedChain(t, evmtest.Options{
		Personality: p, BlockTime: 3 * time.Second, DumpInterval: 2 * time.Second,
		Faults: &evmtest.Faults{
			Seed: seed, Hang: 0.03, ResetBefore: 0.05, ResetAfter: 0.08, ErrorBefore: 0.04, ErrorAfter: 0.04, TimeoutText: 0.03,
			Late: 0.05, MaxLateDelay: 20 * time.Second, Busy: 0.04,
			QueryHang: 0.005, QueryReset: 0.03, QueryError: 0.03, QueryBusy: 0.02, QueryTruncated: 0.02,
			Behind: 0.1, Latency: 0.2, Drop: 0.05, Reorg: 0.05, MaxTries: 6,
		},
	})
	var all []evmtest.Account
	for i := range accounts {
		all = append(all, evmtest.Dev(i))
	}
	random := rand.New(rand.NewPCG(seed, 1))
	good := s.newKeySigner(all...)
	signer := signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
		if time.Now().UnixNano()%11 == 0 {
			return [65]byte{}, dlt.ErrUnavailable
		}
		return good.Sign(ctx, account, tx)
	})
	o := evm.SignerOptions{Options: evm.Options{Finality: evm.After(8)}}
	store := memory.New()
	seen, k := &eventRecorder{}, &slotRecorder{}
	var held atomic.Int64
	start := func() (stop func()) {
		ledger := hooked.Wrap(withSlotRecorder(s.newSigningClient(o, signer), k), hooked.Hooks{Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
			err := next(ctx, a)
			if _, _, hashes, bad := evm.Slot(a.Prepared); bad == nil && time.Now().UnixMilli()%11 == 0 && s.node.HoldBack(hashes[len(hashes)-1]) {
				held.Add(1) // anvil keeps such a transaction out of its blocks for ever
			}
			return err
		}})
		r, err := dltbatch.New(store, ledger, &dltbatch.Options{Strategy: strategy, Observer: seen, StuckAfter: 24 * time.Hour, RequestTimeout: 5 * time.Second})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		return func() { cancel(); require.NoError(t, <-done) }
	}
	adds, err := dltbatch.New(store, s.newSigningClient(o, signer), nil)
	require.NoError(t, err)
	want := map[string][]int64{}
	var intents []batch.Batch
	for n := range int64(each) {
		for i, a := range all {
			value := 1000*int64(i+1) + n
			intents = append(intents, s.newIntent(a, value))
			want[a.Address()] = append(want[a.Address()], value)
		}
	}
	require.NoError(t, adds.Add(context.Background(), intents...))
	final := func() bool {
		for _, b := range intents {
			if rec, err := adds.Get(context.Background(), b.Key()); err != nil || !rec.Final() {
				return false
			}
		}
		return true
	}
	withdrawn := map[batch.ID]bool{}
	stops := []func(){start(), start(), start()}
	for step := 0; step < 3000 && !final(); step++ {
		time.Sleep(time.Duration(random.IntN(60)) * time.Second)
		switch random.IntN(17) {
		case 0:
			s.node.Kill()
			time.Sleep(time.Duration(random.IntN(20)) * time.Second)
			require.NoError(t, s.node.Resume())
		case 1:
			i := random.IntN(len(stops))
			stops[i]()
			stops[i] = start()
		case 2:
			s.node.Forget()
		case 3, 4, 5, 6, 7: // another wallet with the same key, at the nonce that the next intent gets or has
			a := all[random.IntN(accounts)]
			latest, _ := s.node.Nonce(a.Address())
			raw, _ := a.Sign(evmtest.Unsigned{ChainID: s.chain, Nonce: latest, To: evmtest.Dev(9).Address(), Value: big.NewInt(1), Tip: big.NewInt(5e9), FeeCap: big.NewInt(90e9)})
			s.sendWithoutFaults(raw)
		case 8:
			s.setBaseFee(int64(random.IntN(120)))
		case 14, 15, 16:
			for _, i := range random.Perm(len(intents)) { // one of the intents that are under way
				rec, err := adds.Get(context.Background(), intents[i].Key())
				require.NoError(t, err)
				if _, err = adds.Withdraw(context.Background(), rec, batch.By{Actor: "ann"}); err == nil {
					withdrawn[rec.ID] = true
					break
				}
			}
		}
	}
	for _, stop := range stops {
		stop()
	}
	executed := map[string][]int64{}
	foreign, closings, never := 0, 0, 0
	for _, b := range intents {
		rec, err := adds.Get(context.Background(), b.Key())
		require.NoError(t, err)
		if rec.State != batch.Rejected || !withdrawn[b.ID] {
			assert.Equal(t, batch.Committed, rec.State, "%s after attempt %d: %v %s", b.Key(), rec.Attempt, rec.Error, rec.Decision)
			continue
		}
		assert.Equal(t, batch.KindCancelled, rec.Error.Kind, "%s: %v", b.Key(), rec.Error)
		values := want[string(b.Service)]
		value := valueOf(t, b)
		want[string(b.Service)] = slices.DeleteFunc(slices.Clone(values), func(v int64) bool { return v == value })
		never++
	}
	for _, b := range s.node.Blocks() {
		for _, tx := range b.Transactions {
			switch v := tx.Value.Int64(); v {
			case 0:
				closings++
			case 1:
				foreign++
			default:
				executed[tx.From] = append(executed[tx.From], v)
			}
		}
	}
	if strategy.ReliesOnOrder { // an intent whose nonce another wallet has used is executed after those under way
		for account, values := range executed {
			slices.Sort(values)
			assert.Equal(t, want[account], values, "each intent once")
		}
	} else {
		assert.Equal(t, want, executed, "each intent once, in the order of its lane")
	}
	fees, slots := 0, 0
	for _, b := range intents {
		nonces := map[uint64]bool{}
		for _, kept := range k.preparedOf(b) {
			nonce, f, _, err := evm.Slot(kept)
			require.NoError(t, err)
			nonces[nonce] = true
			fees = max(fees, len(f))
		}
		slots = max(slots, len(nonces))
	}
	t.Logf("seed %d: %d foreign transactions, %d held back, %d of %d withdrawn intents never executed, %d transfers of nothing; at most %d transactions in a slot, %d slots of an intent",
		seed, foreign, held.Load(), never, len(withdrawn), closings, fees, slots)
}

// valueOf returns the value that an intent pays.
func valueOf(t *testing.T, b batch.Batch) int64 {
	var doc struct {
		Value int64 `json:"value,string"`
	}
	require.NoError(t, json.Unmarshal(b.Payload, &doc))
	return doc.Value
}

// sendWithoutFaults sends bytes to the node without the library. The node may refuse them, or not
// answer.
func (s *testChain) sendWithoutFaults(raw []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, sendRequest(raw))
	require.NoError(s, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
}
