package dltbatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// On a ledger that accepts lists, a run needs few requests, and an invalid batch in a list is
// found.
func TestPipelinedGoesInLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.MaxList = 5
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: time.Second})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(20)})
		var batches []batch.Batch
		var good []batch.ID
		for i := range 20 {
			b := newBatch("s", batch.ID(fmt.Sprintf("%02d", i)))
			if i == 7 {
				b.Payload = []byte("reject it")
			} else {
				good = append(good, b.ID)
			}
			batches = append(batches, b)
		}
		require.NoError(t, r.Add(t.Context(), batches...))
		keepRunning(t, r)
		waitIdle(t, r)
		assert.Equal(t, good, ledger.Log("s"))
		assert.Equal(t, batch.Rejected, awaitFinal(t, r, batches[7]).State)
		lists := map[int]int{}
		for _, e := range ledger.Journal() {
			if e.Kind == ledgermem.PostEnd && e.Err == nil {
				lists[e.List]++
			}
		}
		assert.Equal(t, map[int]int{0: 2, 2: 2, 5: 15}, lists, "accepted, by the length of the list: 00-04, 05, 06 alone, and 08-19 as they come")
	})
}
