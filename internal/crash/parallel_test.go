package crash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// TestKillParallel kills children whose strategy lets every batch of a lane leave at once that
// conflicts with no batch before it. The batches of one name are executed once and in their order.
// Different names are executed in any order, since the node lets a batch overtake others that it
// does not conflict with.
func TestKillParallel(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	node := sawtoothtest.Start(t, &sawtoothtest.Options{
		BlockInterval: 10 * time.Millisecond, CacheTime: 500 * time.Millisecond,
		Faults: &sawtoothtest.Faults{
			Seed: *crashSeed, ResetAfter: 0.05, Late: 0.05, MaxLateDelay: 100 * time.Millisecond, FalseInvalid: 0.03, Overtake: 0.5,
		},
	})
	few := (*killsPerWindow + 2) / 3
	batches, want := countingBatches(t, 5*few*5, laneCount, "all")
	suite := killChildren(t, childJob{Kind: "sawtooth", URL: node.URL(), Parallel: true}, batches, few)

	require.NoError(t, node.Check(want))
	suite.checkRecords(t)
	var added []batch.ID
	for _, b := range batches {
		added = append(added, b.ID)
	}
	if len(added) < 100 {
		return // a few batches may be executed in order by chance
	}
	assert.NotEqual(t, added, node.Chain(), "the lane was executed in another order than it was added in")
}
