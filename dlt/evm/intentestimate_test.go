package evm_test

import (
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
)

// The gas of an intent without Gas is estimated, even while earlier intents are under way.
func TestIntentsBehindOthersAreEstimated(t *testing.T) {
	for _, personality := range []evmtest.Personality{evmtest.Geth, evmtest.Anvil} {
		t.Run(string(personality), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: personality})
				from := evmtest.Dev(0)
				p, _ := s.runPipelinedIntents(4, evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}, from)
				var all []batch.Batch
				for v := range int64(4) {
					all = append(all, s.newIntentOf(from, evm.Intent{To: evmtest.Dev(9).Address(), Value: big.NewInt(v + 1)}))
				}
				p.add(all...)
				for _, b := range all {
					p.waitForState(b, batch.Pending)
				}
				reverts := s.newIntentOf(from, evm.Intent{To: s.deployRevertingContract(evmtest.Dev(1)), Value: big.NewInt(9)})
				p.add(reverts)
				s.mine(1)
				time.Sleep(12 * time.Second)
				for range 6 {
					s.mine(1)
					time.Sleep(12 * time.Second)
				}
				assert.Equal(t, []int64{1, 2, 3, 4}, s.valuesPaid(from))
				p.mineUntil(reverts, batch.Rejected)
			})
		})
	}
}
