package evm_test

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// mineUntilDecisionIsAsked makes blocks with a high base fee until a batch at its limit of fees
// needs a decision.
func (p *chainRunner) mineUntilDecisionIsAsked(s *testChain, b batch.Batch) {
	p.waitForState(b, batch.Pending)
	for range 500 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(time.Minute)
		if p.record(b).Decision != "" {
			return
		}
	}
	require.Fail(s, "nobody is asked")
}

// startIntentAtItsFeeLimit returns an intent at its limit of fees that needs a decision.
func startIntentAtItsFeeLimit(s *testChain, budget batch.Budget) (from evmtest.Account, p *chainRunner, b batch.Batch) {
	from = s.newAccount()
	s.mine(4)
	o := finalAfterTwoBlocks()
	o.MaxFeePerGas = big.NewInt(5e9)
	p, _ = s.runIntents(o, from)
	b = s.newIntent(from, 10)
	b.Budget = budget
	p.add(b)
	p.mineUntilDecisionIsAsked(s, b)
	return from, p, b
}

// An intent that a person has given up may still be executed. So it cannot be requeued, neither
// before nor after that: it would get another nonce.
func TestAGivenUpIntentIsNotRequeued(t *testing.T) {
	tier.Plain(t)
	for name, executed := range map[string]bool{"in the pool": false, "executed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
				from, p, b := startIntentAtItsFeeLimit(s, batch.Budget{})
				ctx, by := context.Background(), batch.By{Actor: "ann", Reason: "given up"}
				_, err := p.Decide(ctx, p.record(b), batch.NotExecutedReject, by)
				require.NoError(t, err)
				s.setBaseFee(1)
				if executed {
					s.mine(6)
					require.Equal(t, []int64{10}, s.valuesPaid(from))
				}
				_, err = p.Requeue(ctx, p.record(b), by)
				require.ErrorIs(t, err, batch.ErrNotAllowed)
				s.mine(6)
				time.Sleep(time.Minute)
				s.mine(6)
				assert.Equal(t, []int64{10}, s.valuesPaid(from), "once")
				assert.Equal(t, batch.KindGivenUp, p.record(b).Error.Kind)
			})
		})
	}
}

// A person has given up both intents of an account, and the node has forgotten the first one. An
// intent that is added later gets the free nonce, and the second intent is executed after it,
// once: an intent that was given up has no place in the order any more.
func TestAGivenUpIntentComesBackBehindALaterOne(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
		from := s.newAccount()
		s.mine(4)
		p, k := s.runPipelinedIntents(4, finalAfterTwoBlocks(), from)
		var all []batch.Batch
		for v := range int64(2) {
			all = append(all, s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(v + 1), Gas: 21000, MaxFeePerGas: big.NewInt(5e9)}))
		}
		p.add(all...)
		for _, b := range all {
			p.waitForState(b, batch.Pending)
		}
		s.setBaseFee(900) // above the limit of 500 gwei, so no nonce is closed
		s.mine(1)
		for _, b := range all {
			p.withdraw(b)
		}
		for _, b := range all {
			p.waitForState(b, batch.Delayed)
			now, err := p.Decide(context.Background(), p.record(b), batch.NotExecutedReject, operatorAnn)
			require.NoError(t, err)
			require.Equal(t, batch.KindGivenUp, now.Error.Kind)
		}
		_, _, hashes := k.lastSlot(t, all[0])
		require.Len(t, hashes, 1)
		s.drop(batch.Batch{ID: batch.ID(hashes[0])})

		later := []batch.Batch{s.newIntent(from, 3), s.newIntent(from, 4)}
		p.add(later[0])
		s.setBaseFee(1)
		p.mineUntil(later[0], batch.Committed)
		p.add(later[1])
		p.mineUntil(later[1], batch.Committed)
		assert.Equal(t, []int64{3, 2, 4}, s.valuesPaid(from))
		s.requireOneNonce(k, later[0], 0)
		s.requireOneNonce(k, later[1], 2)
		for _, b := range all {
			assert.Equal(t, batch.Rejected, p.record(b).State)
		}
	})
}

// A person wrongly decides "not committed", and no node answers until the budget is used up: the
// batch stays in doubt, and ends as the ledger says.
func TestAWrongNotCommittedPaysOnce(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from, p, b := startIntentAtItsFeeLimit(s, batch.Budget{Attempts: 5, EveryTry: true})
		ctx, by := context.Background(), batch.By{Actor: "ann", Reason: "not there"}
		s.setFault(func(evmtest.RequestPoint) evmtest.Fault { return evmtest.Fault{Answer: evmtest.AnswerReset} })
		_, err := p.Decide(ctx, p.record(b), batch.NotExecutedSendAgain, by)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		require.NotEqual(t, batch.Rejected, p.record(b).State, "its transaction is in the pool")
		_, err = p.Cancel(ctx, p.record(b), by)
		require.Error(t, err)
		s.setFault(func(evmtest.RequestPoint) evmtest.Fault { return evmtest.Fault{} })
		s.setBaseFee(1)
		p.mineUntil(b, batch.Committed)
		assert.Equal(t, []int64{10}, s.valuesPaid(from), "once")
	})
}

// After a person's wrong "not committed" an order is not put into another batch, which would have
// another nonce.
func TestAWrongNotCommittedPaysAnOrderOnce(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		s.mine(4)
		o := finalAfterTwoBlocks()
		o.MaxFeePerGas = big.NewInt(5e9)
		st := memory.New()
		p := s.startRunnerOf(st, s.newSigningClient(o, s.newKeySigner(from)), queuer.Serial())
		var made []batch.Batch
		engine, err := autobatch.New(st, order.BuilderFunc(func(_ context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
			b, err := evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10), Gas: 21000}.Batch(batch.ID(fmt.Sprintf("of %s, %d", orders[0].ID, len(made))), string(party))
			made = append(made, b)
			return b, err
		}), &autobatch.Options{Wake: func(s batch.ServiceID) { p.Wake(s) }})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- engine.Run(ctx) }()
		defer func() { stop(); require.NoError(t, <-done) }()
		require.NoError(t, engine.Add(ctx, order.Order{ID: "order", Party: batch.ServiceID(from.Address()), Payload: []byte("pay 10")}))
		time.Sleep(5 * time.Second)
		require.Len(t, made, 1)
		b := made[0]
		p.mineUntilDecisionIsAsked(s, b)
		s.setFault(func(evmtest.RequestPoint) evmtest.Fault { return evmtest.Fault{Answer: evmtest.AnswerReset} })
		_, err = p.Decide(ctx, p.record(b), batch.NotExecutedSendAgain, batch.By{Actor: "ann", Reason: "not there"})
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		s.setFault(func(evmtest.RequestPoint) evmtest.Fault { return evmtest.Fault{} })
		s.setBaseFee(1)
		p.mineUntil(b, batch.Committed)
		time.Sleep(time.Minute)
		assert.Len(t, made, 1)
		assert.Equal(t, []int64{10}, s.valuesPaid(from), "once")
		final, _, err := st.FinalOrders(ctx, []order.ID{"order"})
		require.NoError(t, err)
		require.Len(t, final, 1)
		assert.Equal(t, order.Confirmed, final[0].State)
	})
}
