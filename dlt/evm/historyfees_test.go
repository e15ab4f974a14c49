package evm_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// feesOf returns a transaction's fees as the node shows them. For type 0 both are the gas price.
func (s *testChain) feesOf(hash batch.ID) (tip, feeCap *big.Int, typ string) {
	s.Helper()
	var doc struct {
		Type  string
		Tip   string `json:"maxPriorityFeePerGas"`
		Cap   string `json:"maxFeePerGas"`
		Price string `json:"gasPrice"`
	}
	s.call(&doc, "eth_getTransactionByHash", string(hash))
	number := func(text string) *big.Int {
		v, _ := new(big.Int).SetString(text, 0)
		return v
	}
	if doc.Type == "0x0" {
		return nil, number(doc.Price), doc.Type
	}
	return number(doc.Tip), number(doc.Cap), doc.Type
}

// Each of the three speeds pays the tip of the slow, middle or fast part of the last blocks, with
// a fee cap that leaves room for a higher base fee. The limits of fees apply as always.
func TestHistoryFees(t *testing.T) {
	tier.Plain(t)
	for speed, gwei := range map[evm.Speed]int64{evm.Slow: 1, evm.Normal: 5, evm.Fast: 9} {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1})
			for range 6 { // ten payments in each block, with tips of 1 to 10 gwei
				for i := range int64(10) {
					wei := big.NewInt((i + 1) * 1e9)
					s.sendForeign(s.signPayment(s.newAccount(), evmtest.Unsigned{Tip: wei, FeeCap: new(big.Int).Add(wei, big.NewInt(50e9)), To: evmtest.Dev(1).Address()}))
				}
				s.mine(1)
			}
			s.mine(3) // empty blocks do not count for the tips
			fees, err := evm.HistoryFees(speed)
			require.NoError(t, err)
			from := s.newAccount()
			o := finalAfterTwoBlocks()
			o.Fees = fees
			p := s.startRunnerOf(memory.New(), s.newSigningClient(o, s.newKeySigner(from)), queuer.Serial())
			b := s.newIntent(from, 10)
			p.add(b)
			p.mineUntil(b, batch.Committed)
			tip, feeCap, _ := s.feesOf(s.executedHashes(from)[0])
			assert.Equal(t, big.NewInt(gwei*1e9), tip)
			assert.Equal(t, 1, feeCap.Cmp(tip))
			o.MaxFeePerGas = big.NewInt(gwei*1e9 - 5) // less than the tip that HistoryFees chooses
			other := s.newAccount()
			p = s.startRunnerOf(memory.New(), s.newSigningClient(o, s.newKeySigner(other)), queuer.Serial())
			b = s.newIntent(other, 10)
			p.add(b)
			p.mineUntil(b, batch.Committed)
			tip, feeCap, _ = s.feesOf(s.executedHashes(other)[0])
			assert.LessOrEqual(t, feeCap.Cmp(o.MaxFeePerGas), 0)
			assert.LessOrEqual(t, tip.Cmp(feeCap), 0)
		})
	}
}

// HistoryFees refuses a speed out of range. Called without a SigningClient it returns an error,
// since it has no node to ask.
func TestHistoryFeesRefuses(t *testing.T) {
	for _, speed := range []evm.Speed{0, -1, 101, evm.Speed(math.NaN()), evm.Speed(math.Inf(1))} {
		_, err := evm.HistoryFees(speed)
		in, is := errors.AsType[*batch.InputError](err)
		require.True(t, is, "%v", err)
		assert.Equal(t, "speed", in.Field)
	}
	fees, err := evm.HistoryFees(evm.Normal)
	require.NoError(t, err)
	_, err = fees(t.Context(), evm.Market{BaseFee: big.NewInt(1)})
	require.ErrorContains(t, err, "no node to ask")
}

// If the answer of eth_feeHistory contradicts itself, nothing is signed, and the lane shows the
// reason.
func TestHistoryFeesOfStrangeAnswers(t *testing.T) {
	for name, result := range map[string]string{
		"nothing": `null`, "no object": `[]`, "no tips": `{"baseFeePerGas":["0x1","0x2"],"gasUsedRatio":[0.5]}`,
		"no next block": `{"baseFeePerGas":["0x1"],"gasUsedRatio":[0.5],"reward":[["0x1"]]}`,
		"two tips":      `{"baseFeePerGas":["0x1","0x2"],"gasUsedRatio":[0.5],"reward":[["0x1","0x2"]]}`,
		"no number":     `{"baseFeePerGas":["0x1","much"],"gasUsedRatio":[0],"reward":[["0x0"]]}`,
		"negative":      `{"baseFeePerGas":["0x1","0x2"],"gasUsedRatio":[0.5],"reward":[["-0x1"]]}`,
	} {
		_, _, err := evm.ReadHistory([]byte(result))
		require.ErrorContains(t, err, "eth_feeHistory", name)
	}
	tips, next, err := evm.ReadHistory([]byte(`{"baseFeePerGas":["0x1","0x2","0x3"],"gasUsedRatio":[0,0.1],"reward":[["0x0"],["0x7"]]}`))
	require.NoError(t, err)
	assert.Equal(t, []*big.Int{big.NewInt(7)}, tips)
	assert.Equal(t, big.NewInt(3), next)
}

// On a chain without a base fee, intents become transactions of type 0, with the node's gas price
// plus an eighth. If the node's price rises, the transaction is replaced. Two equal intents stay
// two payments.
func TestIntentsWithoutABaseFee(t *testing.T) {
	history, err := evm.HistoryFees(evm.Fast)
	require.NoError(t, err)
	for name, fees := range map[string]evm.Fees{"default": nil, "history": history, "with a tip": func(context.Context, evm.Market) (evm.Fee, error) {
		return evm.Fee{Tip: big.NewInt(1e9), FeeCap: big.NewInt(2.25e9)}, nil
	}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1, NoBaseFee: true})
				from := s.newAccount()
				o := finalAfterTwoBlocks()
				o.Fees = fees
				p := s.startRunnerOf(memory.New(), s.newSigningClient(o, s.newKeySigner(from)), queuer.Serial())
				for i := range int64(3) {
					b := s.newIntent(from, 10+i)
					p.add(b)
					p.mineUntil(b, batch.Committed)
				}
				assert.Equal(t, []int64{10, 11, 12}, s.valuesPaid(from))
				_, price, typ := s.feesOf(s.executedHashes(from)[0])
				assert.Equal(t, "0x0", typ)
				assert.InDelta(t, 2.25e9, float64(price.Int64()), 2.25e9/1000)
			})
		})
	}
}

// A waiting transaction of type 0 is replaced at its nonce. The prepared bytes record its type.
func TestReplacementWithoutABaseFee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, SlotsInAnEpoch: 1, NoBaseFee: true})
		from := s.newAccount()
		o, price := finalAfterTwoBlocks(), int64(2e9)
		o.Fees = func(context.Context, evm.Market) (evm.Fee, error) {
			return evm.Fee{Tip: new(big.Int), FeeCap: big.NewInt(price)}, nil
		}
		c := s.newSigningClient(o, s.newKeySigner(from))
		b := s.newIntent(from, 10)
		a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
		var err error
		a.Prepared, err = c.Prepare(t.Context(), a)
		require.NoError(t, err)
		price = 4e9 // no node has the first transaction, and the price has doubled
		s.mine(4)
		a.Prepared, err = c.Prepare(t.Context(), a)
		require.NoError(t, err)
		_, fees, hashes, err := evm.Slot(a.Prepared)
		require.NoError(t, err)
		require.Len(t, hashes, 2)
		assert.LessOrEqual(t, fees[0].FeeCap.Int64(), int64(2e9))
		require.NoError(t, c.Submit(t.Context(), a))
		_, paid, typ := s.feesOf(batch.ID(hashes[1]))
		assert.Equal(t, "0x0", typ)
		assert.InDelta(t, 4e9, float64(paid.Int64()), 4e9/1000)
	})
}
