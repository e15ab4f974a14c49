package evm_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
	"github.com/dltbatch/dltbatch/dlt/evm/evmtest"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// runPipelinedIntents starts a Runner that has up to n intents of an account under way.
func (s *testChain) runPipelinedIntents(n int, o evm.SignerOptions, accounts ...evmtest.Account) (*chainRunner, *slotRecorder) {
	k := &slotRecorder{}
	return s.startRunnerOf(memory.New(), withSlotRecorder(s.newSigningClient(o, s.newKeySigner(accounts...)), k), queuer.Pipelined(n)), k
}

// newIntents returns n intents, which pay 1, 2 and so on, and these values.
func (s *testChain) newIntents(from evmtest.Account, n int) (all []batch.Batch, values []int64) {
	for v := range int64(n) {
		all, values = append(all, s.newIntent(from, v+1)), append(values, v+1)
	}
	return all, values
}

// Up to four intents of an account, and no more, are under way at once, each with the next nonce.
func TestSeveralIntentsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
		from := evmtest.Dev(0)
		p, _ := s.runPipelinedIntents(4, evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}, from)
		all, values := s.newIntents(from, 10)
		p.add(all...)
		for _, b := range all[:4] {
			p.waitForState(b, batch.Pending)
		}
		_, pending := s.nextNonces(from)
		require.EqualValues(t, 4, pending)
		p.requireNeverInState(all[4], 20, batch.Submitting, batch.Pending)
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
		assert.Equal(t, values, s.valuesPaid(from), "each once, in their order")
	})
}

// prepareAndSubmit returns the attempt of an intent that is prepared next to other attempts of its
// lane.
func (s *testChain) prepareAndSubmit(c *evm.SigningClient, b batch.Batch, lane ...batch.Attempt) batch.Attempt {
	a := batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	for _, other := range lane {
		a.Lane = append(a.Lane, other.Prepared)
	}
	var err error
	a.Prepared, err = c.Prepare(context.Background(), a)
	require.NoError(s, err)
	return a
}

// A nonce for which later ones wait, and which no open intent of the lane keeps, is closed by a
// transfer of nothing. A nonce that an open intent keeps is not closed, however long the others
// wait.
func TestANonceThatNobodyKeepsIsClosed(t *testing.T) {
	for name, open := range map[string]bool{"of a batch that was given up": false, "of an open batch": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulatedChain(t, evmtest.Options{Personality: evmtest.Geth})
				from, ctx := evmtest.Dev(0), context.Background()
				s.mine(3)
				c := s.newSigningClient(evm.SignerOptions{Options: evm.Options{Finality: evm.After(2)}}, s.newKeySigner(from))
				all, _ := s.newIntents(from, 2)
				first := s.prepareAndSubmit(c, all[0])
				second := s.prepareAndSubmit(c, all[1], first)
				nonce, _, _, err := evm.Slot(second.Prepared)
				require.NoError(t, err)
				require.EqualValues(t, 1, nonce)
				if !open {
					second.Lane = nil
				}
				err = c.Submit(ctx, second)
				require.ErrorIs(t, err, dlt.ErrNotYet)
				require.Contains(t, err.Error(), "nonce 1, and the account's next is 0")
				_, pending := s.nextNonces(from)
				if open {
					assert.Zero(t, pending)
					assert.Contains(t, err.Error(), "the lane's open batches have 0 to 1")
					require.NoError(t, c.Submit(ctx, first))
				} else {
					assert.EqualValues(t, 1, pending)
					assert.Contains(t, err.Error(), "closed by a transfer of nothing")
				}
				require.NoError(t, c.Submit(ctx, second))
				s.mine(4)
				want := []int64{0, 2}
				if open {
					want[0] = 1
				}
				assert.Equal(t, want, s.valuesPaid(from))
			})
		})
	}
}

// Several runs of a lane at once are refused, since two of them would choose the same nonce.
func TestSeveralRunsOfALaneAreRefused(t *testing.T) {
	from := evmtest.Dev(0)
	for in, refused := range map[int]bool{0: true, 1: false} {
		signer, err := evm.NewKeySigner(from.Key())
		require.NoError(t, err)
		c, err := evm.NewSigner("http://127.0.0.1:1", 1337, signer, &evm.SignerOptions{Options: evm.Options{MaxInFlightPerService: in}})
		require.NoError(t, err)
		_, err = dltbatch.New(memory.New(), c, &dltbatch.Options{Strategy: queuer.Parallel(4)})
		if !refused {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "dlt.Traits.PreparesInOrder")
	}
}
