package evm_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

var operatorAnn = batch.By{Actor: "ann", Reason: "wrong address"}

// withdraw withdraws an intent once its claim has ended.
func (p *chainRunner) withdraw(b batch.Batch) {
	p.Helper()
	rec := p.waitForState(b, batch.Pending, batch.Valid)
	now, err := p.Withdraw(context.Background(), rec, operatorAnn)
	require.NoError(p, err)
	require.True(p, now.Withdrawn)
	require.Equal(p, rec.State, now.State, "only the ledger's word moves it")
}

// startTooCheapIntents returns n intents of an account that are under way and in no block: each
// has its own limit of fees, below the base fee.
func startTooCheapIntents(s *testChain, n int) (from evmtest.Account, p *chainRunner, all []batch.Batch) {
	from = s.newAccount()
	s.mine(4)
	p, _ = s.runPipelinedIntents(4, finalAfterTwoBlocks(), from)
	for v := range int64(n) {
		all = append(all, s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(v + 1), Gas: 21000, MaxFeePerGas: big.NewInt(5e9)}))
	}
	p.add(all...)
	for _, b := range all {
		p.waitForState(b, batch.Pending)
	}
	s.setBaseFee(50)
	s.mine(1)
	return from, p, all
}

// lowerBaseFeeAndFinish lowers the base fee, makes blocks until all intents are final, and returns
// their states.
func (p *chainRunner) lowerBaseFeeAndFinish(s *testChain, all []batch.Batch) (states []batch.State) {
	s.setBaseFee(1)
	for _, b := range all {
		states = append(states, p.mineUntil(b, batch.Committed, batch.Rejected, batch.Invalid).State)
	}
	return states
}

// A person withdraws an intent that no block takes, while others of its account wait. A transfer
// of nothing uses the intent's nonce, although the intent's own limit would not pay for it: the
// intent has ended for good, and the others go on.
func TestAnIntentIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct{ count, index int }{"the first of three": {3, 0}, "the second of three": {3, 1}, "the last of three": {3, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
				from, p, all := startTooCheapIntents(s, c.count)
				b := all[c.index]
				p.withdraw(b)
				e, err := p.Explain(context.Background(), b.Key())
				require.NoError(t, err)
				assert.True(t, e.Withdrawn)
				assert.Contains(t, e.Text, "it is withdrawn")
				_, err = p.Withdraw(context.Background(), p.record(b), operatorAnn)
				require.ErrorIs(t, err, batch.ErrNotAllowed)
				blocks := 10
				if c.index == 0 { // no intent is before it
					blocks = 30
				}
				for range blocks {
					if p.record(b).Final() {
						break
					}
					s.setBaseFee(50)
					s.mine(1)
					time.Sleep(12 * time.Second)
				}
				if c.index == 0 {
					require.Equal(t, batch.Rejected, p.record(b).State, "%v", p.record(b).Error)
				}
				want := []batch.State{batch.Committed, batch.Committed, batch.Committed}[:c.count]
				want[c.index] = batch.Rejected
				assert.Equal(t, want, p.lowerBaseFeeAndFinish(s, all))
				var paid []int64
				for i := range all {
					paid = append(paid, int64(i+1))
				}
				paid[c.index] = 0
				assert.Equal(t, paid, s.valuesPaid(from))
				rec := p.record(b)
				require.NotNil(t, rec.Error)
				assert.Equal(t, batch.KindCancelled, rec.Error.Kind)
				assert.Contains(t, rec.Error.Message, fmt.Sprintf("withdrawn: nonce %d was closed by transaction 0x", c.index))
				assert.False(t, rec.Withdrawn, "it is final")
				acts, err := p.History(context.Background(), b.Key())
				require.NoError(t, err)
				require.Len(t, acts, 1)
				assert.Equal(t, batch.Act{By: operatorAnn, Action: batch.ActionWithdraw, Scope: batch.Only(b.Service), Batch: b.ID, From: batch.Pending, To: batch.Pending, At: acts[0].At}, acts[0])
				// The intent may be requeued: none of its old transactions can take effect any
				// more.
				_, err = p.Requeue(context.Background(), rec, operatorAnn)
				require.NoError(t, err)
				p.mineUntil(b, batch.Committed)
				assert.Equal(t, append(paid, int64(c.index+1)), s.valuesPaid(from))
			})
		})
	}
}

// When no pool has a withdrawn intent, nothing has to be replaced: the transfer that closes the
// nonce has usual fees, even if the intent's last fees were at the client's limit.
func TestClosingAForgottenIntentAtItsFeeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, NoTracker: true})
		from := s.newAccount()
		s.mine(4)
		dear := func(context.Context, evm.Market) (evm.Fee, error) {
			return evm.Fee{Tip: big.NewInt(1e9), FeeCap: big.NewInt(5e9)}, nil
		}
		p, _ := s.runIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(3)}, MaxFeePerGas: big.NewInt(5e9), Fees: dear}, from)
		b := s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10), Gas: 21000})
		p.add(b)
		p.waitForState(b, batch.Pending)
		s.setBaseFee(50)
		s.mine(1)
		p.withdraw(b)
		rec := p.waitForState(b, batch.Delayed)
		assert.Contains(t, rec.Error.Message, "nonce 0 is not closed: a replacement costs")
		s.node.Forget()
		s.setBaseFee(1)
		s.mine(1)
		rec = p.mineUntil(b, batch.Committed, batch.Rejected)
		assert.Equal(t, batch.Rejected, rec.State)
		assert.Equal(t, []int64{0}, s.valuesPaid(from))
	})
}

// The mined transaction decides, and only once it is deep: the intent's own, the one that closes
// the nonce, or another wallet's. A reorganization may replace one by another.
func TestAMinedTransactionDecidesAWithdrawal(t *testing.T) {
	// slot returns the hashes in the intent's slot, once one transaction closes its nonce.
	slot := func(p *chainRunner, k *slotRecorder, b batch.Batch) (own, closing string) {
		for range 500 {
			if all := k.preparedOf(b); len(all) > 0 {
				if _, _, hashes, err := evm.Slot(all[len(all)-1]); err == nil && len(hashes) > 1 {
					return hashes[0], hashes[1]
				}
			}
			time.Sleep(time.Second)
		}
		require.Fail(p, "nothing closes it")
		return "", ""
	}
	for name, c := range map[string]struct {
		act      func(s *testChain, p *chainRunner, k *slotRecorder, from evmtest.Account, b batch.Batch)
		want     batch.State
		paid     []int64
		wantText string
	}{
		"it is mined before": {func(s *testChain, p *chainRunner, _ *slotRecorder, _ evmtest.Account, _ batch.Batch) {
			s.setBaseFee(1)
			s.mine(1)
		}, batch.Committed, []int64{10}, ""},
		"it is mined although what closes it was sent": {func(s *testChain, p *chainRunner, k *slotRecorder, from evmtest.Account, b batch.Batch) {
			_, closing := slot(p, k, b)
			require.True(s, s.node.Drop(closing))
			s.sendWithoutFaults(k.signedBytes(s, from, b, 0))
			s.setBaseFee(1)
			s.mine(1)
		}, batch.Committed, []int64{10}, ""},
		"another wallet's is mined": {func(s *testChain, p *chainRunner, k *slotRecorder, from evmtest.Account, b batch.Batch) {
			raw, _ := from.Sign(evmtest.Unsigned{ChainID: s.chain, To: evmtest.Dev(9).Address(), Value: big.NewInt(99), Tip: big.NewInt(50e9), FeeCap: big.NewInt(900e9)})
			s.sendWithoutFaults(raw)
			s.mine(1)
		}, batch.Rejected, []int64{99}, "nonce 0 was used by transaction"},
		"a reorganization puts it in the place of what closed it": {func(s *testChain, p *chainRunner, k *slotRecorder, from evmtest.Account, b batch.Batch) {
			slot(p, k, b)
			s.setBaseFee(1)
			s.mine(1)
			require.Equal(s, []int64{0}, s.valuesPaid(from))
			p.requireNeverInState(b, 20, batch.Rejected)
			require.NoError(s, s.node.Reorg(2, k.signedBytes(s, from, b, 0))) // in a block with a low base fee
			require.Equal(s, []int64{10}, s.valuesPaid(from))
		}, batch.Committed, []int64{10}, ""},
		"a reorganization puts what closes it in its place": {func(s *testChain, p *chainRunner, k *slotRecorder, from evmtest.Account, b batch.Batch) {
			_, closing := slot(p, k, b)
			raw := k.signedBytes(s, from, b, 1)
			require.True(s, s.node.Drop(closing))
			s.sendWithoutFaults(k.signedBytes(s, from, b, 0))
			s.setBaseFee(1)
			s.mine(1)
			require.Equal(s, []int64{10}, s.valuesPaid(from))
			p.waitForState(b, batch.Valid)
			require.NoError(s, s.node.Reorg(1, raw))
			require.Equal(s, []int64{0}, s.valuesPaid(from))
		}, batch.Rejected, []int64{0}, "nonce 0 was closed by transaction"},
		"nobody has any of it": {func(s *testChain, p *chainRunner, k *slotRecorder, _ evmtest.Account, _ batch.Batch) {
			s.node.Forget()
			s.setBaseFee(1)
		}, batch.Rejected, []int64{0}, "nonce 0 was closed by transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, NoTracker: true})
				from := s.newAccount()
				s.mine(4)
				p, k := s.runIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(3)}}, from)
				b := s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10), Gas: 21000, MaxFeePerGas: big.NewInt(5e9)})
				p.add(b)
				p.waitForState(b, batch.Pending)
				s.setBaseFee(50)
				s.mine(1)
				p.withdraw(b)
				c.act(s, p, k, from, b)
				rec := p.mineUntil(b, batch.Committed, batch.Rejected, batch.Invalid)
				assert.Equal(t, c.want, rec.State)
				assert.Equal(t, c.paid, s.valuesPaid(from))
				if c.wantText != "" {
					require.NotNil(t, rec.Error)
					assert.Contains(t, rec.Error.Message, c.wantText)
				}
				for _, one := range k.preparedOf(b) { // all have one nonce
					nonce, _, _, err := evm.Slot(one)
					require.NoError(t, err)
					assert.Zero(t, nonce)
				}
			})
		})
	}
}

// signedBytes returns the encoded transaction with index at in the slot of an intent that pays 10.
func (k *slotRecorder) signedBytes(s *testChain, from evmtest.Account, b batch.Batch, at int) []byte {
	all := k.preparedOf(b)
	raw, err := evm.SlotRaw(all[len(all)-1], b, s.chain, at)
	require.NoError(s, err)
	return raw
}

// The transaction that closes a nonce, or its estimate, is refused by the node for good, or costs
// more than the client allows: the intent stays under way, and its error says why. It ends when
// the reason is gone. A person may also give it up.
func TestClosingThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		method, answer string // the request that the node refuses, and the text
		baseFee        int64  // the base fee, in gwei
		wantText       string
	}{
		"by the node":            {"eth_sendRawTransaction", "max initcode size exceeded", 50, "nonce 0 is not closed: max initcode size exceeded"},
		"by the node's estimate": {"eth_estimateGas", "execution reverted", 50, "nonce 0 is not closed: the call would be taken back: execution reverted"},
		"by the limit of fees":   {"", "", 900, "nonce 0 is not closed: the base fee of block"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
				from, p, all := startTooCheapIntents(s, 2)
				b := all[0]
				_, err := p.Decide(context.Background(), p.record(b), batch.NotExecutedReject, operatorAnn)
				require.ErrorIs(t, err, batch.ErrNotAllowed)
				p.withdraw(b)
				s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
					if p.Method != c.method {
						return evmtest.Fault{}
					}
					return evmtest.Fault{Answer: evmtest.AnswerError, Code: -32000, Text: c.answer}
				})
				for range 20 { // no later head makes the refusal final
					s.setBaseFee(c.baseFee)
					s.mine(1)
					time.Sleep(12 * time.Second)
				}
				rec := p.record(b)
				require.NotNil(t, rec.Error)
				require.Equal(t, batch.KindNotYet, rec.Error.Kind)
				require.Contains(t, rec.Error.Message, c.wantText)
				require.False(t, rec.Final())
				s.setFault(func(evmtest.RequestPoint) evmtest.Fault { return evmtest.Fault{} })
				assert.Contains(t, [][]batch.State{{batch.Rejected, batch.Committed}, {batch.Committed, batch.Committed}}, p.lowerBaseFeeAndFinish(s, all))
				assert.Contains(t, [][]int64{{0, 2}, {1, 2}}, s.valuesPaid(from))
			})
		})
	}
}

// While another wallet's transaction is in a block, the node refuses the withdrawn intent at
// several heads as one that can never be executed. Then a reorganization takes that block back:
// the refusals were about another chain, and the nonce is closed without a person.
func TestWithdrawalIsRefusedWhileAnotherIsMined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, NoTracker: true})
		from := s.newAccount()
		s.mine(4)
		p, k := s.runIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(90)}}, from)
		b := s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10), Gas: 21000, MaxFeePerGas: big.NewInt(5e9)})
		p.add(b)
		p.waitForState(b, batch.Pending)
		raw, _ := from.Sign(evmtest.Unsigned{ChainID: s.chain, To: evmtest.Dev(9).Address(), Value: big.NewInt(99), Tip: big.NewInt(50e9), FeeCap: big.NewInt(900e9)})
		s.sendWithoutFaults(raw)
		s.mine(1)
		require.Equal(t, []int64{99}, s.valuesPaid(from))
		p.withdraw(b)
		s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
			if p.Method != "eth_sendRawTransaction" {
				return evmtest.Fault{}
			}
			return evmtest.Fault{Answer: evmtest.AnswerError, Code: -32000, Text: "max initcode size exceeded"}
		})
		blocks := 1
		for rec := p.record(b); rec.Error == nil || rec.Error.Kind != batch.KindRejected; rec = p.record(b) {
			require.Less(t, blocks, 80, "%s after %d attempts: %v", rec.State, rec.Attempt, rec.Error)
			s.mine(1)
			blocks++
			time.Sleep(12 * time.Second)
		}
		require.Len(t, k.preparedOf(b), p.record(b).Attempt)
		s.setFault(func(evmtest.RequestPoint) evmtest.Fault { return evmtest.Fault{} })
		require.NoError(t, s.node.Reorg(blocks))
		s.node.Forget() // the node forgets the other wallet's transaction, too
		require.Empty(t, s.valuesPaid(from))
		rec := p.mineUntil(b, batch.Committed, batch.Rejected)
		require.NotNil(t, rec.Error)
		assert.Contains(t, rec.Error.Message, "withdrawn: nonce 0 was closed by transaction 0x")
		assert.Equal(t, []int64{0}, s.valuesPaid(from))
	})
}

// In a lane with several intents under way, giving one up would leave a nonce for which the others
// wait, and its transactions may still take effect. So Decide asks for a withdrawal first, and
// gives the intent up only after that.
func TestDecideAsksForAWithdrawal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
		s.stuckAfter = 2 * time.Minute
		from, p, all := startTooCheapIntents(s, 2)
		for range 50 {
			if p.record(all[0]).Decision != "" && p.record(all[1]).Decision != "" {
				break
			}
			s.setBaseFee(900)
			s.mine(1)
			time.Sleep(12 * time.Second)
		}
		seen := p.record(all[0])
		require.NotEmpty(t, seen.Decision)
		_, err := p.Decide(context.Background(), seen, batch.NotExecutedReject, operatorAnn)
		require.ErrorIs(t, err, batch.ErrNotAllowed)
		require.ErrorContains(t, err, "others of its lane are under way (1): withdraw it")
		require.Equal(t, seen.Version, p.record(all[0]).Version)
		now, err := p.Withdraw(context.Background(), seen, operatorAnn)
		require.NoError(t, err)
		require.Empty(t, now.Decision, "a person has decided")
		for range 20 {
			s.setBaseFee(900)
			s.mine(1)
			time.Sleep(12 * time.Second)
			if rec := p.record(all[0]); rec.State == batch.Delayed {
				break
			}
		}
		now, err = p.Decide(context.Background(), p.record(all[0]), batch.NotExecutedReject, operatorAnn)
		require.NoError(t, err)
		assert.Equal(t, batch.KindGivenUp, now.Error.Kind)
		s.setBaseFee(1)
		p.mineUntil(all[1], batch.Committed)
		assert.LessOrEqual(t, len(s.valuesPaid(from)), 2)
	})
}

// A batch that is a signed transaction cannot be withdrawn, because the library has no keys.
func TestASignedTransactionIsNotWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
		from := s.newAccount()
		p := s.startRunner(evm.Options{})
		b := s.newPayment(from, 0, 10)
		p.add(b)
		_, err := p.Withdraw(context.Background(), p.waitForState(b, batch.Pending), operatorAnn)
		require.ErrorIs(t, err, batch.ErrNotAllowed)
		assert.ErrorContains(t, err, `the ledger "evm:1337" cannot keep a batch from taking effect`)
	})
}

// A process stops at each step on the way to the transaction that closes a nonce. The others go
// on, and the process is thawed later: one transaction of the nonce is mined, and the record says
// which.
func TestACrashDuringAWithdrawal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
		s.mine(4)
		type one struct {
			*processGroup
			*stepTrap
			from    evmtest.Account
			b       batch.Batch
			isArmed *atomic.Bool
		}
		var all []one
		for _, at := range []stepName{beforeSigning, afterSigning, afterKeeping, beforePosting, afterPosting, afterRecording} {
			from, tr := s.newAccount(), &stepTrap{step: at, triggerCount: 1}
			x := one{stepTrap: tr, from: from, isArmed: &atomic.Bool{}}
			x.processGroup = s.startProcesses(s.signingClients(from), func(at stepName) bool { return x.isArmed.Load() && tr.stopsHere(at) })
			x.b = s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10), Gas: 21000, MaxFeePerGas: big.NewInt(5e9)})
			require.NoError(t, x.adder.Add(context.Background(), x.b))
			for range 100 {
				if x.stateOf(x.b) == batch.Pending {
					break
				}
				time.Sleep(time.Second)
			}
			all = append(all, x)
		}
		s.setBaseFee(50)
		s.mine(1)
		for _, x := range all {
			rec, err := x.adder.Get(context.Background(), x.b.Key())
			require.NoError(t, err)
			_, err = x.adder.Withdraw(context.Background(), rec, operatorAnn)
			require.NoError(t, err)
			x.isArmed.Store(true)
		}
		for range 200 {
			if !slices.ContainsFunc(all, func(x one) bool { return x.stateOf(x.b) != batch.Rejected }) {
				break
			}
			time.Sleep(12 * time.Second)
			s.setBaseFee(50)
			s.mine(1)
		}
		for _, x := range all {
			assert.True(t, x.wasTriggered.Load(), "%s: nothing ended there", x.step)
			x.thawAll()
		}
		time.Sleep(time.Minute)
		s.setBaseFee(1)
		s.mine(5)
		for _, x := range all {
			assert.Equal(t, batch.Rejected, x.stateOf(x.b), x.step)
			x.requireOneSlot(x.b)
			assert.Equal(t, []int64{0}, s.valuesPaid(x.from), x.step)
		}
	})
}
