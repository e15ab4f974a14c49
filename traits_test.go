package dltbatch_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A client is asked for the traits of a service once in a Run. A client that routes to several
// ledgers is asked again before each claim, POST and status query, because a route may have
// changed.
func TestTraitsAreAskedOnceAService(t *testing.T) {
	const services, each = 10, 20
	for routed, most := range map[bool]int64{false: services, true: 13 * services * each} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			ledger := changeTraits(ledgermem.New(&ledgermem.Options{CommitAfter: time.Second}), func(_ batch.ServiceID, t *dlt.Traits) {
				asked.Add(1)
				t.Routed = routed
			})
			r := newStartedRunner(t, memory.New(), ledger, nil)
			time.Sleep(time.Second)
			before := asked.Load()
			for i := range services * each {
				require.NoError(t, r.Add(t.Context(), newBatch(batch.ServiceID(fmt.Sprint("s", i%services)), batch.ID(fmt.Sprint("b", i)))))
			}
			waitIdle(t, r)
			assert.LessOrEqual(t, asked.Load()-before, most, "calls for %d batches of %d services, routed: %t", services*each, services, routed)
		})
	}
}
