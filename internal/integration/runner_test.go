package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
)

// Two Runners on one schema, as in two instances, deliver everything once and in order to a ledger
// that executes a batch each time it is sent.
func TestTwoRunners(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq, pooledSimple, pqBouncer} {
		t.Run(d.name, func(t *testing.T) {
			const lanes, each = 11, 8 // odd, so that the batches of each lane go through both Runners in turns
			traits := memory.Unforgiving(10 * time.Millisecond)
			ledger := memory.New(&memory.Options{Traits: &traits, CommitAfter: 5 * time.Millisecond})
			var all []batch.Batch
			want, sent := map[batch.ServiceID][]batch.ID{}, map[batch.ServiceID][]batch.ID{}
			for i := range each {
				for l := range lanes {
					b := newBatch(fmt.Sprintf("lane%d", l), fmt.Sprintf("%d/%d", each-i, l))
					all, want[b.Service] = append(all, b), append(want[b.Service], b.ID)
				}
			}
			deliverByTwoRunners(t, d.inRace(), ledger, queuer.Serial(), all)
			for _, e := range ledger.Journal() {
				if e.Kind == memory.PostStart {
					sent[e.Key.Service] = append(sent[e.Key.Service], e.Key.ID)
				}
			}
			assert.Equal(t, want, sent)
		})
	}
}
