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

// calls measures the latency on a memory store where one call in every fails; with every 0
// none fails.
func calls(t *testing.T, seed uint64, every int, l flaky.Load) (took flaky.Latencies, f *flaky.Faults) {
	synctest.Test(t, func(t *testing.T) {
		f = flaky.New(seed, max(1, every))
		s := &flaky.Store{Store: memory.New(), Faults: flaky.New(seed, 1)} // which stays calm
		if every > 0 {
			s.Faults = f
		}
		took = l.Run(t, s, f, nil)
	})
	return took, f
}

// The library retries a failed call by itself, after a short wait: where one call in ten of
// the store fails, half of them with their answers lost, the p99 of a batch is at most a
// second more.
func TestOneCallInTenFails(t *testing.T) {
	load := flaky.Load{Lanes: 10, Pause: time.Second, For: 2 * time.Minute}
	calm, _ := calls(t, 1, 0, load)
	t.Logf("no faults: %s", calm)
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			took, f := calls(t, seed, 10, load)
			t.Logf("%s\n%s", took, f)
			assert.LessOrEqual(t, took.At(0.99)-calm.At(0.99), time.Second, "p99")
			assert.LessOrEqual(t, took.At(1)-calm.At(1), 10*time.Second, "worst")
			assert.Greater(t, f.Lost("Claim"), 100)
		})
	}
}
