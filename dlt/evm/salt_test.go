package evm_test

import (
	"context"
	"math/big"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// prepare returns an attempt with the bytes that a client has prepared for it.
func (s *testChain) prepare(c *evm.SigningClient, b batch.Batch) batch.Attempt {
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	var err error
	for range 10 { // the backend that answers may be behind
		if a.Prepared, err = c.Prepare(context.Background(), a); err == nil {
			break
		}
	}
	require.NoError(s, err)
	return a
}

// statusOf returns a batch's status as a new process sees it.
func (s *testChain) statusOf(a batch.Attempt, signer evm.Signer) (st batch.Status) {
	for range 10 {
		all, err := s.newSigningClient(finalAfterTwoBlocks(), signer).BatchStatuses(context.Background(), a.Service, []batch.Attempt{a})
		require.NoError(s, err)
		if len(all) == 1 {
			st = all[0]
		}
		if st.Reported == batch.ReportedCommitted || st.Reported == batch.ReportedVoid {
			break
		}
	}
	return st
}

// Two batches have the same intent. A process whose node stands still gives the second one the
// nonce of the first, at the same price: they are still two different transactions. The second
// batch is void, gets its own nonce, and is paid, too.
func equalIntents(s *testChain) {
	s.mine(4)
	to := evmtest.Dev(9).Address()
	for name, i := range map[string]evm.Intent{
		"gas of its own": {To: to, Value: big.NewInt(10), Gas: 21000},
		"estimated":      {To: to, Value: big.NewInt(10)},
	} {
		from := s.newAccount()
		keys := s.newKeySigner(from)
		first, second := s.newIntentOf(from, i), s.newIntentOf(from, i)
		require.Equal(s, first.Payload, second.Payload)
		here, there := s.newSigningClient(finalAfterTwoBlocks(), keys), s.newSigningClient(finalAfterTwoBlocks(), keys)
		// The second process prepares now: a node that stands still would give it the same answers
		// later.
		x, y := s.prepare(here, first), s.prepare(there, second)
		require.NoError(s, here.Submit(context.Background(), x))
		s.mine(6)
		assert.Equal(s, batch.ReportedCommitted, s.statusOf(x, keys).Reported, name)
		require.Equal(s, batch.ReportedVoid, s.statusOf(y, keys).Reported, "%s: the receipt is the other's", name)
		y = s.prepare(here, second)
		require.NoError(s, here.Submit(context.Background(), y))
		s.mine(6)
		st := s.statusOf(y, keys)
		assert.Equal(s, batch.ReportedCommitted, st.Reported, name)
		assert.Equal(s, []int64{10, 10}, s.valuesPaid(from), name)
	}
}

// The salt of a batch changes neither the execution nor the price, exceeds no limit, and is the
// same however often the batch is prepared.
func TestSaltStaysWithinLimits(t *testing.T) {
	tier.Plain(t)
	gwei := func(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e9)) }
	for name, c := range map[string]struct {
		base         *big.Int
		limit        *big.Int
		fee          evm.Fee
		gas          uint64
		areDifferent bool
	}{
		"usual fees":                  {base: gwei(1), fee: evm.Fee{Tip: gwei(1), FeeCap: gwei(3)}, gas: 21000, areDifferent: true},
		"the limit lowers them":       {base: gwei(3), limit: gwei(5), fee: evm.Fee{Tip: gwei(3), FeeCap: gwei(9)}, gas: 21000, areDifferent: true},
		"no reserve":                  {base: gwei(1), fee: evm.Fee{Tip: gwei(1), FeeCap: gwei(2)}, gas: 21000},
		"less than the base fee":      {base: gwei(4), fee: evm.Fee{Tip: gwei(1), FeeCap: gwei(3)}, gas: 21000},
		"no fees, gas of its own":     {base: new(big.Int), fee: evm.Fee{Tip: new(big.Int), FeeCap: new(big.Int)}, gas: 21000},
		"no fees, estimated":          {base: new(big.Int), fee: evm.Fee{Tip: new(big.Int), FeeCap: new(big.Int)}, areDifferent: true},
		"usual fees, estimated":       {base: gwei(1), fee: evm.Fee{Tip: gwei(1), FeeCap: gwei(3)}, areDifferent: true},
		"next to no fees, estimated":  {base: big.NewInt(7), fee: evm.Fee{Tip: new(big.Int), FeeCap: big.NewInt(14)}, areDifferent: true},
		"only a tip, gas of its own":  {base: new(big.Int), fee: evm.Fee{Tip: gwei(1), FeeCap: gwei(1)}, gas: 21000},
		"a high cap, gas of its own":  {base: new(big.Int), fee: evm.Fee{Tip: gwei(1), FeeCap: gwei(2)}, gas: 21000, areDifferent: true},
		"the least that fees can buy": {base: big.NewInt(1), fee: evm.Fee{Tip: new(big.Int), FeeCap: big.NewInt(1)}, gas: 21000},
	} {
		t.Run(name, func(t *testing.T) {
			node, url := newScriptedNode(t)
			setBaseFee(node, c.base, 30_000_000)
			node.setAnswer("eth_estimateGas", func([]any) (any, string) { return "0x5208", "" })
			signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
			require.NoError(t, err)
			client, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{
				MaxFeePerGas: c.limit, Fees: func(context.Context, evm.Market) (evm.Fee, error) { return c.fee, nil },
			})
			require.NoError(t, err)
			hashes, most := map[string]bool{}, c.fee.FeeCap
			if c.limit != nil {
				most = c.limit
			}
			const batches = 20
			for n := range batches {
				b := intentOf(t, n, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(10), Gas: c.gas})
				kept, err := client.Prepare(t.Context(), attempt(b, 1))
				require.NoError(t, err)
				again, err := client.Prepare(t.Context(), attempt(b, 2))
				require.NoError(t, err)
				assert.Equal(t, kept, again)
				_, fees, all, err := evm.Slot(kept)
				require.NoError(t, err)
				hashes[all[0]] = true
				got := fees[0]
				assert.LessOrEqual(t, got.FeeCap.Cmp(most), 0)
				assert.GreaterOrEqual(t, new(big.Int).Mul(got.FeeCap, big.NewInt(1024)).Cmp(new(big.Int).Mul(most, big.NewInt(1023))), 0)
				assert.Zero(t, got.Tip.Cmp(c.fee.Tip))
				paid := func(f *big.Int) *big.Int { // the price of a unit of gas in the next block
					if all := new(big.Int).Add(c.base, c.fee.Tip); all.Cmp(f) < 0 {
						return all
					}
					return f
				}
				if c.limit == nil {
					assert.Zero(t, paid(got.FeeCap).Cmp(paid(most)))
				}
				gas, err := evm.SlotGas(kept)
				require.NoError(t, err)
				switch {
				case c.gas != 0:
					assert.Equal(t, c.gas, gas)
				case c.base.Cmp(big.NewInt(1_000_000)) > 0:
					assert.True(t, gas >= 21000 && gas < 21000+1<<12, "%d", gas)
				default:
					assert.True(t, gas >= 21000 && gas < 21000+1<<16, "%d", gas)
				}
			}
			if c.areDifferent {
				assert.Greater(t, len(hashes), batches-2)
			} else {
				assert.Len(t, hashes, 1, "there is no room")
			}
		})
	}
}

// The salt never lowers the fees of a replacement below what a node asks for.
func TestSaltLeavesReplacementsAlone(t *testing.T) {
	node, url := newScriptedNode(t)
	setBaseFee(node, big.NewInt(1), 0)
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	eighth := func(v *big.Int) *big.Int {
		return new(big.Int).Add(v, new(big.Int).Rsh(new(big.Int).Add(v, big.NewInt(7)), 3))
	}
	client, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{Fees: func(_ context.Context, m evm.Market) (evm.Fee, error) {
		if m.Last.FeeCap == nil {
			return evm.Fee{Tip: big.NewInt(1e9), FeeCap: big.NewInt(100e9)}, nil
		}
		return evm.Fee{Tip: eighth(m.Last.Tip), FeeCap: new(big.Int).Add(eighth(m.Last.FeeCap), big.NewInt(1000))}, nil
	}})
	require.NoError(t, err)
	for n := range 20 {
		a := attempt(intentOf(t, n, evm.Intent{To: evmtest.Dev(9).Address(), Gas: 21000}), 1)
		a.Prepared, err = client.Prepare(t.Context(), a)
		require.NoError(t, err)
		node.setAnswer("eth_getTransactionByHash", func([]any) (any, string) { return map[string]any{"blockHash": nil}, "" })
		later := setLastBlock(node, 200)
		kept, err := client.Prepare(t.Context(), a)
		later()
		require.NoError(t, err)
		_, fees, _, err := evm.Slot(kept)
		require.NoError(t, err)
		require.Len(t, fees, 2)
		assert.GreaterOrEqual(t, fees[1].FeeCap.Cmp(eighth(fees[0].FeeCap)), 0)
	}
}

// Fees may change the numbers of its Market, as its documentation says: neither the salt nor the
// least fees of a replacement change.
func TestFeesMayChangeTheNumbersOfTheMarket(t *testing.T) {
	node, url := newScriptedNode(t)
	setBaseFee(node, big.NewInt(30e9), 0)
	node.setAnswer("eth_maxPriorityFeePerGas", func([]any) (any, string) { return "0x3b9aca00", "" })
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	client, err := evm.NewSigner(url, 1337, signer, &evm.SignerOptions{Fees: func(_ context.Context, m evm.Market) (evm.Fee, error) {
		// The fees are those of DefaultFees, but are computed in the Market's own numbers.
		fee := evm.Fee{Tip: m.Tip, FeeCap: m.BaseFee.Add(m.BaseFee.Lsh(m.BaseFee, 1), m.Tip)}
		if m.Last.FeeCap != nil {
			m.Last.FeeCap.SetInt64(1)
			m.Last.Tip.SetInt64(1)
		}
		return fee, nil
	}})
	require.NoError(t, err)
	seen := map[string]bool{}
	for n := range 5 {
		a := attempt(intentOf(t, n, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(7), Gas: 21000}), 1)
		a.Prepared, err = client.Prepare(t.Context(), a)
		require.NoError(t, err)
		_, before, hashes, err := evm.Slot(a.Prepared)
		require.NoError(t, err)
		seen[hashes[0]] = true
		node.setAnswer("eth_getTransactionByHash", func([]any) (any, string) {
			return map[string]any{"hash": hashes[0], "blockHash": nil, "nonce": "0x0"}, ""
		})
		later := setLastBlock(node, 200)
		a.Prepared, err = client.Prepare(t.Context(), a)
		later()
		require.NoError(t, err)
		_, after, _, err := evm.Slot(a.Prepared)
		require.NoError(t, err)
		require.Len(t, after, 2)
		assert.Equal(t, before[0], after[0])
		assert.GreaterOrEqual(t, after[1].FeeCap.Cmp(new(big.Int).Quo(new(big.Int).Mul(before[0].FeeCap, big.NewInt(11)), big.NewInt(10))), 0)
	}
	assert.Len(t, seen, 5, "five batches, and so many transactions")
}

// setLastBlock makes the block with this number the last one, until back is called.
func setLastBlock(s *scriptedNode, number uint64) (back func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.answersByMethod["eth_getBlockByNumber"]
	s.answersByMethod["eth_getBlockByNumber"] = func(params []any) (any, string) {
		if params[0] == "latest" {
			return before([]any{hexNumber(number)})
		}
		return before(params)
	}
	return func() { s.setAnswer("eth_getBlockByNumber", before) }
}

// The gas that is added to an estimate stays below the block's limit and the chain's limit for a
// transaction, if the estimate itself does.
func TestGasStaysBelowTheBlocksLimit(t *testing.T) {
	node, url := newScriptedNode(t)
	signer, err := evm.NewKeySigner(evmtest.Dev(0).Key())
	require.NoError(t, err)
	c, err := evm.NewSigner(url, 1337, signer, nil)
	require.NoError(t, err)
	const maxGas = 1 << 24
	for _, x := range []struct{ estimate, limit, least, maxAllowed uint64 }{
		{100_000, 30_000_000, 125_000, 125_000 + 1<<12 - 1},
		{16_000_000, 30_000_000, 16_000_000, maxGas},
		{maxGas, 30_000_000, maxGas, maxGas},
		{maxGas + 1, 60_000_000, 20_971_521, 20_971_521 + 1<<12 - 1},
		{110_000, 120_000, 110_000, 120_000},
		{120_000, 120_000, 120_000, 120_000},
		{130_000, 120_000, 162_500, 162_500 + 1<<12 - 1}, // an estimate above the limit is kept
		{100_000, 0, 125_000, 125_000 + 1<<12 - 1},       // the block names no limit
	} {
		node.setAnswer("eth_estimateGas", func([]any) (any, string) { return hexNumber(x.estimate), "" })
		setBaseFee(node, big.NewInt(1e9), x.limit)
		for n := range 5 {
			b := intentOf(t, n, evm.Intent{To: evmtest.Dev(9).Address()})
			kept, err := c.Prepare(t.Context(), attempt(b, 1))
			require.NoError(t, err)
			gas, err := evm.SlotGas(kept)
			require.NoError(t, err)
			assert.True(t, x.least <= gas && gas <= x.maxAllowed, "%d of an estimate of %d in blocks of %d", gas, x.estimate, x.limit)
		}
	}
}

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// setBaseFee gives all blocks of a script a base fee and, unless limit is 0, a gas limit.
func setBaseFee(s *scriptedNode, base *big.Int, limit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	blocks := s.answersByMethod["eth_getBlockByNumber"]
	s.answersByMethod["eth_getBlockByNumber"] = func(params []any) (any, string) {
		b, _ := blocks(params)
		block := b.(map[string]any)
		block["baseFeePerGas"] = "0x" + base.Text(16)
		delete(block, "gasLimit")
		if limit != 0 {
			block["gasLimit"] = hexNumber(limit)
		}
		return block, ""
	}
}

// intentOf returns an intent's batch of the first account.
func intentOf(t testing.TB, n int, i evm.Intent) batch.Batch {
	b, err := i.Batch(batch.ID("invoice "+strconv.Itoa(n)), evmtest.Dev(0).Address())
	require.NoError(t, err)
	return b
}
