package sawtooth_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

var crashSeeds = flag.Int("crashes.seeds", 6, "number of seeds of TestPipelinedHoldsBehindLostBatches")

// crashRun describes crashes of a node, with its REST API, while batches of one lane are under
// way.
type crashRun struct {
	maxInFlight, batchCount, batchesPerBlock int
	downtimeAfterCommits                     map[int]time.Duration // how long the node is down, by the number of commits before the crash
	usesEvents                               bool                  // the clients use the node's events
	runnerCount                              int                   // how many Runners work on one store
}

// run returns the chain, as the numbers of the batches in the order of their Add, and the reports
// of breaches of order.
func (c crashRun) run(t *testing.T) (chain []int, breaches []string) {
	node, err := sawtoothtest.Listen(&sawtoothtest.Options{InMemory: true, BlockInterval: 200 * time.Millisecond, MaxBatchesPerBlock: c.batchesPerBlock})
	require.NoError(t, err)
	t.Cleanup(node.Close)
	var names []string
	for i := range c.batchCount {
		names = append(names, fmt.Sprint("n", i))
	}
	all := laneOfBatches(t, names...)
	at := map[batch.ID]int{}
	for i, b := range all {
		at[b.ID] = i
	}
	var mu sync.Mutex
	finals := 0
	killed := make(chan time.Duration, len(c.downtimeAfterCommits))
	observe := batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case batch.EventFinal, batch.EventOrderBreach:
			if e.Kind == batch.EventOrderBreach {
				breaches = append(breaches, fmt.Sprintf("%d attempt %d: %v", at[e.Key.ID], e.Attempt, e.Err))
			}
			if e.State != batch.Committed {
				return
			}
			if finals++; c.downtimeAfterCommits[finals] > 0 {
				node.Stop()
				node.KillValidator()
				killed <- c.downtimeAfterCommits[finals]
			}
		}
	})
	st := memory.New()
	var runners []*dltbatch.Runner
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range c.runnerCount {
		client := newClient(t, "http://node", &sawtooth.Options{Client: node.Client(), SingleValidator: true, Grace: 5 * time.Second, NoEvents: !c.usesEvents})
		r, err := dltbatch.New(st, client, &dltbatch.Options{Strategy: queuer.Pipelined(c.maxInFlight), Observer: observe})
		require.NoError(t, err)
		running.Go(func() { assert.NoError(t, r.Run(ctx)) })
		runners = append(runners, r)
	}
	require.NoError(t, runners[0].Add(ctx, all...))
	for range c.downtimeAfterCommits {
		time.Sleep(<-killed)
		node.Restart() // the requests that wait in the REST API are lost, too
		require.NoError(t, node.Resume())
	}
	require.NoError(t, runners[0].Idle(ctx))
	for _, id := range node.Chain() {
		chain = append(chain, at[id])
	}
	cancel()
	running.Wait()
	return chain, breaches
}

// numbersUpTo returns the numbers from 0 to n-1.
func numbersUpTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// TestPipelinedHoldsBehindLostBatches shows that when a node loses accepted batches in a crash, no
// later batch overtakes them, and no breach of order is reported.
func TestPipelinedHoldsBehindLostBatches(t *testing.T) {
	tier.Plain(t)
	t.Run("one crash", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			chain, breaches := crashRun{maxInFlight: 8, batchCount: 60, batchesPerBlock: 4, downtimeAfterCommits: map[int]time.Duration{1: 300 * time.Millisecond}, usesEvents: true, runnerCount: 1}.run(t)
			assert.Equal(t, numbersUpTo(60), chain)
			assert.Empty(t, breaches)
		})
	})
	for seed := range uint64(*crashSeeds) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				c := crashRun{maxInFlight: 2 + r.IntN(20), batchCount: 60, batchesPerBlock: 1 + r.IntN(8), downtimeAfterCommits: map[int]time.Duration{}, usesEvents: r.IntN(2) == 0, runnerCount: 1 + r.IntN(2)}
				for range 1 + r.IntN(3) {
					c.downtimeAfterCommits[1+r.IntN(40)] = time.Duration(50+r.IntN(4000)) * time.Millisecond
				}
				chain, breaches := c.run(t)
				assert.Equal(t, numbersUpTo(60), chain, "%+v", c)
				assert.Empty(t, breaches, "%+v", c)
			})
		})
	}
}

// TestPipelinedHoldsWhatIsAddedLater shows that batches added after a crash of the node, while
// Grace lasts, wait for the batches that the node has lost, even if nothing was posted during the
// crash.
func TestPipelinedHoldsWhatIsAddedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := sawtoothtest.Listen(&sawtoothtest.Options{InMemory: true, BlockInterval: time.Second})
		require.NoError(t, err)
		t.Cleanup(node.Close)
		all := laneOfBatches(t, "a", "b", "c", "d")
		client := newClient(t, "http://node", &sawtooth.Options{Client: node.Client(), SingleValidator: true, Grace: 20 * time.Second})
		breaches := 0
		r, err := dltbatch.New(memory.New(), client, &dltbatch.Options{Strategy: queuer.Pipelined(8), Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventOrderBreach {
				breaches++
			}
		})})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		require.NoError(t, r.Add(ctx, all[:2]...))
		time.Sleep(500 * time.Millisecond)
		node.Restart()
		time.Sleep(5 * time.Second)
		require.NoError(t, r.Add(ctx, all[2:]...))
		require.NoError(t, r.Idle(ctx))
		cancel()
		require.NoError(t, <-done)
		assert.Equal(t, []batch.ID{all[0].ID, all[1].ID, all[2].ID, all[3].ID}, node.Chain())
		assert.Zero(t, breaches)
	})
}
