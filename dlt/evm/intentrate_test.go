package evm_test

import (
	"context"
	"flag"
	"fmt"
	"math/big"
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

var runsAllRates = flag.Bool("evm.rates", false, "all cases of TestIntentsAndALoop, which take minutes")

// rateCase says how intents are executed: for how many accounts, and on which chain.
type rateCase struct {
	accounts         int
	blockTime        time.Duration
	waitsForFinality bool // the finality is the "finalized" block, 64 blocks deep; else After(3)
	payments         int
}

func (c rateCase) String() string {
	finality := "after 3"
	if c.waitsForFinality {
		finality = "finalized"
	}
	return fmt.Sprintf("%d accounts, blocks of %s, %s, n %d", c.accounts, c.blockTime, finality, c.payments)
}

// finalityDepth returns how many blocks the deep block is below the head.
func (c rateCase) finalityDepth() uint64 {
	if c.waitsForFinality {
		return 64
	}
	return 3
}

// TestIntentsAndALoop compares a Runner with a loop that counts nonces in memory and has as many
// payments under way. It measures both until the last payment is deep, in virtual time.
func TestIntentsAndALoop(t *testing.T) {
	tier.Plain(t)
	cases := []rateCase{{1, 12 * time.Second, false, 4}, {1, 2 * time.Second, false, 16}}
	if *runsAllRates {
		cases = nil
		for _, accounts := range []int{1, 100} {
			for _, block := range []time.Duration{2 * time.Second, 12 * time.Second} {
				for _, final := range []bool{false, true} {
					for _, n := range []int{1, 4, 16} {
						cases = append(cases, rateCase{accounts, block, final, n})
					}
				}
			}
		}
	}
	for _, c := range cases {
		t.Run(c.String(), func(t *testing.T) {
			each := 4 * c.payments
			var loop, ours time.Duration
			synctest.Test(t, func(t *testing.T) { loop = c.runLoop(t, each) })
			synctest.Test(t, func(t *testing.T) { ours = c.runRunner(t, each) })
			rate := func(d time.Duration) float64 { return float64(c.accounts*each) / d.Seconds() }
			if c.payments == 16 {
				assert.Less(t, ours.Seconds(), loop.Seconds()/0.9)
			}
			t.Logf("RATE %s: loop %.4f/s, Runner %.4f/s, %.2f", c, rate(loop), rate(ours), loop.Seconds()/ours.Seconds())
		})
	}
}

func (c rateCase) newTestChain(t *testing.T) (*testChain, []evmtest.Account) {
	s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Anvil, BlockTime: c.blockTime, SlotsInAnEpoch: 32})
	var all []evmtest.Account
	for range c.accounts {
		all = append(all, s.newAccount())
	}
	time.Sleep(70 * c.blockTime)
	return s, all
}

// runLoop makes the payments with a loop as a user may write it, and returns how long it took.
func (c rateCase) runLoop(t *testing.T, each int) time.Duration {
	s, all := c.newTestChain(t)
	began := time.Now()
	next, done := make([]int, len(all)), make([]int, len(all))
	for left := len(all); left > 0; time.Sleep(time.Second) {
		left = 0
		var head string
		s.call(&head, "eth_blockNumber")
		at := new(big.Int)
		at.SetString(head[2:], 16)
		for i, a := range all {
			if at.Uint64() > c.finalityDepth() {
				var n string
				s.call(&n, "eth_getTransactionCount", a.Address(), fmt.Sprintf("0x%x", at.Uint64()-c.finalityDepth()))
				count := new(big.Int)
				count.SetString(n[2:], 16)
				done[i] = int(count.Int64())
			}
			for ; next[i] < each && next[i]-done[i] < c.payments; next[i]++ {
				s.sendForeign(s.newPayment(a, uint64(next[i]), int64(next[i]+1)))
			}
			if done[i] < each {
				left++
			}
		}
	}
	return time.Since(began)
}

func (c rateCase) runRunner(t *testing.T, each int) time.Duration {
	s, all := c.newTestChain(t)
	o := evm.SignerOptions{Options: evm.Options{HeadInterval: time.Second}}
	if !c.waitsForFinality {
		o.Finality = evm.After(c.finalityDepth())
	}
	strategy := queuer.Pipelined(c.payments)
	if c.payments == 1 {
		strategy = queuer.Serial()
	}
	r, err := dltbatch.New(memory.New(), s.newSigningClient(o, s.newKeySigner(all...)), &dltbatch.Options{Strategy: strategy, StuckAfter: 24 * time.Hour, PollInterval: c.blockTime / 2})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() { stop(); require.NoError(t, <-ended) }()
	time.Sleep(time.Second)
	began := time.Now()
	var intents []batch.Batch
	for v := range int64(each) {
		for _, a := range all {
			intents = append(intents, s.newIntent(a, v+1))
		}
	}
	require.NoError(t, r.Add(ctx, intents...))
	for _, b := range intents {
		rec, err := r.Await(ctx, b.Key())
		require.NoError(t, err)
		require.Equal(t, batch.Committed, rec.State)
	}
	took := time.Since(began)
	paid := 0
	for _, b := range s.node.Blocks() {
		paid += len(b.Transactions)
	}
	assert.Equal(t, len(intents), paid, "each once")
	return took
}

// A loop that counts nonces in memory pays twice when an answer is lost, and stands still when a
// node forgets a transaction. A Runner with four intents under way does neither.
func TestWhatALoopDoesUnderFaults(t *testing.T) {
	tier.Plain(t)
	const each = 8
	for name, c := range map[string]struct {
		fault evmtest.Fault
		loop  []int64 // the values that the loop pays
	}{
		"an answer is lost":               {evmtest.Fault{Answer: evmtest.AnswerReset, Acceptance: evmtest.AcceptedFirst}, []int64{1, 2, 3, 3, 4, 5, 6, 7, 8}},
		"a node takes one and forgets it": {evmtest.Fault{Drop: true}, []int64{1, 2}},
	} {
		faulty := func(s *testChain) {
			sends := 0
			s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
				if p.Method != "eth_sendRawTransaction" {
					return evmtest.Fault{}
				}
				if sends++; sends == 3 {
					return c.fault
				}
				return evmtest.Fault{}
			})
		}
		begin := func(t *testing.T) (*testChain, evmtest.Account) {
			s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Anvil, BlockTime: 12 * time.Second})
			from := s.newAccount()
			time.Sleep(time.Minute)
			faulty(s)
			return s, from
		}
		t.Run(name+"/loop", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, from := begin(t)
				nonce := uint64(0)
				for v := int64(1); v <= each; nonce++ { // after an error it sends the same payment with the next nonce
					resp, err := s.http.Post(s.url, "application/json", sendRequest(s.encodedTx(s.newPayment(from, nonce, v), 0)))
					if err == nil {
						require.NoError(t, resp.Body.Close())
						v++
					}
				}
				time.Sleep(time.Hour)
				assert.Equal(t, c.loop, s.valuesPaid(from))
			})
		})
		t.Run(name+"/Runner", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, from := begin(t)
				p, _ := s.runPipelinedIntents(4, evm.SignerOptions{Options: evm.Options{Finality: evm.After(3)}}, from)
				all, values := s.newIntents(from, each)
				p.add(all...)
				time.Sleep(time.Hour)
				for _, b := range all {
					assert.Equal(t, batch.Committed, p.record(b).State)
				}
				assert.Equal(t, values, s.valuesPaid(from))
			})
		})
	}
}
