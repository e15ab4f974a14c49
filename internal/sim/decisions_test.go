package sim

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/tier"
)

var (
	seedCount = flag.Int("sim.seeds", tier.Seeds(100, 1000), "seeds of layer one, divided among the ledgers")
	onlySeed  = flag.Uint64("sim.seed", 0, "run this seed alone, and print its trace")
)

// runSeed runs one seed and returns the world at rest.
func runSeed(t *testing.T, n uint64, l *laneSetup) (w *world) {
	return runSeedWith(t, n, l, 100*time.Hour, func(*world) {})
}

// runSeedWith is runSeed with more trouble, in a world that must be at rest within limit.
func runSeedWith(t *testing.T, n uint64, l *laneSetup, limit time.Duration, trouble func(*world)) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		k := scabbardKind
		if i := n % uint64(len(ledgerKinds)+1); i < uint64(len(ledgerKinds)) {
			k = ledgerKinds[i]
		}
		w = newWorld(t, k, l, n)
		w.scheduleAdds()
		for i := range 1 + w.rng.IntN(3) {
			k := &worker{world: w, number: i}
			w.workers = append(w.workers, k)
			k.start()
		}
		if w.ledgerKind.isScabbard {
			w.scheduleAfter(time.Minute, w.personRound)
		}
		if w.rng.IntN(2) == 0 {
			for range 1 + w.rng.IntN(4) {
				w.scheduleAfter(w.between(0, 90*time.Second), w.restartLedger)
			}
		}
		w.scheduleAfter(w.between(time.Second, 20*time.Second), w.operatorRound)
		w.scheduleAfter(w.between(10*time.Second, 3*time.Minute), func() {
			w.addTrace("no more faults")
			w.faultsHappen = false
			w.resumeAndReleaseAll()
		})
		trouble(w)
		w.runUntilRest(limit)
		w.isAtRest = true
		w.checkLog()
		if w.failure == nil {
			w.checkRest()
		}
	})
	return w
}

// restartLedger makes the ledger forget everything except committed batches and requests that are
// on the wire.
func (w *world) restartLedger() {
	w.addTrace("ledger restarts")
	w.ledger.Restart()
	for _, s := range w.postsByBatch {
		s.reachedLedger = false
	}
}

// TestDecisions checks promises 1 to 6, 8 and 10 with every seed.
func TestDecisions(t *testing.T) {
	tier.Plain(t)
	decided, sent := runDecisionSeeds(t, *seedCount, func(uint64) *laneSetup { return serialLanes() })
	t.Cleanup(func() {
		assert.LessOrEqual(t, decided.Load(), 20+sent.Load()/5, "evidence is found for most")
	})
}

// TestParallelDecisions does the same with a strategy by which every batch leaves at once that
// conflicts with no batch before it. Conflicting batches never overtake each other, and no batch
// waits for a batch that it does not conflict with.
func TestParallelDecisions(t *testing.T) {
	tier.Plain(t)
	runDecisionSeeds(t, (*seedCount+3)/4, parallelLanes)
}

// TestPipelinedDecisions does the same with several batches of a lane under way, on ledgers that
// keep the order of submission, with duplicates and without. A batch overtakes only batches that
// the ledger had lost or decided against, and each such case is reported.
func TestPipelinedDecisions(t *testing.T) {
	tier.Plain(t)
	runDecisionSeeds(t, (*seedCount+1)/2, pipelinedLanes)
}

// TestMixedDecisions does as TestParallelDecisions, but a random half of the claims use Serial.
// Serial takes the first batch of a lane, even one that the parallel strategy has already sent and
// that waits again.
func TestMixedDecisions(t *testing.T) {
	tier.Plain(t)
	runDecisionSeeds(t, (*seedCount+3)/4, mixedLanes)
}

// runDecisionSeeds runs seeds, on all processors. The returned numbers are those of scabbard, and
// are complete when the subtests have ended.
func runDecisionSeeds(t *testing.T, seeds int, rule func(seed uint64) *laneSetup) (decided, sent *atomic.Int64) {
	decided, sent = new(atomic.Int64), new(atomic.Int64)
	if *onlySeed != 0 {
		w := runSeed(t, *onlySeed, rule(*onlySeed))
		t.Log("\n" + w.traceText())
		require.NoError(t, w.failure)
		return decided, sent
	}
	start := time.Now()
	signedOnce() // made outside of every synctest bubble
	shards := uint64(runtime.GOMAXPROCS(0))
	for shard := range shards {
		t.Run(fmt.Sprint("shard=", shard), func(t *testing.T) {
			t.Parallel()
			for n := 1 + shard; n <= uint64(seeds); n += shards {
				w := runSeed(t, n, rule(n))
				if w.ledgerKind.isScabbard {
					decided.Add(int64(w.decisionCount))
					sent.Add(int64(len(w.postsByBatch)))
				}
				if w.failure != nil {
					t.Log("\n" + w.traceText())
					name, _, _ := strings.Cut(t.Name(), "/")
					t.Fatalf("seed %d, ledger %q: %v\nrun it alone: go test ./internal/sim -run %s$ -sim.seed=%d", n, w.ledgerKind.name, w.failure, name, n)
				}
			}
		})
	}
	t.Cleanup(func() {
		t.Logf("%d seeds in %s; a person decided %d of %d batches that were sent to scabbard", seeds, time.Since(start).Round(time.Millisecond), decided.Load(), sent.Load())
	})
	return decided, sent
}

// TestSameSeedSameTrace: a seed gives the same trace in each run, so that a failing seed can be
// run again.
func TestSameSeedSameTrace(t *testing.T) {
	tier.Plain(t)
	for n := uint64(1); n <= 8; n++ {
		for _, rule := range []func(uint64) *laneSetup{func(uint64) *laneSetup { return serialLanes() }, parallelLanes, pipelinedLanes} {
			one, two := runSeed(t, n, rule(n)), runSeed(t, n, rule(n))
			require.NotEmpty(t, one.trace)
			require.Equal(t, one.trace, two.trace, "seed %d", n)
		}
	}
}
