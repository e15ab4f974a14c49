package evm_test

import (
	"context"
	"errors"
	"maps"
	"math/big"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/anvil"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// scenario is a test that can run on any testChain.
type scenario struct {
	run func(s *testChain)
	// needsNode is true if the scenario needs a node that the test can kill, or make forget
	// transactions.
	needsNode bool
	// unfitPersonality is a personality of nodes that the scenario does not fit, and unfitReason
	// is the reason.
	unfitPersonality evmtest.Personality
	unfitReason      string
	// simulatedOnlyReason says why the scenario cannot run on a real geth; "" if it can.
	simulatedOnlyReason string
}

// scenarios are failures that other projects have had and that must not happen here.
var scenarios = map[string]scenario{
	"SameBytesTwiceIsAccepted":     {run: sameBytesTwice},
	"NonceTooLowNeverRenonces":     {run: nonceTooLow, needsNode: true},
	"ReceiptLagsCount":             {run: receiptsLagCounts},
	"ForeignTakesNonce":            {run: foreignTakesNonce},
	"ForeignTakesNonceInDoubt":     {run: foreignTakesNonceInDoubt, needsNode: true},
	"ForeignUnfinalThenReorged":    {run: foreignIsReorganizedAway},
	"NodeKilledUnmines":            {run: nodeKilledUnmines, needsNode: true, unfitPersonality: evmtest.Anvil, unfitReason: "it does not put back what it un-mined"},
	"PoolForgetsTenSeconds":        {run: poolForgets, needsNode: true, unfitPersonality: evmtest.Anvil, unfitReason: "its pool is not kept"},
	"AcceptedAndDropped":           {run: acceptedAndDropped},
	"GapHoldsOnlyItsLane":          {run: gapHoldsItsLane},
	"FundsRunOutAndComeBack":       {run: fundsRunOut},
	"LostAheadOfOthersIsSentAgain": {run: lostAheadOfOthers},
	"ResendWhenBumpImpossible":     {run: droppedAgainAndAgain},
	"RevertIsInvalidWhenDeep":      {run: revertIsInvalid},
	"ReorgAfterCommittedIsEvent":   {run: reorgAfterCommitted},
	"ReorgBeforeDeepIsNoVerdict":   {run: reorgBeforeDeep},
	"NothingIsDeepOnAYoungChain":   {run: nothingIsDeepOnAYoungChain},
	"BlobsAreCarried":              {run: blobsAreCarried, unfitPersonality: evmtest.Anvil, unfitReason: "it computes for half a minute before it takes its first blobs"},
	"FinalizedIsTheChainsOwnWord":  {run: finalizedIsTheChainsOwnWord, unfitPersonality: evmtest.Geth, unfitReason: "its development chain finalizes each 32nd block"},
}

// TestScenarios runs all scenarios on three kinds of nodes, in virtual time.
func TestScenarios(t *testing.T) {
	tier.Plain(t)
	runScenarios(t, scenarios, false)
}

func runScenarios(t *testing.T, all map[string]scenario, lists bool) {
	for _, p := range []evmtest.Personality{evmtest.Geth, evmtest.Anvil, evmtest.Provider} {
		for name, a := range all {
			if a.unfitPersonality == p {
				continue
			}
			t.Run(string(p)+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSimulatedChain(t, evmtest.Options{Personality: p, SlotsInAnEpoch: 1})
					s.usesAlternatives = lists
					a.run(s)
				})
			})
		}
	}
}

func isUnfitForAnvil(a scenario) bool { return a.unfitPersonality == evmtest.Anvil }

// TestScenariosOverHTTP runs the scenarios that need only a URL, in real time: on a simulated
// node, and on real anvil and geth nodes, which are looked for or downloaded.
func TestScenariosOverHTTP(t *testing.T) {
	const maxParallel = 8 // scenarios mostly wait, so more of them than t.Parallel allows
	room := make(chan struct{}, maxParallel)
	var running sync.WaitGroup
	defer running.Wait()
	for kind, k := range map[string]struct {
		start func(t *testing.T) *testChain
		skips func(scenario) bool // true if the scenario cannot run on this node
	}{
		"simulated": {func(t *testing.T) *testChain {
			tier.Soak(t, "TestScenarios and its like run on simulated nodes in virtual time")
			return newChainAtURL(t, evmtest.Start(t, &evmtest.Options{Personality: evmtest.Anvil, BlockTime: -1, SlotsInAnEpoch: 1}).URL())
		}, isUnfitForAnvil},
		"anvil": {func(t *testing.T) *testChain { return newChainAtURL(t, anvil.Start(t, "--no-mining").URL()) }, isUnfitForAnvil},
		"geth":  {func(t *testing.T) *testChain { return newGethChain(t) }, func(a scenario) bool { return a.simulatedOnlyReason != "" }}, // this geth finalizes blocks as the test says
	} {
		both := maps.Clone(scenarios)
		maps.Copy(both, intentScenarios)
		maps.Copy(both, alternativeScenarios)
		maps.Copy(both, laneScenarios)
		for name, a := range both {
			if a.needsNode || k.skips(a) {
				continue
			}
			running.Go(func() {
				room <- struct{}{}
				defer func() { <-room }()
				t.Run(kind+"/"+name, func(t *testing.T) {
					if _, lane := laneScenarios[name]; lane && kind == "anvil" {
						tier.Soak(t, "TestLaneScenarios runs it on a simulated one")
					}
					a.run(k.start(t))
				})
			})
		}
	}
}

// After a restart without its state, a real anvil has another chain with the same address and id.
func TestOtherChainOfAnvil(t *testing.T) {
	tier.Plain(t)
	n := anvil.Start(t, "--no-mining")
	s := newChainAtURL(t, n.URL())
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from := evmtest.Dev(0)
	b, late := s.newPayment(from, 0, 1), s.newPayment(from, 1, 1)
	p.add(b)
	p.waitForState(b, batch.Pending)
	require.NoError(t, n.Kill())
	time.Sleep(1100 * time.Millisecond) // block 0 contains the second in which anvil started
	require.NoError(t, n.Renew("--no-mining"))
	p.add(late)
	for range 500 {
		if paused := p.events.ofKind(batch.EventPaused); len(paused) > 0 && errors.Is(paused[len(paused)-1].Err, dlt.ErrMisconfigured) {
			break
		}
		time.Sleep(s.timeUnit)
	}
	paused := p.events.ofKind(batch.EventPaused)
	require.NotEmpty(t, paused)
	require.ErrorContains(t, paused[len(paused)-1].Err, "another chain with the same id")
	time.Sleep(50 * s.timeUnit)
	_, pending := s.nextNonces(from)
	assert.Zero(t, pending, "nothing was posted")
}

// The same bytes are accepted again, whether they are in the pool or in a block.
func sameBytesTwice(s *testChain) {
	c := s.newClient(evm.Options{Finality: evm.Instant()})
	b := s.newPayment(s.newAccount(), 0, 1)
	a := batch.Attempt{Key: b.Key(), Payload: b.Payload}
	send := func(n int) {
		var err error
		a.Number = n
		a.Prepared, err = c.Prepare(context.Background(), a)
		require.NoError(s, err)
		require.NoError(s, c.Submit(context.Background(), a))
	}
	for i := range 3 {
		send(1 + i)
	}
	s.mine(3) // so that a backend that is behind has the block, too
	for i := range 3 {
		send(4 + i)
	}
	for range 20 {
		st, err := c.BatchStatuses(context.Background(), b.Service, []batch.Attempt{{Key: b.Key()}})
		require.NoError(s, err)
		if len(st) == 1 {
			assert.Equal(s, batch.ReportedCommitted, st[0].Reported)
			return
		}
	}
	s.Fatal("no answer")
}

// The answer to a send is lost, the transaction is mined, and the bytes are sent again: "nonce too
// low" changes nothing. (Alto 747 executed such a payment twice.)
func nonceTooLow(s *testChain) {
	sent := 0
	s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
		if p.Method != "eth_sendRawTransaction" {
			return evmtest.Fault{}
		}
		if sent++; sent == 1 {
			return evmtest.Fault{Answer: evmtest.AnswerReset, Acceptance: evmtest.AcceptedFirst}
		}
		return evmtest.Fault{}
	})
	s.hidesStatuses.Store(true) // no question finds the transaction
	from := s.newAccount()
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	b, next := s.newPayment(from, 0, 1), s.newPayment(from, 1, 1)
	p.add(b, next)
	p.waitForState(b, batch.Submitting, batch.Pending, batch.Unknown)
	s.mine(3)
	for range 1000 {
		if p.record(b).Attempt > 3 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	require.Greater(s, sent, 3)
	s.hidesStatuses.Store(false)
	p.waitForState(next, batch.Pending, batch.Unknown, batch.Valid)
	s.mine(5)
	p.waitForState(b, batch.Committed)
	p.waitForState(next, batch.Committed)
	assert.Equal(s, []batch.ID{b.ID, next.ID}, s.executedHashes(from))
	for _, never := range []batch.State{batch.Rejected, batch.Invalid} {
		assert.NotContains(s, p.events.states(b), never)
	}
}

// Of several backends behind one address, one is behind: a missing receipt is no verdict.
// (OpenZeppelin 817 recorded 26 mined transactions in a row as failed.)
func receiptsLagCounts(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from, other := s.newAccount(), s.newAccount()
	var all []batch.Batch
	for i := range uint64(10) {
		all = append(all, s.newPayment(from, i, 1), s.newPayment(other, i, 2))
	}
	p.add(all...)
	for range 1000 {
		if p.record(all[18]).Final() && p.record(all[19]).Final() {
			break
		}
		time.Sleep(3 * s.timeUnit)
		s.mine(1)
	}
	var want [2][]batch.ID
	for i, b := range all {
		rec := p.waitForState(b, batch.Committed)
		want[i%2] = append(want[i%2], b.ID)
		r, err := evm.ReadReceipt(rec.Receipts[0])
		require.NoError(s, err)
		assert.Equal(s, string(b.ID), r.Hash)
		assert.EqualValues(s, 21000, r.GasUsed)
		assert.Positive(s, r.Block)
		assert.NotContains(s, p.events.states(b), batch.Invalid)
		assert.NotContains(s, p.events.states(b), batch.Rejected)
	}
	assert.Equal(s, want[0], s.executedHashes(from), "each once, in the order of nonces")
	assert.Equal(s, want[1], s.executedHashes(other))
}

// When somebody else's transaction has used the nonce in a deep block, that is proof: the batch is
// Rejected with that transaction's hash, and its lane goes on.
func foreignTakesNonce(s *testChain) {
	from := s.newAccount()
	theirs := s.newPayment(from, 0, 99)
	s.sendForeign(theirs)
	s.mine(6)
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	ours, next := s.newPayment(from, 0, 1), s.newPayment(from, 1, 1)
	p.add(ours, next)
	rec := p.waitForState(ours, batch.Rejected)
	assert.Contains(s, rec.Error.Error(), "nonce 0 was used by transaction "+string(theirs.ID))
	p.waitForState(next, batch.Pending, batch.Unknown)
	s.mine(5)
	p.waitForState(next, batch.Committed)
	assert.Equal(s, []batch.ID{theirs.ID, next.ID}, s.executedHashes(from))
}

// Another transaction uses the nonce after an attempt that is in doubt: the batch stays open until
// that transaction's block is deep.
func foreignTakesNonceInDoubt(s *testChain) {
	first, sent := true, make(chan struct{})
	s.setFault(func(p evmtest.RequestPoint) evmtest.Fault {
		if p.Method != "eth_sendRawTransaction" || !first {
			return evmtest.Fault{}
		}
		first = false
		defer close(sent)
		return evmtest.Fault{Answer: evmtest.AnswerReset}
	})
	from := s.newAccount()
	p := s.startRunner(evm.Options{Finality: evm.After(4)})
	ours := s.newPayment(from, 0, 1)
	p.add(ours)
	<-sent // the state Submitting only says that the batch is claimed
	p.waitForState(ours, batch.Submitting)
	theirs := s.newPayment(from, 0, 99)
	s.sendForeign(theirs)
	s.mine(2)
	p.requireNeverInState(ours, 120, batch.Rejected, batch.Invalid, batch.Committed)
	s.mine(6)
	rec := p.waitForState(ours, batch.Rejected)
	assert.Contains(s, rec.Error.Error(), string(theirs.ID))
	assert.Empty(s, p.events.ofKind(batch.EventDecision), "no person was needed")
	assert.Equal(s, []batch.ID{theirs.ID}, s.executedHashes(from))
}

// A foreign transaction in a block that is not deep decides nothing: in this scenario it is taken
// back, and the batch's own transaction is mined.
func foreignIsReorganizedAway(s *testChain) {
	from := s.newAccount()
	ours, theirs := s.newPayment(from, 0, 1), s.newPayment(from, 0, 99)
	s.mine(1)
	s.sendForeign(theirs)
	s.mine(2)
	p := s.startRunner(evm.Options{Finality: evm.After(5)})
	p.add(ours)
	p.requireNeverInState(ours, 100, batch.Rejected, batch.Invalid, batch.Committed)
	s.reorg(2, ours)
	s.mine(8)
	p.waitForState(ours, batch.Committed)
	assert.Equal(s, []batch.ID{ours.ID}, s.executedHashes(from))
}

// A node that was killed comes back without its last blocks: Valid was no promise, and the same
// bytes are mined again.
func nodeKilledUnmines(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(4)})
	from := s.newAccount()
	b := s.newPayment(from, 0, 1)
	p.add(b)
	p.waitForState(b, batch.Pending, batch.Unknown)
	s.mine(1)
	for range 100 {
		if p.record(b).State == batch.Valid {
			break
		}
		s.call(nil, "eth_chainId") // backends answer in turn, so the next answer is of one with the block
		time.Sleep(s.timeUnit)
	}
	p.waitForState(b, batch.Valid)
	s.node.Kill()
	require.NoError(s, s.node.Resume())
	p.waitForState(b, batch.Pending, batch.Unknown, batch.Submitting)
	time.Sleep(2 * time.Minute)
	s.mine(7)
	p.waitForState(b, batch.Committed)
	assert.Equal(s, []batch.ID{b.ID}, s.executedHashes(from))
	assert.NotContains(s, p.events.states(b), batch.Invalid)
}

// A node's pool is empty after a restart, and full again ten seconds later.
func poolForgets(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from := s.newAccount()
	bs := []batch.Batch{s.newPayment(from, 0, 1), s.newPayment(from, 1, 1), s.newPayment(from, 2, 1)}
	p.add(bs...)
	p.waitForState(bs[2], batch.Pending, batch.Unknown)
	s.node.Kill()
	require.NoError(s, s.node.Resume())
	time.Sleep(time.Minute)
	s.mine(1)
	time.Sleep(time.Minute)
	s.mine(6)
	for _, b := range bs {
		p.waitForState(b, batch.Committed)
	}
	assert.Equal(s, []batch.ID{bs[0].ID, bs[1].ID, bs[2].ID}, s.executedHashes(from))
}

// When a transaction is lost, the later ones of its account wait in the pool behind a gap. The
// lost one is sent again, although the others are still in the pool.
func lostAheadOfOthers(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from := s.newAccount()
	bs := []batch.Batch{s.newPayment(from, 0, 1), s.newPayment(from, 1, 1), s.newPayment(from, 2, 1)}
	p.add(bs...)
	p.waitForState(bs[2], batch.Pending)
	s.drop(bs[0])
	for range 300 {
		if p.record(bs[2]).Final() {
			break
		}
		time.Sleep(3 * s.timeUnit)
		s.mine(1)
	}
	for _, b := range bs {
		p.waitForState(b, batch.Committed)
	}
	assert.Equal(s, []batch.ID{bs[0].ID, bs[1].ID, bs[2].ID}, s.executedHashes(from))
}

// A hash as the answer to a send means that a pool has seen the transaction, and no more.
func acceptedAndDropped(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from := s.newAccount()
	b := s.newPayment(from, 0, 1)
	p.add(b)
	p.waitForState(b, batch.Pending, batch.Unknown)
	s.drop(b)
	for range 300 {
		if _, pending := s.nextNonces(from); p.record(b).Attempt > 1 && pending == 1 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	s.mine(5)
	rec := p.waitForState(b, batch.Committed)
	assert.Greater(s, rec.Attempt, 1)
	assert.Equal(s, []batch.ID{b.ID}, s.executedHashes(from))
}

// droppedAgainAndAgain: the same bytes are sent again as often as a pool drops them, although no
// fee rises. (Optimism 11614 sent nothing again if it could not raise a fee.)
func droppedAgainAndAgain(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from := s.newAccount()
	b := s.newPayment(from, 0, 1)
	p.add(b)
	for n := range 4 {
		for range 1000 {
			if _, pending := s.nextNonces(from); p.record(b).Attempt > n && pending == 1 {
				break
			}
			time.Sleep(s.timeUnit)
		}
		if n < 3 {
			s.drop(b)
		}
	}
	s.mine(5)
	p.waitForState(b, batch.Committed)
	assert.Equal(s, []batch.ID{b.ID}, s.executedHashes(from))
}

// A batch whose nonce's turn has not come holds up only its lane, shows the reason, and is sent
// when the gap is filled.
func gapHoldsItsLane(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from, other := s.newAccount(), s.newAccount()
	gapped, good := s.newPayment(from, 1, 1), s.newPayment(other, 0, 1)
	p.add(gapped, good)
	p.waitForState(good, batch.Pending, batch.Unknown)
	s.mine(5)
	p.waitForState(good, batch.Committed)
	rec := p.waitForState(gapped, batch.Delayed)
	require.NotNil(s, rec.Error)
	assert.Equal(s, batch.KindNotYet, rec.Error.Kind)
	assert.Contains(s, rec.Error.Message, "nonce 1, and the account's next is 0")
	assert.Empty(s, p.events.ofKind(batch.EventPaused))
	decided := func() []batch.Event { // the decisions except that of good
		return slices.DeleteFunc(p.events.ofKind(batch.EventDecision), func(e batch.Event) bool { return e.Key == good.Key() })
	}
	for range 4000 {
		if len(decided()) > 0 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	decisions := decided()
	require.Len(s, decisions, 1)
	assert.Equal(s, gapped.Key(), decisions[0].Key)
	assert.ErrorContains(s, decisions[0].Err, "nonce 1, and the account's next is 0")
	s.sendForeign(s.newPayment(from, 0, 99))
	s.mine(1)
	p.waitForState(gapped, batch.Pending, batch.Unknown)
	s.mine(5)
	assert.Empty(s, p.waitForState(gapped, batch.Committed).Decision)
}

// A batch of an account without funds waits however long it takes, uses up no budget, and goes on
// when the account has funds. (rrelayer 113 gave such a transaction up and kept its nonce, so
// everything behind it stopped.)
func fundsRunOut(s *testChain) {
	p := s.startRunner(evm.Options{Finality: evm.After(2)})
	from := s.newAccountWith(big.NewInt(1))
	b, next := s.newPayment(from, 0, 1), s.newPayment(from, 1, 1)
	b.Budget = batch.Budget{Attempts: 2, EveryTry: true}
	p.add(b, next)
	p.waitForState(b, batch.Delayed)
	p.requireNeverInState(b, 60, batch.Rejected, batch.Pending)
	rec := p.waitForState(b, batch.Delayed) // a claim spends a try, and "not yet" gives it back
	assert.Zero(s, rec.Spent)
	assert.Equal(s, batch.KindNotYet, rec.Error.Kind)
	assert.Empty(s, p.events.ofKind(batch.EventPaused), "the endpoint is well")
	s.control.fund(from.Address(), evmtest.Ether(1))
	p.waitForState(next, batch.Pending, batch.Unknown)
	s.mine(5)
	p.waitForState(b, batch.Committed)
	p.waitForState(next, batch.Committed)
}

// A call that reverts is Invalid once its block is deep, with its receipt: the nonce is used, and
// the lane goes on.
func revertIsInvalid(s *testChain) {
	from := s.newAccount()
	create := s.signPayment(from, evmtest.Unsigned{Nonce: 0, Gas: 200_000, Data: evmtest.Reverting()})
	s.sendForeign(create)
	s.mine(1)
	var receipt struct{ ContractAddress string }
	for range 5 { // the backend that answers may be behind
		s.mine(1)
		s.call(&receipt, "eth_getTransactionReceipt", string(create.ID))
		if receipt.ContractAddress != "" {
			break
		}
	}
	p := s.startRunner(evm.Options{Finality: evm.After(3)})
	bad := s.signPayment(from, evmtest.Unsigned{Nonce: 1, To: receipt.ContractAddress, Gas: 100_000, Data: []byte{1, 2, 3, 4}})
	next := s.newPayment(from, 2, 1)
	p.add(bad, next)
	p.waitForState(next, batch.Pending, batch.Unknown)
	s.mine(2)
	p.waitForState(bad, batch.Valid)
	p.requireNeverInState(bad, 20, batch.Invalid)
	s.mine(4)
	rec := p.waitForState(bad, batch.Invalid)
	p.waitForState(next, batch.Committed)
	require.Len(s, rec.Receipts, 1)
	assert.False(s, rec.Receipts[0].Valid)
	assert.Contains(s, rec.Receipts[0].Message, "reverted")
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(s, err)
	assert.True(s, r.Reverted)
	assert.Greater(s, r.GasUsed, uint64(21000))
	assert.Equal(s, 1, r.GasPrice.Sign())
	assert.Equal(s, string(bad.ID), r.Hash)
}

// If Finality is too shallow, a reorganization takes back a Committed batch. That is reported as
// one event, and nothing is sent again.
func reorgAfterCommitted(s *testChain) {
	if s.hasNodeBehind {
		return // the backends disagree about the last blocks at any time
	}
	p := s.startRunner(evm.Options{Finality: evm.After(1)})
	from := s.newAccount()
	b := s.newPayment(from, 0, 1)
	p.add(b)
	p.waitForState(b, batch.Pending, batch.Unknown)
	s.mine(2)
	attempts := p.waitForState(b, batch.Committed).Attempt
	s.reorg(2, s.newPayment(from, 0, 99))
	s.mine(1)
	for range 2000 {
		if len(p.events.ofKind(batch.EventVanished)) > 0 {
			break
		}
		time.Sleep(10 * s.timeUnit)
	}
	gone := p.events.ofKind(batch.EventVanished)
	require.Len(s, gone, 1)
	assert.Equal(s, b.Key(), gone[0].Key)
	rec := p.record(b)
	assert.Equal(s, batch.Committed, rec.State)
	assert.Equal(s, attempts, rec.Attempt)
}

// A reorganization before the batch's block is deep only costs time.
func reorgBeforeDeep(s *testChain) {
	from := s.newAccount()
	s.mine(4) // so that the funds are not taken back
	p := s.startRunner(evm.Options{Finality: evm.After(5)})
	b := s.newPayment(from, 0, 1)
	p.add(b)
	p.waitForState(b, batch.Pending, batch.Unknown)
	s.mine(2)
	p.waitForState(b, batch.Valid)
	s.reorg(3)
	for range 1000 {
		if _, pending := s.nextNonces(from); pending == 1 {
			break
		}
		time.Sleep(s.timeUnit)
	}
	s.mine(8)
	p.waitForState(b, batch.Committed)
	assert.Equal(s, []batch.ID{b.ID}, s.executedHashes(from))
	assert.Empty(s, p.events.ofKind(batch.EventVanished))
}

// On a chain with fewer blocks than Finality asks for, no block is deep.
func nothingIsDeepOnAYoungChain(s *testChain) {
	var head string
	s.call(&head, "eth_blockNumber")
	p := s.startRunner(evm.Options{Finality: evm.After(1_000_000)})
	b := s.newPayment(s.newAccount(), 0, 1)
	p.add(b)
	p.waitForState(b, batch.Pending, batch.Unknown)
	s.mine(3)
	p.waitForState(b, batch.Valid)
	p.requireNeverInState(b, 20, batch.Committed)
}

// The default depth is the chain's "finalized" block.
func finalizedIsTheChainsOwnWord(s *testChain) {
	p := s.startRunner(evm.Options{})
	b := s.newPayment(s.newAccount(), 0, 1)
	p.add(b)
	p.waitForState(b, batch.Pending, batch.Unknown)
	s.mine(2)
	p.waitForState(b, batch.Valid)
	p.requireNeverInState(b, 20, batch.Committed)
	s.mine(4)
	p.waitForState(b, batch.Committed)
	assert.Zero(s, s.newClient(evm.Options{}).Traits("").Vanish)
}

// When a node with the same address and id has another chain, nothing is posted to it, and the
// error says so.
func TestAnotherChainWithTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Anvil, SlotsInAnEpoch: 1})
		p := s.startRunner(evm.Options{Finality: evm.After(2)})
		from := s.newAccount()
		b, late := s.newPayment(from, 0, 1), s.newPayment(from, 1, 1)
		p.add(b)
		p.waitForState(b, batch.Pending)
		s.node.Kill()
		synctest.Wait() // the client has closed its connections: a POST on one of them would be in doubt
		require.NoError(t, s.node.Resume())
		sent := len(s.node.Journal())
		p.add(late)
		time.Sleep(10 * time.Minute)
		for _, e := range s.node.Journal()[sent:] {
			require.NotContains(t, []evmtest.Kind{evmtest.Accepted, evmtest.Refused}, e.Kind, "something was posted: %v", e)
		}
		paused := p.events.ofKind(batch.EventPaused)
		require.NotEmpty(t, paused)
		assert.ErrorContains(t, paused[len(paused)-1].Err, "another chain with the same id")
		assert.ErrorIs(t, paused[len(paused)-1].Err, dlt.ErrMisconfigured)
		assert.NotEqual(t, batch.Committed, p.record(b).State)
	})
}

// A node behind a load balancer is stale at random: counts go down, receipts come and go, and the
// client concludes nothing from that.
func TestTheNonceOfAnAccountGoesDown(t *testing.T) {
	tier.Plain(t)
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			receiptsLagCounts(newSimulatedChain(t, evmtest.Options{Faults: &evmtest.Faults{Seed: seed, Behind: 0.4, MaxBehind: 3}}))
		})
	}
}

// setFault sets the faults of the node from now on.
func (s *testChain) setFault(f func(evmtest.RequestPoint) evmtest.Fault) { s.faults.Store(&f) }

// nextNonces returns the account's next nonces.
func (s *testChain) nextNonces(a evmtest.Account) (latest, pending uint64) {
	return s.nextNoncesOfAddress(a.Address())
}

func (s *testChain) nextNoncesOfAddress(address string) (latest, pending uint64) {
	if s.node != nil {
		return s.node.Nonce(address)
	}
	for tag, out := range map[string]*uint64{"latest": &latest, "pending": &pending} {
		var text string
		s.call(&text, "eth_getTransactionCount", address, tag)
		n, ok := new(big.Int).SetString(text[2:], 16)
		require.True(s, ok)
		*out = n.Uint64()
	}
	return latest, pending
}
