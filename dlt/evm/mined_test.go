package evm_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/evm"
)

// While its block is not deep, a receipt is asked for once. After that only the block is asked
// for, and another block at its height makes the receipt void.
func TestAReceiptIsAskedForOnce(t *testing.T) {
	s, url := newScriptedNode(t)
	b := signedBatch(nil)
	head, receipts, fork := uint64(100), 0, map[uint64]string{}
	var mined any = receiptIn(b.ID, 95, nil)
	s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) { receipts++; return mined, "" })
	s.setAnswer("eth_getBlockByNumber", scriptedBlocks(&head, fork))
	c := newTestClient(t, url, &evm.Options{Finality: evm.After(10)})
	ask := func(want batch.Reported, asked int) {
		t.Helper()
		got, err := c.BatchStatuses(t.Context(), b.Service, []batch.Attempt{{Key: b.Key()}})
		require.NoError(t, err)
		assert.Equal(t, asked, receipts, "questions for the receipt")
		if want == 0 {
			assert.Empty(t, got)
			return
		}
		require.Len(t, got, 1)
		assert.Equal(t, want, got[0].Reported)
		if want == batch.ReportedCommitted {
			r, err := evm.ReadReceipt(got[0].Receipts[0])
			require.NoError(t, err)
			assert.EqualValues(t, 95, r.Block)
		}
	}
	set := func(f func()) { s.mu.Lock(); defer s.mu.Unlock(); f() }

	ask(batch.ReportedValid, 1)
	ask(batch.ReportedValid, 1)
	set(func() { head = 94 }) // the node was killed, or is behind
	ask(0, 1)
	set(func() { head, fork[95] = 104, foreignHash }) // another block at the height, whose receipts come late
	ask(batch.ReportedValid, 2)
	ask(0, 2)
	set(func() { mined = nil })
	ask(batch.ReportedUnknown, 3)
	set(func() { mined = receiptIn(b.ID, 95, map[string]any{"blockHash": foreignHash}) })
	ask(batch.ReportedValid, 4)
	ask(batch.ReportedValid, 4)
	set(func() { head = 105 })
	ask(batch.ReportedCommitted, 4)
	ask(batch.ReportedCommitted, 5) // asked for again, as for a commit that may vanish
}
