package queuertest_test

import (
	"testing"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/queuer/queuertest"
)

// The whole suite in one test, for a strategy that sends the first batch of a lane and no other.
func ExampleRun() { //nolint:testableexamples // it wants a test
	var t *testing.T // of func TestStrategy(t *testing.T)
	first := func(lane batch.Lane) []batch.Run {
		if len(lane.Batches) > 0 && lane.Batches[0].Ready {
			return []batch.Run{{0}}
		}
		return nil
	}
	queuertest.Run(t, func() queuer.Strategy {
		return queuer.Strategy{Name: "first", Window: 1, Select: first}
	}, nil)
}
