package ordertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store"
)

func reopenTests() []test {
	return []test{{name: "everything is there again", run: reopenKeeps, not: func(h Harness) bool { return h.Volatile }}}
}

func reopenKeeps(f *fixture) {
	party, _ := f.oneOfEach()
	f.end(bt(party, "open"), store.Refused)
	was, batches, loads := f.list(party), f.settleable(), f.parties()
	f.st = f.h.Reopen(f.T)
	assert.Equal(f, was, f.list(party))
	assert.Equal(f, batches, f.settleable())
	assert.Equal(f, partyNames(loads), partyNames(f.parties()))
	f.refuse(bt(party, "next"), refs(f.next(party, 9)))
	require.True(f, f.settle(settlement(batches, order.Verdict{State: order.Queued, Group: "g"})))
	assert.Equal(f, refIDs(batches.Orders), queuedIDs(f.next(party, 9)))
}
