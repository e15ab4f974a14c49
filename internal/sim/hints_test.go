package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
)

// TestHints runs several processes that deliver, and others that add and wait, with long pauses in
// which only hints end the rest of an idle Runner. The hints are lost, doubled, late and made up
// by seed, together with faults of the store and of the ledger. The time that a batch waits longer
// because of that is bounded, since nothing depends on a hint.
func TestHints(t *testing.T) {
	for n := uint64(1); n <= uint64(*runnerSeeds+3)/4; n++ {
		if !t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runHintsSeed(t, n) })
		}) {
			t.Fatalf("seed %d: run it alone: go test ./internal/sim -run 'TestHints/seed=%d$'", n, n)
		}
	}
}

// calmLane is the lane without faults.
const calmLane = "calm"

// maxHintDelay is how much longer a batch may wait if its hints are lost: for the scan of a Runner
// that is idle or just being restarted, and for the next read of the caller that awaits the batch.
const maxHintDelay = 20 * time.Second

func runHintsSeed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 15))
	k := ledgerKinds[seed%uint64(len(ledgerKinds))]
	faults := ledgerFaults(seed, k)
	ledger := ledgermem.New(&ledgermem.Options{
		Traits: &k.traits, IgnoreDuplicates: k.ignoresDuplicates, DeduplicateFor: k.dedupFor, CommitAfter: randomDuration(rng, time.Second),
		Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.Service == calmLane {
				return ledgermem.Fault{}
			}
			return faults.Fault(a)
		},
	})
	st := newFailingStore(t, seed)
	process := func() *dltbatch.Runner {
		r, err := dltbatch.New(st, ledger, &dltbatch.Options{
			RequestTimeout: requestTimeout, ClaimTTL: claimTTL, StuckAfter: 3 * time.Hour, Retry: dltbatch.RetryPolicy{MaxDelay: 4 * time.Second},
		})
		require.NoError(t, err)
		return r
	}
	all, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for i := range 3 {
		lives := rand.New(rand.NewPCG(seed, uint64(100+i)))
		running.Go(func() {
			for r := process(); all.Err() == nil; {
				ctx, end := context.WithTimeout(all, 2*time.Second+randomDuration(lives, 5*time.Minute))
				assert.NoError(t, runAgainOnFault(ctx, r))
				end()
				time.Sleep(randomDuration(lives, 2*time.Second)) // all three are down only seldom, and not for long
			}
		})
	}

	adders := []*dltbatch.Runner{process(), process()}
	order := map[batch.ServiceID][]batch.ID{}
	var waiting sync.WaitGroup
	for i := range 12 + rng.IntN(20) {
		b := batch.Batch{ID: batch.ID(fmt.Sprintf("b%03d", i)), Service: batch.ServiceID(fmt.Sprint("s", i%3)), Payload: fmt.Appendf(nil, "batch %d", i)}
		st.addUntilStored(t, adders[i%2], b)
		order[b.Service] = append(order[b.Service], b.ID)
		waiting.Go(func() { requireAwaited(t, st, adders[(i+1)%2], ledger, b.Key()) })
		if rng.IntN(3) == 0 {
			require.NoError(t, st.hints.TellForged(t.Context(), i, b.Service))
		}
		time.Sleep(randomDuration(rng, 40*time.Second))
	}
	st.Faults.SetCalm(true)
	waiting.Wait()
	for i := range 5 {
		time.Sleep(randomDuration(rng, 3*time.Minute))
		b := batch.Batch{ID: batch.ID(fmt.Sprint("calm", i)), Service: calmLane, Payload: []byte("x")}
		began := time.Now()
		st.addUntilStored(t, adders[i%2], b)
		order[b.Service] = append(order[b.Service], b.ID)
		requireAwaited(t, st, adders[(i+1)%2], ledger, b.Key())
		require.LessOrEqual(t, time.Since(began), maxHintDelay, "a lost hint costs a scan's time")
	}
	if k.dedupFor == 0 {
		require.NoError(t, ledger.Verify(order), "promises 2 and 3")
	}
}

// requireAwaited waits for the end of a batch, and compares the answer with the ledger. After a
// fault of the store it waits again.
func requireAwaited(t *testing.T, st *failingStore, r *dltbatch.Runner, ledger *ledgermem.Ledger, key batch.Key) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
	defer cancel()
	for {
		rec, err := r.Await(ctx, key)
		if err != nil && ctx.Err() == nil && st.isInjectedFault(err) {
			continue
		}
		require.NoError(t, err, "promises 1 and 6")
		log := ledger.Log(key.Service)
		require.True(t, rec.Final(), "%s is %s", key, rec.State)
		require.Equal(t, slices.Contains(log, key.ID), rec.State == batch.Committed, "promise 10: %s is %s", key.ID, rec.State)
		return
	}
}

func randomDuration(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
