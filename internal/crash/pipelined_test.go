package crash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// TestKillPipelined kills children that post a lane's batches without waiting for commits, with
// one batch in a POST and with several. Whatever part of a run a killed child leaves, its lane is
// executed in order, each batch once. The node gives no false Invalid: by the promise of this
// strategy, a batch that is committed after such an answer comes behind others.
func TestKillPipelined(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for _, kind := range []string{"sawtooth", "sawtooth lists"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			node := sawtoothtest.Start(t, &sawtoothtest.Options{
				BlockInterval: 10 * time.Millisecond, CacheTime: 500 * time.Millisecond,
				Faults: &sawtoothtest.Faults{Seed: *crashSeed, ResetAfter: 0.03, Late: 0.02, MaxLateDelay: 100 * time.Millisecond},
			})
			few := (*killsPerWindow + 4) / 5
			batches, want := countingBatches(t, 5*few*14, 2, "")
			suite := killChildren(t, childJob{Kind: kind, URL: node.URL(), Pipelined: 6, BatchesPerCall: 4}, batches, few)

			require.NoError(t, node.Check(want))
			suite.checkRecords(t)
		})
	}
}
