package evm_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// pipelined starts a Runner with several intents of an account under way.
func (s *stage) pipelined(n int, o evm.SignerOptions, accounts ...evmtest.Account) (*playing, *slots) {
	k := &slots{}
	return s.runLedger(memory.New(), seeing(s.signing(o, s.keys(accounts...)), k), queuer.Pipelined(n)), k
}

// intents are payments of 1, 2 and so on.
func (s *stage) intents(from evmtest.Account, n int) (all []batch.Batch, values []int64) {
	for v := range int64(n) {
		all, values = append(all, s.intent(from, v+1)), append(values, v+1)
	}
	return all, values
}

// Four intents of an account are under way at once, each with the next nonce, and no more than four.
func TestSeveralIntentsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, evmtest.Options{Personality: evmtest.Geth})
		from := evmtest.Dev(0)
		p, _ := s.pipelined(4, evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}, from)
		all, values := s.intents(from, 10)
		p.add(all...)
		for _, b := range all[:4] {
			p.becomes(b, batch.Pending)
		}
		_, pending := s.nonce(from)
		require.EqualValues(t, 4, pending)
		p.stays(all[4], 20, batch.Submitting, batch.Pending)
		for i := range 50 {
			s.mine(1)
			time.Sleep(12 * time.Second)
			if rec, err := p.Get(context.Background(), all[len(all)-1].Key()); err == nil && rec.Final() {
				t.Logf("%d blocks", i+1)
				break
			}
		}
		for i, b := range all {
			rec := p.record(b)
			assert.Equal(t, batch.Committed, rec.State, "%d: %v", i, rec.Error)
		}
		assert.Equal(t, values, s.paid(from), "each once, in their order")
	})
}
