package evm_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/evm"
)

// followedChain is a node whose blocks follow one another and have lists of transactions.
type followedChain struct {
	*scriptedNode
	t      *testing.T
	client *evm.Client
	batch  batch.Batch
	head   uint64
	// txLists has the blocks' lists of transactions by height, nil for a block without a list.
	// fork reports whether the block at a height was replaced, or is built on one that was.
	txLists  map[uint64]any
	isForked func(uint64) bool
	// receipt and next are answers of the node. pooled is true if the transaction is in the pool.
	receipt   any
	nextNonce string
	isPooled  bool
	// The numbers of questions since the last ask.
	receiptQuestions, lookupQuestions, blockQuestions int
}

func (f *followedChain) hashAt(n uint64) string {
	if n > 0 && f.isForked != nil && f.isForked(n) {
		return fmt.Sprintf("0x%064x", 0xf0f0000+n)
	}
	return blockAt(n)["hash"].(string)
}

func newFollowedChain(t *testing.T, grace time.Duration) *followedChain {
	s, url := newScriptedNode(t)
	f := &followedChain{scriptedNode: s, t: t, batch: signedBatch(nil), head: 100, txLists: map[uint64]any{}, nextNonce: "0x1", isPooled: true}
	s.setAnswer("eth_getTransactionReceipt", func([]any) (any, string) { f.receiptQuestions++; return f.receipt, "" })
	s.setAnswer("eth_getTransactionByHash", func([]any) (any, string) {
		if f.lookupQuestions++; !f.isPooled {
			return nil, ""
		}
		return map[string]any{"hash": string(f.batch.ID), "blockHash": nil, "nonce": "0x0", "maxFeePerGas": "0x4a817c800"}, ""
	})
	s.setAnswer("eth_getTransactionCount", func([]any) (any, string) { return f.nextNonce, "" })
	s.setAnswer("eth_getBlockByNumber", func(params []any) (any, string) {
		n := f.head
		if tag := params[0].(string); tag != "latest" {
			_, err := fmt.Sscanf(tag, "0x%x", &n)
			require.NoError(t, err)
			f.blockQuestions += map[bool]int{true: 1}[n > 0]
		}
		if n > f.head {
			return nil, ""
		}
		block := blockAt(n)
		block["hash"] = f.hashAt(n)
		if n > 0 {
			block["parentHash"] = f.hashAt(n - 1)
		}
		if list, there := f.txLists[n]; there {
			block["transactions"] = list
		}
		return block, ""
	})
	f.client = newTestClient(t, url, &evm.Options{Finality: evm.After(10), Grace: grace})
	return f
}

func (f *followedChain) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// requireStatus asks for the status once, and compares the status and the numbers of questions:
// for receipts, for the transaction, and for blocks.
func (f *followedChain) requireStatus(want batch.Reported, receipts, known, blocks int) {
	f.t.Helper()
	f.change(func() { f.receiptQuestions, f.lookupQuestions, f.blockQuestions = 0, 0, 0 })
	assert.Equal(f.t, want, reportedBy(f.t, f.client, f.batch))
	f.change(func() {
		assert.Equal(f.t, [3]int{receipts, known, blocks}, [3]int{f.receiptQuestions, f.lookupQuestions, f.blockQuestions}, "receipts, transactions and blocks that were asked for")
	})
}

// A transaction in the pool is not asked for again until a block lists it. Blocks that were not
// read are asked for, and a listed transaction is asked for by its receipt.
func TestABlockIsReadForAll(t *testing.T) {
	f := newFollowedChain(t, time.Minute)
	f.requireStatus(batch.ReportedPending, 1, 1, 0)
	f.requireStatus(batch.ReportedPending, 0, 0, 0)
	f.change(func() { f.head = 101 })
	f.requireStatus(batch.ReportedPending, 0, 0, 0)
	f.change(func() { f.head = 104 })
	f.requireStatus(batch.ReportedPending, 0, 0, 2)
	f.change(func() {
		f.head, f.txLists[105], f.receipt = 106, []any{foreignHash, string(f.batch.ID)}, receiptIn(f.batch.ID, 105, nil)
	})
	f.requireStatus(batch.ReportedValid, 1, 0, 1)
	f.requireStatus(batch.ReportedValid, 0, 0, 0)
	f.change(func() { f.head = 107 })
	f.requireStatus(batch.ReportedValid, 0, 0, 0)
	f.change(func() { f.head = 115 })
	f.requireStatus(batch.ReportedCommitted, 0, 0, 9) // the blocks between the receipt's block and the head, which link them
	f.requireStatus(batch.ReportedCommitted, 1, 0, 0)
	f.change(func() { f.head = 116 })
	f.requireStatus(batch.ReportedCommitted, 1, 0, 0) // all of these blocks are remembered
}

// The client's memory of a pool and of lists makes no batch final, and is not used where it does
// not fit the answers.
func TestMemoryOfThePoolEndsNothing(t *testing.T) {
	const grace = 10 * time.Second // a sighting counts for a second
	for name, play := range map[string]func(f *followedChain){
		"a block was replaced": func(f *followedChain) {
			f.isForked = func(n uint64) bool { return n >= 100 }
			f.isPooled = false
			f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
		},
		"blocks were replaced": func(f *followedChain) {
			f.isForked = func(n uint64) bool { return n >= 99 }
			f.head, f.isPooled = 101, false
			f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
		},
		"the node lost its last block": func(f *followedChain) {
			f.head, f.isPooled = 99, false
			f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
		},
		"a block has no list": func(f *followedChain) {
			f.txLists[101], f.head, f.isPooled = nil, 101, false
			f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
		},
		"a block has a list of no hashes": func(f *followedChain) {
			f.txLists[101], f.head, f.isPooled = []any{"0x1"}, 101, false
			f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
		},
		"too many blocks were not read": func(f *followedChain) {
			f.head, f.isPooled = 200, false
			f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
		},
		"a list leaves it out": func(f *followedChain) {
			f.head, f.receipt = 101, receiptIn(f.batch.ID, 101, nil)
			f.requireStatus(batch.ReportedPending, 0, 0, 0)
			time.Sleep(grace / 10)
			f.requireStatus(batch.ReportedValid, 1, 0, 0)
		},
		"a pool forgets it": func(f *followedChain) {
			f.isPooled = false
			f.requireStatus(batch.ReportedPending, 0, 0, 0)
			time.Sleep(grace / 10)
			f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
		},
		"listed, and no receipt": func(f *followedChain) {
			f.head, f.txLists[101] = 101, []any{string(f.batch.ID)}
			f.requireStatus(0, 1, 0, 0)
			f.requireStatus(batch.ReportedPending, 1, 1, 0)
		},
		"listed, and the receipt is of another block": func(f *followedChain) {
			f.head, f.txLists[101], f.receipt = 111, []any{string(f.batch.ID)}, receiptIn(f.batch.ID, 101, map[string]any{"blockHash": foreignHash})
			f.requireStatus(0, 1, 0, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowedChain(t, grace)
			f.requireStatus(batch.ReportedPending, 1, 1, 0)
			play(f)
		})
	}
}

// A node may show a transaction in its pool although its last block has it already.
func TestThePoolShowsWhatTheLastBlockHas(t *testing.T) {
	f := newFollowedChain(t, time.Minute)
	f.change(func() { f.txLists[100] = []any{string(f.batch.ID)} })
	f.requireStatus(batch.ReportedPending, 1, 1, 0)
	f.change(func() { f.receipt = receiptIn(f.batch.ID, 100, nil) })
	f.requireStatus(batch.ReportedValid, 1, 0, 0)
}

// A transaction that waits behind a gap, or that the node holds back, is asked about each time,
// since the reason may be gone.
func TestWhatThePoolCannotMineIsAskedAboutEachTime(t *testing.T) {
	f := newFollowedChain(t, time.Minute)
	f.change(func() { f.nextNonce = "0x0" })
	f.requireStatus(batch.ReportedPending, 1, 1, 0)
	f.requireStatus(batch.ReportedPending, 1, 1, 0)
}

// A node that has just accepted a transaction has it in its pool. "Already known" says less: the
// node may have executed the transaction long ago.
func TestAnAcceptedTransactionCountsAsPooled(t *testing.T) {
	f := newFollowedChain(t, time.Minute)
	f.change(func() { f.isPooled = false })
	f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
	f.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return nil, "already known" })
	require.ErrorIs(t, f.client.Submit(t.Context(), attempt(f.batch, 1)), dlt.ErrDoubt, "the node shows no such transaction")
	f.requireStatus(batch.ReportedUnknown, 1, 1, 0)
	f.setAnswer("eth_sendRawTransaction", func([]any) (any, string) { return string(f.batch.ID), "" })
	require.NoError(t, f.client.Submit(t.Context(), attempt(f.batch, 1)))
	f.requireStatus(batch.ReportedPending, 0, 0, 0)
}
