package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// TestKillPipelined kills children that let a lane's batches follow each other without
// waiting for commits, one a POST and in lists. Whatever a death leaves of a run, its
// lane is executed in order, each batch once. The node tells no false Invalid: what is
// committed after one comes behind others by that strategy's own promise.
func TestKillPipelined(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sawtooth", "sawtooth lists"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			node := sawtoothtest.Start(t, &sawtoothtest.Options{
				BlockInterval: 10 * time.Millisecond, CacheTime: 500 * time.Millisecond,
				Faults: &sawtoothtest.Faults{Seed: *crashSeed, ResetAfter: 0.03, Late: 0.02, LateBy: 100 * time.Millisecond},
			})
			key, err := sawtooth.GeneratePrivateKey()
			require.NoError(t, err)
			few := (*kills + 4) / 5
			const services = 2
			batches := make([]batch.Batch, 5*few*14)
			lane, order := map[batch.ID]string{}, map[string][]batch.ID{}
			for i := range batches {
				n := fmt.Sprint("lane", i%services)
				payload, address := sawtoothtest.Inc(n, 1)
				if i < services {
					payload, address = sawtoothtest.Set(n, 1)
				}
				batches[i], err = sawtooth.Build(key, batch.ServiceID(n), sawtooth.Transaction{
					FamilyName: "intkey", FamilyVersion: "1.0", Nonce: fmt.Sprint(i),
					Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
				})
				require.NoError(t, err)
				lane[batches[i].ID] = n
				order[n] = append(order[n], batches[i].ID)
			}
			suite := run(t, job{Kind: kind, URL: node.URL(), Pipelined: 6, Group: 4}, batches, few)

			require.NoError(t, node.Check(sawtoothtest.Expect{
				Lane: func(id batch.ID) string { return lane[id] }, Order: order, Slack: 20 * time.Millisecond,
			}))
			suite.checkRecords(t)
		})
	}
}
