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
	seeds = flag.Int("sim.seeds", tier.Seeds(100, 1000), "seeds of layer one, divided among the ledgers")
	seed  = flag.Uint64("sim.seed", 0, "run this seed alone, and print its trace")
)

// simulate runs one seed and returns the world at rest.
func simulate(t *testing.T, n uint64, l *lanes) (w *world) {
	return simulateFor(t, n, l, 100*time.Hour, func(*world) {})
}

// simulateFor is simulate with more trouble, in a world that must be at rest in time.
func simulateFor(t *testing.T, n uint64, l *lanes, limit time.Duration, trouble func(*world)) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		k := scabbardKind
		if i := n % uint64(len(kinds)+1); i < uint64(len(kinds)) {
			k = kinds[i]
		}
		w = newWorld(t, k, l, n)
		w.populate()
		for i := range 1 + w.rng.IntN(3) {
			k := &worker{w: w, name: i}
			w.workers = append(w.workers, k)
			k.start()
		}
		if w.kind.scabbard {
			w.after(time.Minute, w.person)
		}
		if w.rng.IntN(2) == 0 {
			for range 1 + w.rng.IntN(4) {
				w.after(w.between(0, 90*time.Second), w.restart)
			}
		}
		w.after(w.between(time.Second, 20*time.Second), w.operate)
		w.after(w.between(10*time.Second, 3*time.Minute), func() {
			w.note("no more faults")
			w.faulty = false
			w.openAll()
		})
		trouble(w)
		w.run(limit)
		w.still = true
		w.check()
		if w.failure == nil {
			w.checkRest()
		}
	})
	return w
}

// restart makes the ledger forget everything except committed batches and requests on the
// wire.
func (w *world) restart() {
	w.note("ledger restarts")
	w.ledger.Restart()
	for _, s := range w.sent {
		s.inside = false
	}
}

// TestDecisions checks promises 1 to 6, 8 and 10 with every seed.
func TestDecisions(t *testing.T) {
	tier.Plain(t)
	decided, sent := decisions(t, *seeds, func(uint64) *lanes { return serialLanes() })
	t.Cleanup(func() {
		assert.LessOrEqual(t, decided.Load(), 20+sent.Load()/5, "evidence is found for most")
	})
}

// TestParallelDecisions does the same where every batch leaves at once that conflicts with no
// batch before it: conflicting batches never overtake each other, and no batch waits for a batch
// that it does not conflict with.
func TestParallelDecisions(t *testing.T) {
	tier.Plain(t)
	decisions(t, (*seeds+3)/4, parallelLanes)
}

// TestPipelinedDecisions does the same where several batches of a lane are under way, on
// ledgers that keep the order of submission, with duplicates and without: a batch overtakes
// only batches that the ledger had lost or decided against, and each such case is reported.
func TestPipelinedDecisions(t *testing.T) {
	tier.Plain(t)
	decisions(t, (*seeds+1)/2, pipelinedLanes)
}

// TestMixedDecisions does the same where every other claim is by Serial: it takes the first
// batch of a lane, even if another strategy had let it go before and it has come back.
func TestMixedDecisions(t *testing.T) {
	tier.Plain(t)
	decisions(t, (*seeds+3)/4, mixedLanes)
}

// decisions runs seeds, on all processors. The numbers are those of scabbard, and complete
// when the test's parts have ended.
func decisions(t *testing.T, seeds int, rule func(seed uint64) *lanes) (decided, sent *atomic.Int64) {
	decided, sent = new(atomic.Int64), new(atomic.Int64)
	if *seed != 0 {
		w := simulate(t, *seed, rule(*seed))
		t.Log("\n" + w.dump())
		require.NoError(t, w.failure)
		return decided, sent
	}
	start := time.Now()
	signed() // outside of every synctest bubble
	shards := uint64(runtime.GOMAXPROCS(0))
	for shard := range shards {
		t.Run(fmt.Sprint("shard=", shard), func(t *testing.T) {
			t.Parallel()
			for n := 1 + shard; n <= uint64(seeds); n += shards {
				w := simulate(t, n, rule(n))
				if w.kind.scabbard {
					decided.Add(int64(w.decided))
					sent.Add(int64(len(w.sent)))
				}
				if w.failure != nil {
					t.Log("\n" + w.dump())
					name, _, _ := strings.Cut(t.Name(), "/")
					t.Fatalf("seed %d, ledger %q: %v\nrun it alone: go test ./internal/sim -run %s$ -sim.seed=%d", n, w.kind.name, w.failure, name, n)
				}
			}
		})
	}
	t.Cleanup(func() {
		t.Logf("%d seeds in %s; a person decided %d of %d batches that were sent to scabbard", seeds, time.Since(start).Round(time.Millisecond), decided.Load(), sent.Load())
	})
	return decided, sent
}

// TestSameSeedSameTrace: one can run a failing seed again.
func TestSameSeedSameTrace(t *testing.T) {
	tier.Plain(t)
	for n := uint64(1); n <= 8; n++ {
		for _, rule := range []func(uint64) *lanes{func(uint64) *lanes { return serialLanes() }, parallelLanes, pipelinedLanes} {
			one, two := simulate(t, n, rule(n)), simulate(t, n, rule(n))
			require.NotEmpty(t, one.trace)
			require.Equal(t, one.trace, two.trace, "seed %d", n)
		}
	}
}
