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

// lanePlays are the plays with a SigningClient and several intents of an account under way.
var lanePlays = map[string]play{
	"LaneReceiptLagsCount":           {do: laneOfMany},
	"LaneNonceTooLowNeverRenonces":   {do: laneNonceTooLow, inside: true},
	"LaneTwoPreparesOneSlot":         {do: laneOneSlot},
	"LaneForeignTakesNonce":          {do: laneForeign},
	"LaneForeignUnfinalIsReorged":    {do: laneForeignUnfinal},
	"LaneNonceAboveUnfinalForeign":   {do: laneAboveForeign},
	"LaneCrashAtEveryStep":           {do: laneCrashes},
	"LaneNodeKilledUnmines":          {do: laneUnmined, inside: true, not: evmtest.Anvil, why: "it does not put back what it un-mined"},
	"LanePoolForgetsTenSeconds":      {do: lanePoolForgets, inside: true, not: evmtest.Anvil, why: "its pool is not kept"},
	"LaneAcceptedAndDropped":         {do: laneDropped},
	"LaneFundsRunOutAndComeBack":     {do: laneFunds},
	"LaneBumpBothFees":               {do: laneBump},
	"LaneBumpDoesNotSpendBudget":     {do: laneBumpSpendsNothing, not: evmtest.Anvil, why: "it forgets what is too cheap, and to send that again is a try"},
	"LaneResendWhenBumpImpossible":   {do: laneNoHigherFees},
	"LaneRevertIsInvalidWhenDeep":    {do: laneReverts},
	"LaneReorgBeforeDeepIsNoVerdict": {do: laneReorg},
}

// TestLanePlays runs all plays of lanes on three kinds of nodes, in virtual time.
func TestLanePlays(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	playAll(t, lanePlays, false)
}

// lane starts a Runner that has up to four intents of an account under way, and adds three
// intents, which wait in the pool.
func (s *stage) lane(o evm.SignerOptions) (from evmtest.Account, p *playing, k *slots, all []batch.Batch) {
	from = s.account()
	s.mine(4)
	p, k = s.pipelined(4, o, from)
	for v := range int64(3) {
		all = append(all, s.intent(from, 10+v))
	}
	p.add(all...)
	for _, b := range all {
		p.becomes(b, batch.Pending)
	}
	return from, p, k, all
}

// committed makes blocks until all batches are committed.
func (p *playing) committed(all []batch.Batch) {
	p.Helper()
	for _, b := range all {
		p.mineUntil(b, batch.Committed)
	}
}

// dropAll makes the pool forget the transaction that was posted last for each batch.
func (s *stage) dropAll(k *slots, all []batch.Batch) {
	for _, b := range all {
		_, _, hashes := k.last(s, b)
		s.drop(batch.Batch{ID: batch.ID(hashes[len(hashes)-1])})
		if _, forgotten := s.steering.(onGeth); forgotten { // on geth, the first drop empties the whole pool
			return
		}
	}
}

// oneNonce makes sure that all posted transactions of a batch have the nonce want, and that its
// slot grew by appending.
func (s *stage) oneNonce(k *slots, b batch.Batch, want uint64) {
	all := k.all(b)
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
func laneOfMany(s *stage) {
	from, other := s.account(), s.account()
	s.mine(4)
	p, k := s.pipelined(4, afterTwo(), from, other)
	var all []batch.Batch
	for v := range int64(9) {
		all = append(all, s.intent(from, 10+v), s.intent(other, 30+v))
	}
	p.add(all...)
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i/2))
		assert.NotContains(s, p.seen.states(b), batch.Invalid)
		assert.NotContains(s, p.seen.states(b), batch.Rejected)
	}
	assert.Equal(s, []int64{10, 11, 12, 13, 14, 15, 16, 17, 18}, s.paid(from))
	assert.Equal(s, []int64{30, 31, 32, 33, 34, 35, 36, 37, 38}, s.paid(other))
}

// The answers to all three sends are lost, all three transactions are mined, and no question finds
// them: they are sent again unchanged.
func laneNonceTooLow(s *stage) {
	sent := 0
	s.fault(func(p evmtest.RequestPoint) evmtest.Fault {
		if p.Method != "eth_sendRawTransaction" {
			return evmtest.Fault{}
		}
		if sent++; sent <= 3 {
			return evmtest.Fault{Answer: evmtest.AnswerReset, Acceptance: evmtest.AcceptedFirst}
		}
		return evmtest.Fault{}
	})
	s.hidden.Store(true)
	from := s.account()
	s.mine(4)
	p, k := s.pipelined(4, afterTwo(), from)
	all := []batch.Batch{s.intent(from, 10), s.intent(from, 11), s.intent(from, 12)}
	p.add(all...)
	for range 1000 {
		if p.record(all[0]).Attempt > 3 {
			break
		}
		s.mine(1)
		time.Sleep(s.unit)
	}
	s.hidden.Store(false)
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// Three processes sign different bytes for the first intent of a lane before any of them has
// stored its own: one slot is stored for each intent, whichever process goes on with the lane.
func laneOneSlot(s *stage) {
	s.width = 4
	from := s.account()
	s.mine(4)
	c := s.crew(s.signers(from), func(at step) bool { return at == ready })
	all := []batch.Batch{s.intent(from, 10), s.intent(from, 11), s.intent(from, 12)}
	require.NoError(s, c.adds.Add(context.Background(), all...))
	for range 2000 {
		if c.stopped() == 3 {
			break
		}
		time.Sleep(s.unit)
	}
	require.Equal(s, 3, c.stopped(), "each has signed, and kept nothing")
	c.thawAll()
	c.committed(all)
	for _, b := range all {
		c.oneSlot(b)
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// committed makes blocks until all batches are committed.
func (c *crew) committed(all []batch.Batch) {
	left := func(b batch.Batch) bool { return c.state(b) != batch.Committed }
	for range 1000 {
		if !slices.ContainsFunc(all, left) {
			return
		}
		time.Sleep(4 * c.unit)
		c.mine(1)
	}
	for _, b := range all {
		require.Equal(c, batch.Committed, c.state(b), b.Key())
	}
}

// A process stops at each step for the second intent of a lane, and the others go on. When it is
// thawed, its late write and its late POST change nothing.
func laneCrashes(s *stage) {
	s.width = 4
	s.mine(4)
	type one struct {
		*crew
		*trap
		from evmtest.Account
		all  []batch.Batch
	}
	var crews []one
	for _, at := range []step{signing, ready, kept, posting, posted, recorded} {
		from, tr := s.account(), &trap{at: at, n: 2}
		x := one{s.crew(s.signers(from), tr.springs), tr, from, []batch.Batch{s.intent(from, 10), s.intent(from, 11), s.intent(from, 12)}}
		require.NoError(s, x.adds.Add(context.Background(), x.all...))
		crews = append(crews, x)
	}
	for _, x := range crews {
		x.committed(x.all)
		assert.True(s, x.sprung.Load(), "%s: nothing ended there", x.at)
		x.thawAll()
	}
	time.Sleep(40 * s.unit)
	s.mine(5)
	for _, x := range crews {
		for _, b := range x.all {
			assert.Equal(s, batch.Committed, x.state(b), x.at)
			x.oneSlot(b)
		}
		assert.Equal(s, []int64{10, 11, 12}, s.paid(x.from), x.at)
	}
}

// The pool forgets all three intents, and another wallet uses the first nonce: each intent is
// executed once, and the first one gets another nonce.
func laneForeign(s *stage) {
	from, p, k, all := s.lane(afterTwo())
	s.dropAll(k, all)
	s.foreign(s.pay(from, 0, 99))
	p.committed(all)
	assert.ElementsMatch(s, []int64{99, 10, 11, 12}, s.paid(from))
	nonce, _, _ := k.last(s, all[0])
	assert.NotZero(s, nonce)
}

// Another wallet's transaction is taken back before it is deep: each intent keeps its nonce.
func laneForeignUnfinal(s *stage) {
	o := evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}}
	from, p, k, all := s.lane(o)
	s.dropAll(k, all)
	s.foreign(s.pay(from, 0, 99))
	s.mine(3)
	for _, b := range all {
		p.stays(b, 20, batch.Committed, batch.Rejected, batch.Invalid)
	}
	s.reorg(3)
	for n := range 200 {
		if n == 0 || s.node != nil { // on geth only once, since nobody else has the transaction that geth puts back into its pool
			s.steering.forget()
		}
		if _, pending := s.nonce(from); pending >= 1 {
			break
		}
		time.Sleep(s.unit)
	}
	p.committed(all)
	if got := s.paid(from); !slices.Contains(got, 99) {
		assert.Equal(s, []int64{10, 11, 12}, got)
		for i, b := range all {
			s.oneNonce(k, b, uint64(i))
		}
	} else { // a node had it in another place
		assert.ElementsMatch(s, []int64{99, 10, 11, 12}, got)
	}
}

// While somebody else's transaction waits behind those of a lane, the lane uses no higher nonce,
// and another lane goes on.
func laneAboveForeign(s *stage) {
	other := s.account()
	from, p, k, all := s.lane(afterTwo())
	s.foreign(s.pay(from, 3, 99))
	late := s.intent(from, 13)
	p.add(late)
	rec := p.becomes(late, batch.Delayed)
	require.Equal(s, batch.KindNotYet, rec.Error.Kind)
	assert.Empty(s, k.all(late), "nothing was posted")
	q, _ := s.pipelined(4, afterTwo(), other)
	of := s.intent(other, 20)
	q.add(of)
	q.becomes(of, batch.Pending)
	p.committed(append(all, late))
	assert.Equal(s, []int64{10, 11, 12, 99, 13}, s.paid(from))
	s.oneNonce(k, late, 4)
	q.committed([]batch.Batch{of})
}

func laneUnmined(s *stage) {
	from, p, k, all := s.lane(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}})
	s.mine(1)
	p.becomes(all[2], batch.Valid)
	s.node.Kill()
	time.Sleep(s.unit)
	require.NoError(s, s.node.Resume())
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

func lanePoolForgets(s *stage) {
	from, p, k, all := s.lane(evm.SignerOptions{Options: evm.Options{Finality: evm.After(6)}})
	s.node.Kill()
	require.NoError(s, s.node.Resume())
	time.Sleep(5 * time.Second)
	_, pending := s.nonce(from)
	require.Zero(s, pending, "the pool is empty")
	time.Sleep(time.Minute)
	_, pending = s.nonce(from)
	require.EqualValues(s, 3, pending, "and has all again")
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// A node forgets the middle one of three transactions. It is sent again while the first is in the
// pool, or in a block that is not deep, and all are executed in their order.
func laneDropped(s *stage) {
	from, p, k, all := s.lane(afterTwo())
	_, _, hashes := k.last(s, all[1])
	s.drop(batch.Batch{ID: batch.ID(hashes[0])})
	s.mine(1)
	for range 1000 {
		if p.record(all[1]).Attempt > 1 {
			break
		}
		time.Sleep(s.unit)
	}
	require.Greater(s, p.record(all[1]).Attempt, 1)
	require.False(s, p.record(all[0]).Final())
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// An account without funds uses no nonce, and its intents go on in their order once it has funds.
func laneFunds(s *stage) {
	from := s.accountWith(big.NewInt(1000))
	p, k := s.pipelined(4, afterTwo(), from)
	all := []batch.Batch{s.intent(from, 10), s.intent(from, 11), s.intent(from, 12)}
	p.add(all...)
	rec := p.becomes(all[0], batch.Delayed)
	assert.Equal(s, batch.KindNotYet, rec.Error.Kind, "%v", rec.Error)
	for _, b := range all {
		p.stays(b, 10, batch.Rejected, batch.Pending)
	}
	assert.Empty(s, p.seen.of(batch.EventPaused), "the endpoint is well")
	s.steering.fund(from.Address(), evmtest.Ether(1))
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// When the base fee leaps, each transaction that no longer pays it is replaced at the same nonce,
// with both fees higher.
func laneBump(s *stage) {
	from, p, k, all := s.lane(afterTwo())
	s.setBaseFee(50)
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
	_, fees, _ := k.last(s, all[0])
	require.Greater(s, len(fees), 1)
	for i, f := range fees[1:] {
		for _, pair := range [][2]*big.Int{{fees[i].Tip, f.Tip}, {fees[i].FeeCap, f.FeeCap}} {
			assert.GreaterOrEqual(s, new(big.Int).Mul(pair[1], big.NewInt(100)).Cmp(new(big.Int).Mul(pair[0], big.NewInt(110))), 0, "%s after %s", pair[1], pair[0])
		}
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// Neither a replacement, nor the transactions that are sent again after it, use up a budget.
func laneBumpSpendsNothing(s *stage) {
	from := s.account()
	s.mine(4)
	p, k := s.pipelined(4, afterTwo(), from)
	var all []batch.Batch
	for v := range int64(3) {
		b := s.intent(from, 10+v)
		b.Budget = batch.Budget{Attempts: 2, EveryTry: true}
		all = append(all, b)
	}
	p.add(all...)
	for _, b := range all {
		p.becomes(b, batch.Pending)
	}
	for range 60 { // the base fee keeps rising
		_, fees, _ := k.last(s, all[0])
		if len(fees) > 4 {
			break
		}
		s.setBaseFee(new(big.Int).Div(fees[len(fees)-1].FeeCap, big.NewInt(1e9)).Int64() + 10)
		s.mine(1)
		time.Sleep(8 * s.unit)
		for _, b := range all {
			require.False(s, p.record(b).Final(), "%s: %v", b.Key(), p.record(b).Error)
		}
	}
	s.setBaseFee(1)
	p.committed(all)
	_, fees, _ := k.last(s, all[0])
	assert.Greater(s, len(fees), 2)
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// A signer refuses higher fees, and the pool has forgotten all transactions: they are sent again
// unchanged.
func laneNoHigherFees(s *stage) {
	from := s.account()
	s.mine(4)
	good, k := s.keys(from), &slots{}
	var risen atomic.Bool
	p := s.runLedger(memory.New(), seeing(s.signing(afterTwo(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
		if risen.Load() {
			return [65]byte{}, errors.New("over the daily limit")
		}
		return good.Sign(ctx, account, tx)
	})), k), queuer.Pipelined(4))
	all := []batch.Batch{s.intent(from, 10), s.intent(from, 11), s.intent(from, 12)}
	p.add(all...)
	for _, b := range all {
		p.becomes(b, batch.Pending)
	}
	risen.Store(true)
	for range 5 {
		s.setBaseFee(50)
		s.mine(1)
		time.Sleep(4 * s.unit)
	}
	s.dropAll(k, all)
	for range 500 {
		s.setBaseFee(1)
		s.mine(1)
		time.Sleep(4 * s.unit)
		if p.record(all[2]).State == batch.Committed {
			break
		}
	}
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
		_, fees, _ := k.last(s, b)
		for _, f := range fees { // those behind the first may have been posted once more together with it
			assert.Equal(s, fees[0], f)
		}
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// The middle one of three intents reverts: its batch is Invalid, and the other two are paid.
func laneReverts(s *stage) {
	from := s.account()
	at := s.reverting(s.account())
	p, k := s.pipelined(4, afterTwo(), from)
	all := []batch.Batch{s.intent(from, 10), s.intentTo(from, evm.Intent{To: at, Gas: 100_000, Value: big.NewInt(11)}), s.intent(from, 12)}
	p.add(all...)
	rec := p.mineUntil(all[1], batch.Invalid)
	r, err := evm.ReadReceipt(rec.Receipts[0])
	require.NoError(s, err)
	assert.True(s, r.Reverted)
	p.committed([]batch.Batch{all[0], all[2]})
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
}

func laneReorg(s *stage) {
	from, p, k, all := s.lane(evm.SignerOptions{Options: evm.Options{Finality: evm.After(5)}})
	s.mine(2)
	p.becomes(all[2], batch.Valid)
	s.reorg(3)
	p.committed(all)
	for i, b := range all {
		s.oneNonce(k, b, uint64(i))
	}
	assert.Equal(s, []int64{10, 11, 12}, s.paid(from))
}

// After a thousand failed preparations of a lane's second intent, its nonce is still the one after
// the first intent's.
func TestNoCounterToDriftInALane(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
		from := s.account()
		good, fails := s.keys(from), 0
		c := s.signing(afterTwo(), signerFunc(func(ctx context.Context, account string, tx evm.Unsigned) ([65]byte, error) {
			if fails++; tx.Nonce > 0 && fails <= 1000 {
				return [65]byte{}, errors.New("not now")
			}
			return good.Sign(ctx, account, tx)
		}))
		all, _ := s.intents(from, 2)
		first := s.attempt(c, all[0])
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
		_, pending := s.nonce(from)
		assert.Zero(t, pending, "nothing was posted")
	})
}
