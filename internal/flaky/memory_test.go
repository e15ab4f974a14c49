package flaky_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/store/memory"
)

// measureBatches measures the latencies on a memory store on which one call in every fails. If
// every is 0, none fails.
func measureBatches(t *testing.T, seed uint64, every int, l flaky.Load) (took flaky.Latencies, f *flaky.Faults) {
	synctest.Test(t, func(t *testing.T) {
		f = flaky.New(seed, max(1, every))
		s := &flaky.Store{Store: memory.New(), Faults: flaky.New(seed, 1)} // these faults stay calm
		if every > 0 {
			s.Faults = f
		}
		took = l.Run(t, s, f, nil)
	})
	return took, f
}

// The library retries a failed call by itself, after a short pause. If one call of the store in
// ten fails, half of them with a lost answer, the p99 of the latency is at most a second longer.
func TestOneCallInTenFails(t *testing.T) {
	load := flaky.Load{Lanes: 10, MeanPause: time.Second, Duration: 2 * time.Minute}
	calm, _ := measureBatches(t, 1, 0, load)
	t.Logf("no faults: %s", calm)
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			took, f := measureBatches(t, seed, 10, load)
			t.Logf("%s\n%s", took, f)
			assert.LessOrEqual(t, took.Quantile(0.99)-calm.Quantile(0.99), time.Second, "p99")
			assert.LessOrEqual(t, took.Quantile(1)-calm.Quantile(1), 10*time.Second, "worst")
			assert.Greater(t, f.LostAnswers("Claim"), 100)
		})
	}
}
