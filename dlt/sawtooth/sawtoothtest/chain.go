package sawtoothtest

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Change is one step in the history of a name.
type Change struct {
	Batch       batch.ID
	Transaction string
	Verb        string // "set", "inc" or "dec"
	Name        string
	By          int64
	Value       int64 // the value after this step
	Block       int   // number of the block; 0 is the genesis block
}

// chain is the part of a validator that survives a restart.
type chain struct {
	blocks  []block // the first one is the genesis block, number 0
	batches map[batch.ID]*committedBatch
	txs     map[string]*committedTx
	state   map[string]string
	history map[string][]Change

	// receipts has every transaction that was ever committed
	// (docs/ledgers/sawtooth.md#receipts-and-lookups).
	receipts  map[string]*committedTx
	forkCount int

	notices       []blockNotice // all notices to subscribers so far
	lastAnnounced string        // the number of the last announced block
	areEventsLost bool          // true if no more blocks are announced
	headAtBreak   *block        // the head when the events stopped; nil if they have not
}

type block struct {
	number     int
	id         string
	previousID string
	madeAt     time.Time
	batches    []*submittedBatch
}

type committedBatch struct {
	batch *submittedBatch
	block int
}

type committedTx struct {
	tx     submittedTx
	writes []stateWrite
}

type stateWrite struct{ address, value string }

func newChain(now time.Time) *chain {
	genesis := sha512.Sum512([]byte("genesis"))
	return &chain{
		blocks:  []block{{id: hex.EncodeToString(genesis[:]), previousID: "0000000000000000", madeAt: now}},
		batches: map[batch.ID]*committedBatch{},
		txs:     map[string]*committedTx{},
		state:   map[string]string{},
		history: map[string][]Change{},

		receipts: map[string]*committedTx{}, lastAnnounced: "0",
	}
}

func (c *chain) head() string {
	return c.blocks[len(c.blocks)-1].id
}

// commit appends a block. None of its batches or transactions may be in the chain already.
func (c *chain) commit(at time.Time, done []*execution) int {
	b := block{number: len(c.blocks), previousID: c.head(), madeAt: at}
	h := sha512.New()
	fmt.Fprintf(h, "%s %d %d", b.previousID, b.number, c.forkCount)
	for _, e := range done {
		fmt.Fprintf(h, " %s", e.batch.id)
		b.batches = append(b.batches, e.batch)
		c.batches[e.batch.id] = &committedBatch{batch: e.batch, block: b.number}
		for i, tx := range e.batch.txs {
			c.txs[tx.id] = &committedTx{tx: tx, writes: e.writes[i]}
			c.receipts[tx.id] = c.txs[tx.id]
			for _, w := range e.writes[i] {
				c.state[w.address] = w.value
			}
		}
		for _, ch := range e.changes {
			ch.Block = b.number
			c.history[ch.Name] = append(c.history[ch.Name], ch)
		}
	}
	b.id = hex.EncodeToString(h.Sum(nil))
	c.blocks = append(c.blocks, b)
	c.announce(b)
	return b.number
}

// txAccess is the state as one transaction sees it: the transaction's inputs and outputs limit
// what it can read and write (docs/ledgers/sawtooth.md#addresses-and-conflicts).
type txAccess struct {
	readBase        func(address string) string
	inputs, outputs []string
	writes          []stateWrite
}

func (a *txAccess) get(address string) (string, error) {
	if !isCovered(a.inputs, address) {
		return "", newProcessorError("", "not authorized to read %s", address) // as seen on a real node: id and message alone
	}
	for _, w := range slices.Backward(a.writes) {
		if w.address == address {
			return w.value, nil
		}
	}
	return a.readBase(address), nil
}

func (a *txAccess) set(address, value string) error {
	if !isCovered(a.outputs, address) {
		return newProcessorError("", "not authorized to write %s", address) // as seen on a real node: id and message alone
	}
	a.writes = append(a.writes, stateWrite{address, value})
	return nil
}

func isCovered(prefixes []string, address string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(address, p) {
			return true
		}
	}
	return false
}

// areWellFormed reports whether inputs or outputs follow the rule: lower-case hex digits, an even
// number of them, at most 70. A client gets no error for others
// (docs/ledgers/sawtooth.md#pending-for-ever, P3).
func areWellFormed(prefixes []string) bool {
	for _, p := range prefixes {
		if len(p)%2 != 0 || len(p) > 70 || strings.Trim(p, "0123456789abcdef") != "" {
			return false
		}
	}
	return true
}

// batchesConflict reports whether the order of execution of two batches can matter
// (docs/ledgers/sawtooth.md#addresses-and-conflicts).
func batchesConflict(a, b *submittedBatch) bool {
	for _, x := range a.txs {
		for _, y := range b.txs {
			if transactionsConflict(x, y) {
				return true
			}
		}
	}
	return false
}

func transactionsConflict(x, y submittedTx) bool {
	return prefixesOverlap(x.header.GetOutputs(), y.header.GetOutputs()) ||
		prefixesOverlap(x.header.GetOutputs(), y.header.GetInputs()) ||
		prefixesOverlap(x.header.GetInputs(), y.header.GetOutputs())
}

func prefixesOverlap(xs, ys []string) bool {
	for _, x := range xs {
		for _, y := range ys {
			if strings.HasPrefix(x, y) || strings.HasPrefix(y, x) {
				return true
			}
		}
	}
	return false
}
