package evm_test

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// alternativeScenarios are the scenarios with batches of alternatives.
var alternativeScenarios = map[string]scenario{
	"AlternativesRise":            {run: higherAlternativePaysTheBaseFee, simulatedOnlyReason: risesByBlock},
	"AlternativesRiseInALane":     {run: alternativesRiseInALane},
	"LowAlternativeMined":         {run: lowerAlternativeIsMined, needsNode: true},
	"UnsentAlternativeMined":      {run: unsentAlternativeIsMined},
	"AlternativesOfTwoForks":      {run: anotherAlternativeOnAFork},
	"AlternativesCrash":           {run: crashesWithAlternatives},
	"ForeignTakesTheAlternatives": {run: foreignTakesNonceOfAlternatives, simulatedOnlyReason: "to drop one transaction is to drop all"},
	"AlternativesTooLow":          {run: noAlternativePaysTheBaseFee, simulatedOnlyReason: risesByBlock},
	"PoolForgetsAlternatives":     {run: poolForgetsAlternatives, simulatedOnlyReason: risesByBlock},
}

const risesByBlock = "its price rises block by block, so that each alternative has its time"

// TestAlternativeScenarios runs all scenarios of alternatives on three kinds of nodes, in virtual
// time.
func TestAlternativeScenarios(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	runScenarios(t, alternativeScenarios, false)
}

// TestScenariosWithAlternatives runs the scenarios of single transactions with alternatives: every
// promise about a single transaction holds for alternatives, too.
func TestScenariosWithAlternatives(t *testing.T) {
	tier.Plain(t)
	runScenarios(t, scenarios, true)
}

// runPendingAlternatives starts a Runner and adds a batch of alternatives with these fees, which
// waits in the pool.
func (s *testChain) runPendingAlternatives(strategy queuer.Strategy, o evm.Options, fees ...evm.Fee) (*chainRunner, *slotRecorder, batch.Batch) {
	from := s.newAccount()
	s.mine(4)
	k := &slotRecorder{}
	p := s.startRunnerOf(memory.New(), withSlotRecorder(s.newClient(o), k), strategy)
	b := s.signAlternatives(from, evmtest.Unsigned{To: evmtest.Dev(9).Address(), Value: big.NewInt(10)}, fees...)
	p.add(b)
	p.waitForState(b, batch.Pending)
	return p, k, b
}

// valuesPaidByAccountOf returns the values that the batch's account has paid on the chain, in
// order.
func (s *testChain) valuesPaidByAccountOf(b batch.Batch) []int64 {
	return s.valuesPaidByAddress(string(b.Service))
}

// alternativesSent returns the indexes of the alternatives that went out, as the last attempt knew
// them, and the hashes of all alternatives.
func (k *slotRecorder) alternativesSent(t testing.TB, b batch.Batch) (alternativesSent []int, hashes []string) {
	t.Helper()
	all := k.preparedOf(b)
	require.NotEmpty(t, all)
	alternativesSent, hashes, err := evm.List(all[len(all)-1])
	require.NoError(t, err)
	for i, one := range all[1:] {
		require.Equal(t, all[i], one[:len(all[i])], "it grows by appending")
	}
	return alternativesSent, hashes
}

// mineUntilAlternativeIsSent makes blocks with a base fee until the alternative with index at goes
// out. The blocks contain no transaction of the pool that pays less.
func (p *chainRunner) mineUntilAlternativeIsSent(k *slotRecorder, b batch.Batch, at int, baseFee int64) {
	p.Helper()
	for range 300 {
		if turns, _ := k.alternativesSent(p, b); turns[len(turns)-1] >= at {
			return
		}
		p.setBaseFee(baseFee)
		p.mine(1)
		time.Sleep(4 * p.timeUnit)
	}
	turns, _ := k.alternativesSent(p, b)
	require.Equal(p, at, turns[len(turns)-1], "%v %s", p.record(b).Error, p.record(b).Decision)
}

// requireExecutedAlternative makes sure that a batch is committed, and by the alternative with
// index at.
func (p *chainRunner) requireExecutedAlternative(b batch.Batch, at int) {
	p.Helper()
	rec := p.mineUntil(b, batch.Committed)
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(p, err)
	assert.Equal(p, string(p.alternativeAsBatch(b, at).ID), r.Hash)
	assert.Equal(p, []int64{10}, p.valuesPaidByAccountOf(b))
	for _, never := range []batch.State{batch.Rejected, batch.Invalid} {
		assert.NotContains(p, p.events.states(b), never)
	}
}

// When the base fee leaps, the next alternative that pays it goes out and is executed: fees rise
// without a key. The batch stays committed until it can no longer vanish.
func higherAlternativePaysTheBaseFee(s *testChain) {
	p, k, b := s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 3), feeInGwei(.2, 6), feeInGwei(.4, 20), feeInGwei(.8, 200))
	turns, _ := k.alternativesSent(s, b)
	require.Equal(s, []int{0}, turns)
	p.mineUntilAlternativeIsSent(k, b, 1, 10)
	turns, _ = k.alternativesSent(s, b)
	assert.Equal(s, []int{0, 2}, turns, "the second pays too little, and the fourth too much")
	p.requireExecutedAlternative(b, 2)
	for range 20 {
		time.Sleep(60 * s.timeUnit)
		s.mine(1)
	}
	assert.Empty(s, p.events.ofKind(batch.EventVanished))
	assert.Empty(s, p.events.ofKind(batch.EventDecision))
}

// When the base fee leaps while several batches of an account are under way, all of them rise and
// are executed in their order.
func alternativesRiseInALane(s *testChain) {
	from := s.newAccount()
	s.mine(4)
	k := &slotRecorder{}
	p := s.startRunnerOf(memory.New(), withSlotRecorder(s.newClient(finalAfterTwoBlocks().Options), k), queuer.Pipelined(16))
	var all []batch.Batch
	for i := range int64(5) {
		fees := []evm.Fee{feeInGwei(.1, 3), feeInGwei(.2, 6), feeInGwei(.4, 100)}
		if i == 2 {
			fees = fees[:2] // this batch cannot pay the high price by itself
		}
		all = append(all, s.signAlternatives(from, evmtest.Unsigned{Nonce: uint64(i), To: evmtest.Dev(9).Address(), Value: big.NewInt(10 + i)}, fees...))
	}
	p.add(all...)
	for _, b := range all {
		p.waitForState(b, batch.Pending)
	}
	p.mineUntilAlternativeIsSent(k, all[0], 2, 50)
	for _, b := range all {
		p.mineUntil(b, batch.Committed)
	}
	assert.Equal(s, []int64{10, 11, 12, 13, 14}, s.valuesPaidByAddress(from.Address()))
}

// While a higher alternative is in the pool, a lower one is mined on another fork: the batch is
// committed by the lower one.
func lowerAlternativeIsMined(s *testChain) {
	p, k, b := s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 3), feeInGwei(.2, 100))
	cheap := len(s.node.Blocks())
	p.mineUntilAlternativeIsSent(k, b, 1, 50)
	s.setBaseFee(1)
	require.NoError(s, s.node.Reorg(len(s.node.Blocks())-cheap, s.encodedTx(b, 0)))
	p.requireExecutedAlternative(b, 0)
}

// An alternative that the client has not sent is mined, because somebody else had it: the batch is
// committed by that alternative.
func unsentAlternativeIsMined(s *testChain) {
	p, k, b := s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 3), feeInGwei(.2, 6), feeInGwei(.4, 100))
	s.sendForeign(s.alternativeAsBatch(b, 2))
	p.requireExecutedAlternative(b, 2)
	turns, _ := k.alternativesSent(s, b)
	assert.Equal(s, []int{0}, turns)
}

// One alternative is mined, and another one on the fork that replaces its block.
func anotherAlternativeOnAFork(s *testChain) {
	p, _, b := s.runPendingAlternatives(queuer.Serial(), evm.Options{Finality: evm.After(6)}, feeInGwei(.1, 3), feeInGwei(.2, 6))
	s.mine(2)
	p.waitForState(b, batch.Valid)
	s.reorg(2, s.alternativeAsBatch(b, 1))
	p.requireExecutedAlternative(b, 1)
}

// A process ends at each step on the way to the first alternative, and on the way to the next one.
func crashesWithAlternatives(s *testChain) {
	client := func(evmtest.Account) func(int64) dlt.Ledger {
		return func(int64) dlt.Ledger { return s.newClient(finalAfterTwoBlocks().Options) }
	}
	runCrashesAtEveryStep(s, client, func(from evmtest.Account, value int64) batch.Batch {
		return s.signAlternatives(from, evmtest.Unsigned{To: evmtest.Dev(9).Address(), Value: big.NewInt(value)}, feeInGwei(.1, 3), feeInGwei(.2, 100), feeInGwei(.4, 200))
	})
}

// Somebody else's transaction uses the nonce. Once that is deep, the batch ends Rejected with that
// transaction's hash, whichever alternatives were sent, and its lane goes on.
func foreignTakesNonceOfAlternatives(s *testChain) {
	p, k, b := s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 3), feeInGwei(.2, 6), feeInGwei(.4, 100))
	from := s.accounts[len(s.accounts)-1]
	theirs := s.signPayment(from, evmtest.Unsigned{To: evmtest.Dev(9).Address(), Value: big.NewInt(99), Tip: big.NewInt(5e9), FeeCap: big.NewInt(150e9)})
	next := s.signAlternatives(from, evmtest.Unsigned{Nonce: 1, To: evmtest.Dev(9).Address(), Value: big.NewInt(20)}, feeInGwei(.1, 3), feeInGwei(.2, 100))
	p.add(next)
	_, hashes := k.alternativesSent(s, b)
	s.sendForeign(theirs)
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	rec := p.mineUntil(b, batch.Rejected)
	assert.Contains(s, rec.Error.Error(), "nonce 0 was used by transaction "+string(theirs.ID))
	p.mineUntil(next, batch.Committed)
	assert.Equal(s, []int64{99, 20}, s.valuesPaidByAccountOf(b))
	for _, kept := range k.preparedOf(b) {
		_, again, err := evm.List(kept)
		require.NoError(s, err)
		assert.Equal(s, hashes, again, "nothing but these was sent")
	}
}

// While no alternative pays the base fee, the batch waits, and after StuckAfter the reason is
// reported. Once the base fee falls, the payment is made.
func noAlternativePaysTheBaseFee(s *testChain) {
	p, k, b := s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 3), feeInGwei(.2, 6))
	for range 5000 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(8 * s.timeUnit)
		if p.record(b).Decision != "" {
			break
		}
	}
	rec := p.record(b)
	require.NotEmpty(s, rec.Decision)
	assert.Regexp(s, "the highest of 2 alternatives pays at most 6 gwei|base fee", rec.Decision)
	assert.Len(s, p.events.ofKind(batch.EventDecision), 1)
	turns, _ := k.alternativesSent(s, b)
	assert.Equal(s, []int{0}, turns, "one that cannot be mined now helps nothing")
	s.setBaseFee(1)
	rec = p.mineUntil(b, batch.Committed)
	assert.Len(s, rec.Receipts, 1)
	assert.Equal(s, []int64{10}, s.valuesPaidByAccountOf(b))
}

// When the pool has forgotten all alternatives, the highest one that was sent goes out again, as
// often as that happens.
func poolForgetsAlternatives(s *testChain) {
	p, k, b := s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 3), feeInGwei(.2, 20), feeInGwei(.4, 100))
	p.mineUntilAlternativeIsSent(k, b, 1, 10)
	times := 1
	if s.node == nil {
		times = 3 // geth's pool has the transaction again in the end
	}
	for n := range times {
		attempt := p.record(b).Attempt
		_, hashes := k.alternativesSent(s, b)
		s.drop(batch.Batch{ID: batch.ID(hashes[1])})
		s.setBaseFee(10)
		s.mine(4) // longer than the batch waits before a higher alternative goes out
		for range 1000 {
			if _, pending := s.nextNoncesOfAddress(string(b.Service)); p.record(b).Attempt > attempt && pending == 1 {
				break
			}
			time.Sleep(s.timeUnit)
		}
		turns, _ := k.alternativesSent(s, b)
		assert.Equal(s, 1, slices.Max(turns), "after %d times", n+1)
	}
	p.requireExecutedAlternative(b, 1)
}

// An alternative that a node holds back from its blocks is replaced by the next one after the
// usual wait. If there is no next one, the status says so.
func TestAStatusNamesTheAlternativeThatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Anvil, SlotsInAnEpoch: 1})
		p, k, b := s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 30), feeInGwei(.2, 60), feeInGwei(.4, 120))
		_, hashes := k.alternativesSent(t, b)
		require.True(t, s.node.HoldBack(hashes[0]))
		s.mine(2)
		p.requireNeverInState(b, 100, batch.Unknown, batch.Valid)
		turns, _ := k.alternativesSent(t, b)
		require.Equal(t, []int{0}, turns, "it has not waited for three blocks")
		p.requireExecutedAlternative(b, 1)

		_, k, b = s.runPendingAlternatives(queuer.Serial(), finalAfterTwoBlocks().Options, feeInGwei(.1, 30), feeInGwei(.2, 60))
		for i := range 2 {
			p.mineUntilAlternativeIsSent(k, b, i, 1)
			_, hashes = k.alternativesSent(t, b)
			require.True(t, s.node.HoldBack(hashes[i]))
		}
		s.mine(5)
		st, err := s.newClient(finalAfterTwoBlocks().Options).BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key(), Prepared: k.preparedOf(b)[len(k.preparedOf(b))-1]}})
		require.NoError(t, err)
		require.Len(t, st, 1)
		assert.Equal(t, batch.ReportedPending, st[0].Reported)
		assert.Contains(t, st[0].Message, "it is the last of 2 alternatives")
	})
}

// Submit posts nothing for alternatives that were not prepared, or with the prepared bytes of
// others.
func TestAlternativesAreKeptFirst(t *testing.T) {
	s, url := newScriptedNode(t)
	c := newTestClient(t, url, nil)
	b, err := evm.NewBatch(payloadOf(t, threeAlternatives(nil)))
	require.NoError(t, err)
	other, err := evm.NewBatch(payloadOf(t, threeAlternatives(func(tx *evmtx.Tx) { tx.Value = big.NewInt(7) })))
	require.NoError(t, err)
	s.setAnswer("eth_getTransactionCount", func([]any) (any, string) { return "0x4", "" })
	kept, err := c.Prepare(t.Context(), attempt(other, 1))
	require.NoError(t, err)
	for name, prepared := range map[string][]byte{"nothing": nil, "another payload's": kept, "an intent's": make([]byte, 300), "half of it": kept[:len(kept)-3]} {
		a := attempt(b, 1)
		a.Prepared = prepared
		require.ErrorIs(t, c.Submit(t.Context(), a), dlt.ErrNotYet, name)
		if prepared != nil {
			_, err = c.Prepare(t.Context(), a)
			require.ErrorIs(t, err, dlt.ErrNotYet, name)
		}
	}
	a := attempt(b, 1)
	a.Prepared = kept[:len(kept)-3]
	st, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{a})
	require.NoError(t, err)
	assert.Empty(t, st)
	assert.Zero(t, s.sends())
	single := signedBatch(nil)
	kept, err = c.Prepare(context.Background(), attempt(single, 1))
	require.NoError(t, err)
	assert.Empty(t, kept, "one transaction keeps nothing")
}

// The statuses ask for each hash of the payload, whichever alternative was sent. Only the executed
// one decides.
func TestAllAlternativesAreLookedFor(t *testing.T) {
	all := threeAlternatives(nil)
	b, err := evm.NewBatch(payloadOf(t, all))
	require.NoError(t, err)
	for at := range all {
		one, err := evm.NewBatch(all[at])
		require.NoError(t, err)
		for name, c := range map[string]struct {
			receipt  func() any
			isPooled bool
			want     batch.Reported
			proof    dlt.Evidence
		}{
			"executed": {func() any { return receiptIn(one.ID, 80, nil) }, false, batch.ReportedCommitted, dlt.Committed},
			"reverted": {func() any { return receiptIn(one.ID, 80, map[string]any{"status": "0x0"}) }, false, batch.ReportedInvalid, dlt.NotCommitted},
			"not deep": {func() any { return receiptIn(one.ID, 95, nil) }, false, batch.ReportedValid, dlt.InFlight},
			"pooled":   {func() any { return nil }, true, batch.ReportedPending, dlt.InFlight},
			"nowhere":  {func() any { return nil }, false, batch.ReportedUnknown, dlt.InFlight},
		} {
			s, url := newScriptedNode(t)
			s.setAnswer("eth_getTransactionCount", func([]any) (any, string) { return "0x4", "" })
			cl := newTestClient(t, url, &evm.Options{BumpAfter: 1000})
			a := attempt(b, 1)
			a.Prepared, err = cl.Prepare(t.Context(), a)
			require.NoError(t, err)
			s.setAnswer("eth_getTransactionReceipt", func(params []any) (any, string) {
				if params[0] == string(one.ID) {
					return c.receipt(), ""
				}
				return nil, ""
			})
			s.setAnswer("eth_getTransactionByHash", func(params []any) (any, string) {
				if c.isPooled && params[0] == string(one.ID) {
					return map[string]any{"hash": string(one.ID), "blockHash": nil, "nonce": "0x4", "maxFeePerGas": "0x1"}, ""
				}
				return nil, ""
			})
			ask := batch.Attempt{Key: a.Key, Prepared: a.Prepared}
			got, err := cl.BatchStatuses(t.Context(), b.Service, []batch.Attempt{ask, ask})
			require.NoError(t, err)
			require.Len(t, got, 1)
			assert.Equal(t, b.ID, got[0].ID)
			assert.Equal(t, c.want, got[0].Reported, "%s, %d", name, at)
			found, err := cl.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, 1)})
			require.NoError(t, err)
			assert.Equal(t, c.proof, found, "%s, %d", name, at)
			// While the node has one of the alternatives, "nonce too low" and "underpriced" are no
			// reason for an error.
			for _, text := range []string{"nonce too low", "replacement transaction underpriced", "insufficient funds"} {
				s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, text })
				a.Number = 2
				err = cl.Submit(t.Context(), a)
				if name == "nowhere" {
					assert.Error(t, err, text)
				} else {
					assert.NoError(t, err, "%s, %s, %d", text, name, at)
				}
			}
		}
	}
}

// A deep block with one of the alternatives is no proof against the batch while the receipts are
// behind: it is the payment. A deep block with another transaction is a proof, and only then the
// batch is refused. "Nonce too low" alone is doubt.
func TestWhoUsedTheNonceOfAlternatives(t *testing.T) {
	all := threeAlternatives(nil)
	b, err := evm.NewBatch(payloadOf(t, all))
	require.NoError(t, err)
	own, err := evm.NewBatch(all[2])
	require.NoError(t, err)
	for name, c := range map[string]struct {
		hash     string
		evidence dlt.Evidence
		wantKind batch.ErrorKind
	}{
		"an alternative": {string(own.ID), dlt.InFlight, batch.KindDoubt},
		"another's":      {foreignHash, dlt.NotCommitted, batch.KindRejected},
		"nobody's":       {"", dlt.InFlight, batch.KindDoubt},
	} {
		s, url := newScriptedNode(t)
		used := uint64(77)
		s.setAnswer("eth_getTransactionCount", func(params []any) (any, string) {
			var n uint64
			if tag, ok := params[1].(string); ok && tag != "latest" && tag != "pending" {
				_, _ = fmt.Sscanf(tag, "0x%x", &n)
				if c.hash != "" && n >= used {
					return "0x5", ""
				}
			}
			return "0x4", ""
		})
		blocks := s.answersByMethod["eth_getBlockByNumber"]
		s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
			block, refusal := blocks(params)
			if params[0] == "0x4d" {
				block.(map[string]any)["transactions"] = []any{map[string]any{"hash": c.hash, "from": string(b.Service), "nonce": "0x4", "type": "0x2"}}
			}
			return block, refusal
		})
		s.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, "nonce too low" })
		client := newTestClient(t, url, nil)
		a := attempt(b, 1)
		a.Prepared, err = client.Prepare(t.Context(), a)
		require.NoError(t, err)
		assert.Equal(t, c.wantKind, dlt.Kind(client.Submit(t.Context(), a)), name)
		found, err := client.Resolve(t.Context(), dlt.Doubt{Attempt: attempt(b, 1)})
		require.NoError(t, err)
		assert.Equal(t, c.evidence, found, name)
	}
}

// The prepared bytes and the node's blocks, base fee and nonce decide which alternative may be
// sent.
func TestPrepareChoosesTheAlternative(t *testing.T) {
	b, err := evm.NewBatch(payloadOf(t, threeAlternatives(nil))) // nonce 4, and fee caps of 1000, 1100 and 1210 wei
	require.NoError(t, err)
	s, url := newScriptedNode(t)
	head, price, next, pooled := uint64(100), int64(500), "0x4", false
	blocks := s.answersByMethod["eth_getBlockByNumber"]
	s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
		if params[0] != "latest" {
			return blocks(params)
		}
		block := blockAt(head)
		block["baseFeePerGas"] = fmt.Sprintf("0x%x", price)
		return block, ""
	})
	s.setAnswer("eth_getTransactionCount", func([]any) (any, string) { return next, "" })
	s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) {
		if pooled {
			return map[string]any{"hash": "0x", "blockHash": nil}, ""
		}
		return nil, ""
	})
	client := newTestClient(t, url, nil)
	var kept []byte
	step := func(name string, change func(), want ...int) {
		t.Helper()
		s.mu.Lock()
		change()
		s.mu.Unlock()
		a := attempt(b, 1)
		a.Prepared = kept
		kept, err = client.Prepare(t.Context(), a)
		require.NoError(t, err, name)
		turns, hashes, err := evm.List(kept)
		require.NoError(t, err, name)
		assert.Equal(t, want, turns, name)
		assert.Len(t, hashes, 3, name)
	}
	again := func(name string, change func(), want ...int) { t.Helper(); kept = nil; step(name, change, want...) }

	again("the first pays", func() {}, 0)
	again("the second pays", func() { price = 1001 }, 1)
	again("none pays", func() { price = 2000 }, 0)
	step("none pays yet", func() { head += 10 }, 0)
	step("the last pays", func() { price = 1200 }, 0, 2)
	step("there is no higher one", func() { head += 10; pooled = true }, 0, 2)
	again("anew", func() { price = 500 }, 0)
	step("two blocks are too few", func() { head += 2 }, 0)
	step("three are not", func() { head++ }, 0, 1)
	step("two blocks again", func() { head += 2 }, 0, 1)
	step("the nonce is used", func() { head += 10; next = "0x5" }, 0, 1)
	step("another nonce has to be mined before", func() { next = "0x3" }, 0, 1, 1)
	step("it has just been sent again", func() {}, 0, 1, 1)
	step("the node has forgotten all", func() { head += 10; next, pooled = "0x4", false }, 0, 1, 1, 1)
	step("it waits in the pool", func() { head += 3; pooled = true }, 0, 1, 1, 1, 2)

	again("anew", func() { pooled = false }, 0)
	for range evm.MaxPermissions + 1 { // the pool forgets it again and again
		s.mu.Lock()
		head += 3
		s.mu.Unlock()
		a := attempt(b, 1)
		a.Prepared = kept
		kept, err = client.Prepare(t.Context(), a)
		require.NoError(t, err)
	}
	turns, _, err := evm.List(kept)
	require.NoError(t, err)
	assert.Len(t, turns, evm.MaxPermissions-evm.MaxAlternatives, "each alternative above it keeps its room")
	step("and it rises all the same", func() { pooled = true; head += 3 }, append(turns, 1)...)
	step("and again", func() { head += 3 }, append(turns, 1, 2)...)
	assert.LessOrEqual(t, len(kept), dlt.MaxPrepared)
}
