package evm_test

import (
	"context"
	"errors"
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
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// laneScenarios are the scenarios with a SigningClient and several intents of an account under
// way.
var laneScenarios = map[string]scenario{
	"LaneReceiptLagsCount":           {run: laneOfMany},
	"LaneNonceTooLowNeverRenonces":   {run: laneNonceTooLow, needsNode: true},
	"LaneTwoPreparesOneSlot":         {run: laneOneSlot},
	"LaneForeignTakesNonce":          {run: laneForeign},
	"LaneForeignUnfinalIsReorged":    {run: laneForeignIsReorganizedAway},
	"LaneNonceAboveUnfinalForeign":   {run: laneAboveForeign},
	"LaneCrashAtEveryStep":           {run: laneCrashes},
	"LaneNodeKilledUnmines":          {run: laneUnmined, needsNode: true, unfitPersonality: evmtest.Anvil, unfitReason: "it does not put back what it un-mined"},
	"LanePoolForgetsTenSeconds":      {run: lanePoolForgets, needsNode: true, unfitPersonality: evmtest.Anvil, unfitReason: "its pool is not kept"},
	"LaneAcceptedAndDropped":         {run: laneDropped},
	"LaneFundsRunOutAndComeBack":     {run: laneFundsRunOut},
	"LaneBumpBothFees":               {run: laneFeesRise},
	"LaneBumpDoesNotSpendBudget":     {run: laneBumpSpendsNothing, unfitPersonality: evmtest.Anvil, unfitReason: "it forgets what is too cheap, and to send that again is a try"},
	"LaneResendWhenBumpImpossible":   {run: laneNoHigherFees},
	"LaneRevertIsInvalidWhenDeep":    {run: laneReverts},
	"LaneReorgBeforeDeepIsNoVerdict": {run: laneReorgBeforeDeep},
}

// TestLaneScenarios runs all scenarios of lanes on three kinds of nodes, in virtual time.
func TestLaneScenarios(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	runScenarios(t, laneScenarios, false)
}

// runLaneOfIntents starts a Runner that has up to four intents of an account under way, and adds
// three intents, which wait in the pool.
func (s *testChain) runLaneOfIntents(o evm.SignerOptions) (from evmtest.Account, p *chainRunner, k *slotRecorder, all []batch.Batch) {
	from = s.newAccount()
	s.mine(4)
	p, k = s.runPipelinedIntents(4, o, from)
	for v := range int64(3) {
		all = append(all, s.newIntent(from, 10+v))
	}
	p.add(all...)
	for _, b := range all {
		p.waitForState(b, batch.Pending)
	}
	return from, p, k, all
}

// mineUntilCommitted makes blocks until all batches are committed.
func (p *chainRunner) mineUntilCommitted(all []batch.Batch) {
	p.Helper()
	for _, b := range all {
		p.mineUntil(b, batch.Committed)
	}
}

// dropAll makes the pool forget the transaction that was posted last for each batch.
func (s *testChain) dropAll(k *slotRecorder, all []batch.Batch) {
	for _, b := range all {
		_, _, hashes := k.lastSlot(s, b)
		s.drop(batch.Batch{ID: batch.ID(hashes[len(hashes)-1])})
		if _, forgotten := s.control.(gethControl); forgotten { // on geth, the first drop empties the whole pool
			return
		}
	}
}

// requireOneNonce makes sure that all posted transactions of a batch have the nonce want, and that
// its slot grew by appending.
func (s *testChain) requireOneNonce(k *slotRecorder, b batch.Batch, want uint64) {
	all := k.preparedOf(b)
	require.NotEmpty(s, all)
	for i, kept := range all {
		nonce, _, _, err := evm.Slot(kept)
		require.NoError(s, err)
		assert.Equal(s, want, nonce)
		if i > 0 {
			assert.Equal(s, all[i-1], kept[:len(all[i-1])])
		}
	}
}

// laneOfMany adds more intents than may be under way, on nodes of which one may be behind.
func laneOfMany(s *testChain) {
	from, other := s.newAccount(), s.newAccount()
	s.mine(4)
	p, k := s.runPipelinedIntents(4, finalAfterTwoBlocks(), from, other)
	var all []batch.Batch
	for v := range int64(9) {
		all = append(all, s.newIntent(from, 10+v), s.newIntent(other, 30+v))
	}
	p.add(all...)
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i/2))
		assert.NotContains(s, p.events.states(b), batch.Invalid)
		assert.NotContains(s, p.events.states(b), batch.Rejected)
	}
	assert.Equal(s, []int64{10, 11, 12, 13, 14, 15, 16, 17, 18}, s.valuesPaid(from))
	assert.Equal(s, []int64{30, 31, 32, 33, 34, 35, 36, 37, 38}, s.valuesPaid(other))
}

// The answers to all three sends are lost, all three transactions are mined, and no question finds
// them: they are sent again unchanged.
func laneNonceTooLow(s *testChain) {
	sent := 0
	s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
		if p.Method != "eth_sendRawTransaction" {
			return evmtest.Fault{}
		}
		if sent++; sent <= 3 {
			return evmtest.Fault{Answer: evmtest.AnswerReset, Acceptance: evmtest.AcceptedFirst}
		}
		return evmtest.Fault{}
	})
	s.hidesStatuses.Store(true)
	from := s.newAccount()
	s.mine(4)
	p, k := s.runPipelinedIntents(4, finalAfterTwoBlocks(), from)
	all := []batch.Batch{s.newIntent(from, 10), s.newIntent(from, 11), s.newIntent(from, 12)}
	p.add(all...)
	for range 1000 {
		if p.record(all[0]).Attempt > 3 {
			break
		}
		s.mine(1)
		time.Sleep(s.timeUnit)
	}
	s.hidesStatuses.Store(false)
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// Three processes sign different bytes for the first intent of a lane before any of them has
// stored its own: one slot is stored for each intent, whichever process goes on with the lane.
func laneOneSlot(s *testChain) {
	s.maxUnderWay = 4
	from := s.newAccount()
	s.mine(4)
	c := s.startProcesses(s.signingClients(from), func(at stepName) bool { return at == afterSigning })
	all := []batch.Batch{s.newIntent(from, 10), s.newIntent(from, 11), s.newIntent(from, 12)}
	require.NoError(s, c.adder.Add(context.Background(), all...))
	for range 2000 {
		if c.stoppedCount() == 3 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	require.Equal(s, 3, c.stoppedCount(), "each has signed, and kept nothing")
	c.thawAll()
	c.mineUntilCommitted(all)
	for _, b := range all {
		c.requireOneSlot(b)
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// mineUntilCommitted makes blocks until all batches are committed.
func (c *processGroup) mineUntilCommitted(all []batch.Batch) {
	left := func(b batch.Batch) bool { return c.stateOf(b) != batch.Committed }
	for range 1000 {
		if !slices.ContainsFunc(all, left) {
			return
		}
		time.Sleep(4 * c.timeUnit)
		c.mine(1)
	}
	for _, b := range all {
		require.Equal(c, batch.Committed, c.stateOf(b), b.Key())
	}
}

// A process stops at each step for the second intent of a lane, and the others go on. When it is
// thawed, its late write and its late POST change nothing.
func laneCrashes(s *testChain) {
	s.maxUnderWay = 4
	s.mine(4)
	type one struct {
		*processGroup
		*stepTrap
		from evmtest.Account
		all  []batch.Batch
	}
	var crews []one
	for _, at := range []stepName{beforeSigning, afterSigning, afterKeeping, beforePosting, afterPosting, afterRecording} {
		from, tr := s.newAccount(), &stepTrap{step: at, triggerCount: 2}
		x := one{s.startProcesses(s.signingClients(from), tr.stopsHere), tr, from, []batch.Batch{s.newIntent(from, 10), s.newIntent(from, 11), s.newIntent(from, 12)}}
		require.NoError(s, x.adder.Add(context.Background(), x.all...))
		crews = append(crews, x)
	}
	for _, x := range crews {
		x.mineUntilCommitted(x.all)
		assert.True(s, x.wasTriggered.Load(), "%s: nothing ended there", x.step)
		x.thawAll()
	}
	time.Sleep(40 * s.timeUnit)
	s.mine(5)
	for _, x := range crews {
		for _, b := range x.all {
			assert.Equal(s, batch.Committed, x.stateOf(b), x.step)
			x.requireOneSlot(b)
		}
		assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(x.from), x.step)
	}
}

// The pool forgets all three intents, and another wallet uses the first nonce: each intent is
// executed once, and the first one gets another nonce.
func laneForeign(s *testChain) {
	from, p, k, all := s.runLaneOfIntents(finalAfterTwoBlocks())
	s.dropAll(k, all)
	s.sendForeign(s.newPayment(from, 0, 99))
	p.mineUntilCommitted(all)
	assert.ElementsMatch(s, []int64{99, 10, 11, 12}, s.valuesPaid(from))
	nonce, _, _ := k.lastSlot(s, all[0])
	assert.NotZero(s, nonce)
}

// Another wallet's transaction is taken back before it is deep: each intent keeps its nonce.
func laneForeignIsReorganizedAway(s *testChain) {
	o := evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}
	from, p, k, all := s.runLaneOfIntents(o)
	s.dropAll(k, all)
	s.sendForeign(s.newPayment(from, 0, 99))
	s.mine(3)
	for _, b := range all {
		p.requireNeverInState(b, 20, batch.Committed, batch.Rejected, batch.Invalid)
	}
	s.reorg(3)
	for n := range 200 {
		if n == 0 || s.node != nil { // on geth only once, since nobody else has the transaction that geth puts back into its pool
			s.control.forget()
		}
		if _, pending := s.nextNonces(from); pending >= 1 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	p.mineUntilCommitted(all)
	if got := s.valuesPaid(from); !slices.Contains(got, 99) {
		assert.Equal(s, []int64{10, 11, 12}, got)
		for i, b := range all {
			s.requireOneNonce(k, b, uint64(i))
		}
	} else { // a node had it in another place
		assert.ElementsMatch(s, []int64{99, 10, 11, 12}, got)
	}
}

// While somebody else's transaction waits behind those of a lane, the lane uses no higher nonce,
// and another lane goes on.
func laneAboveForeign(s *testChain) {
	other := s.newAccount()
	from, p, k, all := s.runLaneOfIntents(finalAfterTwoBlocks())
	s.sendForeign(s.newPayment(from, 3, 99))
	late := s.newIntent(from, 13)
	p.add(late)
	rec := p.waitForState(late, batch.Delayed)
	require.Equal(s, batch.KindNotYet, rec.Error.Kind)
	assert.Empty(s, k.preparedOf(late), "nothing was posted")
	q, _ := s.runPipelinedIntents(4, finalAfterTwoBlocks(), other)
	of := s.newIntent(other, 20)
	q.add(of)
	q.waitForState(of, batch.Pending)
	p.mineUntilCommitted(append(all, late))
	assert.Equal(s, []int64{10, 11, 12, 99, 13}, s.valuesPaid(from))
	s.requireOneNonce(k, late, 4)
	q.mineUntilCommitted([]batch.Batch{of})
}

func laneUnmined(s *testChain) {
	from, p, k, all := s.runLaneOfIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}})
	s.mine(1)
	p.waitForState(all[2], batch.Valid)
	s.node.Kill()
	time.Sleep(s.timeUnit)
	require.NoError(s, s.node.Resume())
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

func lanePoolForgets(s *testChain) {
	from, p, k, all := s.runLaneOfIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}})
	s.node.Kill()
	require.NoError(s, s.node.Resume())
	time.Sleep(5 * time.Second)
	_, pending := s.nextNonces(from)
	require.Zero(s, pending, "the pool is empty")
	time.Sleep(time.Minute)
	_, pending = s.nextNonces(from)
	require.EqualValues(s, 3, pending, "and has all again")
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// A node forgets the middle one of three transactions. It is sent again while the first is in the
// pool, or in a block that is not deep, and all are executed in their order.
func laneDropped(s *testChain) {
	from, p, k, all := s.runLaneOfIntents(finalAfterTwoBlocks())
	_, _, hashes := k.lastSlot(s, all[1])
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	s.mine(1)
	for range 1000 {
		if p.record(all[1]).Attempt > 1 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	require.Greater(s, p.record(all[1]).Attempt, 1)
	require.False(s, p.record(all[0]).Final())
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// An account without funds uses no nonce, and its intents go on in their order once it has funds.
func laneFundsRunOut(s *testChain) {
	from := s.newAccountWith(big.NewInt(1000))
	p, k := s.runPipelinedIntents(4, finalAfterTwoBlocks(), from)
	all := []batch.Batch{s.newIntent(from, 10), s.newIntent(from, 11), s.newIntent(from, 12)}
	p.add(all...)
	rec := p.waitForState(all[0], batch.Delayed)
	assert.Equal(s, batch.KindNotYet, rec.Error.Kind, "%v", rec.Error)
	for _, b := range all {
		p.requireNeverInState(b, 10, batch.Rejected, batch.Pending)
	}
	assert.Empty(s, p.events.ofKind(batch.EventPaused), "the endpoint is well")
	s.control.fund(from.Address(), evmtest.Ether(1))
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// When the base fee leaps, each transaction that no longer pays it is replaced at the same nonce,
// with both fees higher.
func laneFeesRise(s *testChain) {
	from, p, k, all := s.runLaneOfIntents(finalAfterTwoBlocks())
	s.setBaseFee(50)
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
	_, fees, _ := k.lastSlot(s, all[0])
	require.Greater(s, len(fees), 1)
	for i, f := range fees[1:] {
		for _, pair := range [][2]*big.Int{{fees[i].Tip, f.Tip}, {fees[i].FeeCap, f.FeeCap}} {
			assert.GreaterOrEqual(s, new(big.Int).Mul(pair[1], big.NewInt(100)).Cmp(new(big.Int).Mul(pair[0], big.NewInt(110))), 0, "%s after %s", pair[1], pair[0])
		}
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// Neither a replacement, nor the transactions that are sent again after it, use up a budget.
func laneBumpSpendsNothing(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	p, k := s.runPipelinedIntents(4, finalAfterTwoBlocks(), from)
	var all []batch.Batch
	for v := range int64(3) {
		b := s.newIntent(from, 10+v)
		b.Budget = batch.Budget{Attempts: 2, EveryTry: true}
		all = append(all, b)
	}
	p.add(all...)
	for _, b := range all {
		p.waitForState(b, batch.Pending)
	}
	for range 60 { // the base fee keeps rising
		_, fees, _ := k.lastSlot(s, all[0])
		if len(fees) > 4 {
			break
		}
		s.setBaseFee(new(big.Int).Div(fees[len(fees)-1].FeeCap, big.NewInt(1e9)).Int64() + 10)
		s.mine(1)
		time.Sleep(8 * s.timeUnit)
		for _, b := range all {
			require.False(s, p.record(b).Final(), "%s: %v", b.Key(), p.record(b).Error)
		}
	}
	s.setBaseFee(1)
	p.mineUntilCommitted(all)
	_, fees, _ := k.lastSlot(s, all[0])
	assert.Greater(s, len(fees), 2)
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// A signer refuses higher fees, and the pool has forgotten all transactions: they are sent again
// unchanged.
func laneNoHigherFees(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	good, k := s.newKeySigner(from), &slotRecorder{}
	var risen atomic.Bool
	p := s.startRunnerOf(memory.New(), withSlotRecorder(s.newSigningClient(finalAfterTwoBlocks(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
		if risen.Load() {
			return [65]byte{}, errors.New("over the daily limit")
		}
		return good.Sign(ctx, account, tx)
	})), k), queuer.Pipelined(4))
	all := []batch.Batch{s.newIntent(from, 10), s.newIntent(from, 11), s.newIntent(from, 12)}
	p.add(all...)
	for _, b := range all {
		p.waitForState(b, batch.Pending)
	}
	risen.Store(true)
	for range 5 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(4 * s.timeUnit)
	}
	s.dropAll(k, all)
	for range 500 {
		s.setBaseFee(1)
		s.mine(1)
		time.Sleep(4 * s.timeUnit)
		if p.record(all[2]).State == batch.Committed {
			break
		}
	}
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
		_, fees, _ := k.lastSlot(s, b)
		for _, f := range fees { // those behind the first may have been posted once more together with it
			assert.Equal(s, fees[0], f)
		}
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// The middle one of three intents reverts: its batch is Invalid, and the other two are paid.
func laneReverts(s *testChain) {
	from := s.newAccount()
	at := s.deployRevertingContract(s.newAccount())
	p, k := s.runPipelinedIntents(4, finalAfterTwoBlocks(), from)
	all := []batch.Batch{s.newIntent(from, 10), s.newIntentOf(from, evm.Intent{To: at, Gas: 100_000, Value: big.NewInt(11)}), s.newIntent(from, 12)}
	p.add(all...)
	rec := p.mineUntil(all[1], batch.Invalid)
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(s, err)
	assert.True(s, r.Reverted)
	p.mineUntilCommitted([]batch.Batch{all[0], all[2]})
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
}

func laneReorgBeforeDeep(s *testChain) {
	from, p, k, all := s.runLaneOfIntents(evm.SignerOptions{Options: evm.Options{Finality: evm.After(5)}})
	s.mine(2)
	p.waitForState(all[2], batch.Valid)
	s.reorg(3)
	p.mineUntilCommitted(all)
	for i, b := range all {
		s.requireOneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.valuesPaid(from))
}

// After a thousand failed preparations of a lane's second intent, its nonce is still the one after
// the first intent's.
func TestNoncesOfALaneNeedNoCounter(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.newAccount()
		good, fails := s.newKeySigner(from), 0
		c := s.newSigningClient(finalAfterTwoBlocks(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
			if fails++; tx.Nonce > 0 && fails <= 1000 {
				return [65]byte{}, errors.New("not now")
			}
			return good.Sign(ctx, account, tx)
		}))
		all, _ := s.newIntents(from, 2)
		first := s.prepareAndSubmit(c, all[0])
		a := batch.Attempt{Key: all[1].Key(), Number: 1, Payload: all[1].Payload, Lane: [][]byte{first.Prepared}}
		for range 999 {
			_, err := c.Prepare(t.Context(), a)
			require.ErrorContains(t, err, "not now")
		}
		kept, err := c.Prepare(t.Context(), a)
		require.NoError(t, err)
		nonce, _, _, err := evm.Slot(kept)
		require.NoError(t, err)
		assert.EqualValues(t, 1, nonce)
		_, pending := s.nextNonces(from)
		assert.Zero(t, pending, "nothing was posted")
	})
}
