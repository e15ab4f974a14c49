package crash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// TestKillPipelined kills children that let a lane's batches follow each other without
// waiting for commits, one a POST and in lists. However much of a run a death leaves, its
// lane is executed in order, each batch once. The node answers no false Invalid: a batch that
// is committed after such an answer comes behind others, by that strategy's own promise.
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
			few := (*kills + 4) / 5
			batches, want := counting(t, 5*few*14, 2, "")
			suite := run(t, job{Kind: kind, URL: node.URL(), Pipelined: 6, Group: 4}, batches, few)

			require.NoError(t, node.Check(want))
			suite.checkRecords(t)
		})
	}
}
