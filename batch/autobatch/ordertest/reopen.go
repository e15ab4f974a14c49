package ordertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func reopenTests() []test {
	return []test{{name: "everything is there again", run: reopenKeeps, exempt: func(h Harness) bool { return h.Volatile }}}
}

func reopenKeeps(f *fixture) {
	party, _ := f.oneOfEach()
	f.finish(newBatch(party, "open"), store.Refused)
	was, batches, loads := f.list(party), f.settleable(), f.parties()
	f.store = f.harness.Reopen(f.T)
	assert.Equal(f, was, f.list(party))
	assert.Equal(f, batches, f.settleable())
	assert.Equal(f, partyNames(loads), partyNames(f.parties()))
	f.refuse(newBatch(party, "next"), refsOf(f.nextOrders(party, 9)))
	require.True(f, f.settle(settlement(batches, order.Verdict{State: order.Queued, Group: "g"})))
	assert.Equal(f, refIDs(batches.Orders), queuedIDs(f.nextOrders(party, 9)))
}
