package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// TestClockSteps runs the seeds with a database whose clock steps by a minute, a week or a year,
// forwards or back, and may be put right later. No batch is executed twice or out of order, and no
// batch waits because of the step: the world is at rest within a day.
func TestClockSteps(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	for n := uint64(1); n <= uint64(*seedCount); n++ {
		if *onlySeed != 0 {
			n = *onlySeed
		}
		w := runSeedWith(t, n, serialLanes(), 24*time.Hour, func(w *world) { w.stepClock(rand.New(rand.NewPCG(n, 17))) })
		if w.failure != nil || *onlySeed != 0 {
			t.Log("\n" + w.traceText())
		}
		if w.failure != nil {
			t.Fatalf("seed %d, ledger %q: %v\nrun it alone: go test ./internal/sim -run TestClockSteps$ -sim.seed=%d", n, w.ledgerKind.name, w.failure, n)
		}
		if *onlySeed != 0 {
			return
		}
	}
}

// stepClock lets the clock step a few times in the first two minutes.
func (w *world) stepClock(rng *rand.Rand) {
	w.clockHasStepped, w.noRestBefore = true, time.Now().Add(5*time.Minute) // the step may call a person too early
	sizes := [...]time.Duration{time.Minute, 7 * 24 * time.Hour, 365 * 24 * time.Hour}
	for range 1 + rng.IntN(3) {
		by := sizes[rng.IntN(len(sizes))]
		if rng.IntN(3) == 0 {
			by = -by
		}
		at := time.Duration(rng.Int64N(int64(time.Minute)))
		step := func(by time.Duration) func() {
			return func() {
				w.addTrace("the database's clock steps by %s", by)
				w.store.StepClock(by)
			}
		}
		w.scheduleAfter(at, step(by))
		if rng.IntN(3) != 0 {
			w.scheduleAfter(at+time.Duration(rng.Int64N(int64(time.Minute))), step(-by))
		}
	}
}
