package evm_test

import (
	"context"
	"math/big"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// When another wallet has used an intent's nonce, the intent gets a nonce after those under way.
// It does not hold those up, even if a pool has forgotten all of them.
func TestALostNonceDoesNotHoldUpLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, NoTracker: true})
		from := evmtest.Dev(0)
		s.mine(3)
		p, _ := s.runPipelinedIntents(3, evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}, from)
		all, _ := s.newIntents(from, 3)
		p.add(all...)
		for _, b := range all {
			p.waitForState(b, batch.Pending)
		}
		s.node.Forget()
		raw, _ := from.Sign(evmtest.Unsigned{ChainID: s.chain, Nonce: 0, To: evmtest.Dev(9).Address(), Value: big.NewInt(77), Tip: big.NewInt(5e9), FeeCap: big.NewInt(90e9)})
		s.sendWithoutFaults(raw)
		for i := range 30 {
			s.mine(1)
			if i < 5 {
				s.node.Forget()
			}
			time.Sleep(12 * time.Second)
		}
		for _, b := range all {
			rec := p.record(b)
			assert.Equal(t, batch.Committed, rec.State, "attempt %d: %v", rec.Attempt, rec.Error)
		}
		assert.Equal(t, []int64{77, 2, 3, 1}, s.valuesPaid(from))
	})
}

// On a chain without a base fee the whole gas price is paid: the transfer that closes a nonce pays
// no more than an intent.
func TestClosingPaysThePriceOfGas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth, NoBaseFee: true})
		from := evmtest.Dev(0)
		s.mine(3)
		c := s.newSigningClient(evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}, s.newKeySigner(from))
		all, _ := s.newIntents(from, 2)
		second := s.prepareAndSubmit(c, all[1], s.prepareAndSubmit(c, all[0]))
		second.Lane = nil
		err := c.Submit(context.Background(), second)
		require.ErrorContains(t, err, "closed by a transfer of nothing")
		_, price, typ := s.feesOf(batch.ID(regexp.MustCompile("0x[0-9a-f]{64}").FindString(err.Error())))
		assert.Equal(t, "0x0", typ)
		assert.InDelta(t, 2.25e9, float64(price.Int64()), 2.25e9/1000)
	})
}

// Where gas costs nothing, an account needs no funds for gas.
func TestClosingWithAGasPriceOfZero(t *testing.T) {
	fee, err := evm.DefaultFees(context.Background(), evm.Market{Legacy: true, BaseFee: new(big.Int)})
	require.NoError(t, err)
	assert.Zero(t, fee.FeeCap.Sign(), "%s wei", fee.FeeCap)
}
