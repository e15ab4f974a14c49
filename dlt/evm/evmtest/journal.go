package evmtest

import (
	"math/big"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/dlt/evm/internal/evmtx"
)

// Kind says what happened to a transaction or to the node.
type Kind string

// The kinds.
const (
	Accepted Kind = "accepted" // the node accepted a transaction; Text says if it forgot it, or keeps it for later
	Refused  Kind = "refused"  // the node refused a transaction; Text is the [Refusal]
	Mined    Kind = "mined"    // the transaction is in a block
	Unmined  Kind = "unmined"  // the transaction's block is no longer a part of the chain
	Ended    Kind = "ended"    // the node ended, by Stop, Kill or Close
)

// Entry is a line of a node's journal. A field that does not apply to its Kind is zero.
type Entry struct {
	Time  time.Time
	Kind  Kind
	Hash  string
	From  string
	Nonce uint64
	Block uint64 // number of the block
	Text  string
}

func (n *Node) addEntry(e Entry) { n.journal = append(n.journal, e) }

// Journal returns everything that happened so far, in order.
func (n *Node) Journal() []Entry {
	var out []Entry
	n.withLock(func(time.Time) { out = slices.Clone(n.journal) })
	return out
}

// Block is a block of the chain as it is now.
type Block struct {
	Number       uint64
	Hash, Parent string
	Time         time.Time
	BaseFee      *big.Int
	Transactions []Transaction
}

// Transaction is a transaction in a block.
type Transaction struct {
	Hash, From, To string // To is "" where it creates a contract
	Nonce          uint64
	Value          *big.Int
	Data           []byte
	OK             bool // false where it reverted, and only its gas was paid
	GasUsed        uint64
}

// Blocks returns the chain, from the genesis block to the head.
func (n *Node) Blocks() []Block {
	var out []Block
	n.withLock(func(time.Time) {
		for _, b := range n.chain.blocks {
			x := Block{Number: b.number, Hash: b.hash.String(), Parent: b.parent.String(), Time: b.time, BaseFee: b.baseFee}
			for _, m := range b.txs {
				t := Transaction{Hash: m.hash.String(), From: m.from.String(), Nonce: m.Nonce, Value: m.Value, Data: m.Data, OK: m.succeeded, GasUsed: m.gasUsed}
				if m.To != nil {
					t.To = m.To.String()
				}
				x.Transactions = append(x.Transactions, t)
			}
			out = append(out, x)
		}
	})
	return out
}

// Nonce returns the next nonce of an account at the head, and the nonce after all transactions
// that the pool counts as mineable. It panics if address is not an address.
func (n *Node) Nonce(address string) (latest, pending uint64) {
	a, err := evmtx.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	n.withLock(func(time.Time) {
		latest = n.chain.accountNow(a).nonce
		pending = n.pool.pendingNonce(a, latest)
	})
	return latest, pending
}

// Pool returns how many transactions of the pool can be mined now, and how many wait for an
// earlier nonce.
func (n *Node) Pool() (pending, queued int) {
	n.withLock(func(time.Time) { pending, queued = n.pool.counts(n.chain) })
	return pending, queued
}
