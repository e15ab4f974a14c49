package queuertest_test

import (
	"fmt"
	"testing"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/queuer/queuertest"
)

func TestSerial(t *testing.T) {
	queuertest.Run(t, func() queuer.Strategy { return queuer.Serial() }, nil)
}

func TestParallel(t *testing.T) {
	queuertest.Run(t, func() queuer.Strategy { return queuer.Parallel(0) }, nil)
}

// The suite passes with a window that is smaller than the lane.
func TestParallelNarrow(t *testing.T) {
	queuertest.Run(t, func() queuer.Strategy { return queuer.Parallel(3) }, nil)
}

func TestPipelined(t *testing.T) {
	for _, n := range []int{1, 2, 5, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			queuertest.Run(t, func() queuer.Strategy { return queuer.Pipelined(n) }, nil)
		})
	}
}

// A strategy may send conflicting batches in one run, too: the run is posted in order, and
// stops at its first failure.
func TestRuns(t *testing.T) {
	queuertest.Run(t, func() queuer.Strategy {
		return brokenStrategy(5, func(l batch.Lane) []batch.Run {
			var run batch.Run
			for p, b := range l.Batches {
				if !b.State.Claimable() {
					return nil
				}
				if b.Ready && len(run) == p {
					run = append(run, p)
				}
			}
			if run == nil {
				return nil
			}
			return []batch.Run{run}
		})
	}, nil)
}
