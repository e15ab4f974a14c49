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

// following is a node whose blocks follow one another and have lists of transactions.
type following struct {
	*script
	t    *testing.T
	c    *evm.Client
	b    batch.Batch
	head uint64
	// lists has the blocks' lists of transactions by height, nil for a block without a list. fork
	// reports whether the block at a height was replaced, or is built on one that was.
	lists map[uint64]any
	fork  func(uint64) bool
	// receipt and next are answers of the node. pooled is true if the transaction is in the pool.
	receipt any
	next    string
	pooled  bool
	// The numbers of questions since the last ask.
	receipts, known, blocks int
}

func (f *following) hash(n uint64) string {
	if n > 0 && f.fork != nil && f.fork(n) {
		return fmt.Sprintf("0x%064x", 0xf0f0000+n)
	}
	return blockAt(n)["hash"].(string)
}

func newFollowing(t *testing.T, grace time.Duration) *following {
	s, url := newScript(t)
	f := &following{script: s, t: t, b: signed(nil), head: 100, lists: map[uint64]any{}, next: "0x1", pooled: true}
	s.on("eth_getTransactionReceipt", func([]any) (any, string) { f.receipts++; return f.receipt, "" })
	s.on("eth_getTransactionByHash", func([]any) (any, string) {
		if f.known++; !f.pooled {
			return nil, ""
		}
		return map[string]any{"hash": string(f.b.ID), "blockHash": nil, "nonce": "0x0", "maxFeePerGas": "0x4a817c800"}, ""
	})
	s.on("eth_getTransactionCount", func([]any) (any, string) { return f.next, "" })
	s.on("eth_getBlockByNumber", func(params []any) (any, string) {
		n := f.head
		if tag := params[0].(string); tag != "latest" {
			_, err := fmt.Sscanf(tag, "0x%x", &n)
			require.NoError(t, err)
			f.blocks += map[bool]int{true: 1}[n > 0]
		}
		if n > f.head {
			return nil, ""
		}
		block := blockAt(n)
		block["hash"] = f.hash(n)
		if n > 0 {
			block["parentHash"] = f.hash(n - 1)
		}
		if list, there := f.lists[n]; there {
			block["transactions"] = list
		}
		return block, ""
	})
	f.c = newClient(t, url, &evm.Options{Finality: evm.After(10), Grace: grace})
	return f
}

func (f *following) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// ask asks for the status once, and compares the status and the numbers of questions: for
// receipts, for the transaction, and for blocks.
func (f *following) ask(want batch.Reported, receipts, known, blocks int) {
	f.t.Helper()
	f.set(func() { f.receipts, f.known, f.blocks = 0, 0, 0 })
	assert.Equal(f.t, want, reported(f.t, f.c, f.b))
	f.set(func() {
		assert.Equal(f.t, [3]int{receipts, known, blocks}, [3]int{f.receipts, f.known, f.blocks}, "receipts, transactions and blocks that were asked for")
	})
}

// A transaction in the pool is not asked for again until a block lists it. Blocks that were not
// read are asked for, and a listed transaction is asked for by its receipt.
func TestABlockIsReadForAll(t *testing.T) {
	f := newFollowing(t, time.Minute)
	f.ask(batch.ReportedPending, 1, 1, 0)
	f.ask(batch.ReportedPending, 0, 0, 0)
	f.set(func() { f.head = 101 })
	f.ask(batch.ReportedPending, 0, 0, 0)
	f.set(func() { f.head = 104 })
	f.ask(batch.ReportedPending, 0, 0, 2)
	f.set(func() {
		f.head, f.lists[105], f.receipt = 106, []any{someone, string(f.b.ID)}, receiptIn(f.b.ID, 105, nil)
	})
	f.ask(batch.ReportedValid, 1, 0, 1)
	f.ask(batch.ReportedValid, 0, 0, 0)
	f.set(func() { f.head = 107 })
	f.ask(batch.ReportedValid, 0, 0, 0)
	f.set(func() { f.head = 115 })
	f.ask(batch.ReportedCommitted, 0, 0, 9) // the blocks between the receipt's block and the head, which link them
	f.ask(batch.ReportedCommitted, 1, 0, 0)
	f.set(func() { f.head = 116 })
	f.ask(batch.ReportedCommitted, 1, 0, 0) // all of these blocks are remembered
}

// The client's memory of a pool and of lists makes no batch final, and is not used where it does
// not fit the answers.
func TestAWordOfThePool(t *testing.T) {
	const grace = 10 * time.Second // a sighting counts for a second
	for name, play := range map[string]func(f *following){
		"a block was replaced": func(f *following) {
			f.fork = func(n uint64) bool { return n >= 100 }
			f.pooled = false
			f.ask(batch.ReportedUnknown, 1, 1, 0)
		},
		"blocks were replaced": func(f *following) {
			f.fork = func(n uint64) bool { return n >= 99 }
			f.head, f.pooled = 101, false
			f.ask(batch.ReportedUnknown, 1, 1, 0)
		},
		"the node lost its last block": func(f *following) {
			f.head, f.pooled = 99, false
			f.ask(batch.ReportedUnknown, 1, 1, 0)
		},
		"a block has no list": func(f *following) {
			f.lists[101], f.head, f.pooled = nil, 101, false
			f.ask(batch.ReportedUnknown, 1, 1, 0)
		},
		"a block has a list of no hashes": func(f *following) {
			f.lists[101], f.head, f.pooled = []any{"0x1"}, 101, false
			f.ask(batch.ReportedUnknown, 1, 1, 0)
		},
		"too many blocks were not read": func(f *following) {
			f.head, f.pooled = 200, false
			f.ask(batch.ReportedUnknown, 1, 1, 0)
		},
		"a list leaves it out": func(f *following) {
			f.head, f.receipt = 101, receiptIn(f.b.ID, 101, nil)
			f.ask(batch.ReportedPending, 0, 0, 0)
			time.Sleep(grace / 10)
			f.ask(batch.ReportedValid, 1, 0, 0)
		},
		"a pool forgets it": func(f *following) {
			f.pooled = false
			f.ask(batch.ReportedPending, 0, 0, 0)
			time.Sleep(grace / 10)
			f.ask(batch.ReportedUnknown, 1, 1, 0)
		},
		"listed, and no receipt": func(f *following) {
			f.head, f.lists[101] = 101, []any{string(f.b.ID)}
			f.ask(0, 1, 0, 0)
			f.ask(batch.ReportedPending, 1, 1, 0)
		},
		"listed, and the receipt is of another block": func(f *following) {
			f.head, f.lists[101], f.receipt = 111, []any{string(f.b.ID)}, receiptIn(f.b.ID, 101, map[string]any{"blockHash": someone})
			f.ask(0, 1, 0, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollowing(t, grace)
			f.ask(batch.ReportedPending, 1, 1, 0)
			play(f)
		})
	}
}

// A node may show a transaction in its pool although its last block has it already.
func TestThePoolShowsWhatTheLastBlockHas(t *testing.T) {
	f := newFollowing(t, time.Minute)
	f.set(func() { f.lists[100] = []any{string(f.b.ID)} })
	f.ask(batch.ReportedPending, 1, 1, 0)
	f.set(func() { f.receipt = receiptIn(f.b.ID, 100, nil) })
	f.ask(batch.ReportedValid, 1, 0, 0)
}

// A transaction that waits behind a gap, or that the node holds back, is asked about each time,
// since the reason may be gone.
func TestWhatThePoolCannotMineIsAskedAboutEachTime(t *testing.T) {
	f := newFollowing(t, time.Minute)
	f.set(func() { f.next = "0x0" })
	f.ask(batch.ReportedPending, 1, 1, 0)
	f.ask(batch.ReportedPending, 1, 1, 0)
}

// A node that has just accepted a transaction has it in its pool. "Already known" says less: the
// node may have executed the transaction long ago.
func TestAnAcceptanceIsAWordOfThePool(t *testing.T) {
	f := newFollowing(t, time.Minute)
	f.set(func() { f.pooled = false })
	f.ask(batch.ReportedUnknown, 1, 1, 0)
	f.on("eth_sendRawTransaction", func([]any) (any, string) { return nil, "already known" })
	require.ErrorIs(t, f.c.Submit(t.Context(), attempt(f.b, 1)), dlt.ErrDoubt, "the node shows no such transaction")
	f.ask(batch.ReportedUnknown, 1, 1, 0)
	f.on("eth_sendRawTransaction", func([]any) (any, string) { return string(f.b.ID), "" })
	require.NoError(t, f.c.Submit(t.Context(), attempt(f.b, 1)))
	f.ask(batch.ReportedPending, 0, 0, 0)
}
