package sawtoothtest

import (
	"errors"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/simnode"
)

// execution is a batch that was executed successfully.
type execution struct {
	batch   *submittedBatch
	writes  [][]stateWrite // writes of each transaction
	changes []Change
}

// blockCandidate is a block while it is made.
type blockCandidate struct {
	validator *validator
	startedAt time.Time
	txResults map[string]txResult // by the ids of all scheduled transactions
	state     map[string]string
	executed  []*execution
	failed    []failedBatch
}

// failedBatch is a batch that was executed and failed, with the processor's messages.
type failedBatch struct {
	batch      *submittedBatch
	runCount   int
	invalidTxs []invalidTx
}

// txResult is the result of a scheduled transaction.
type txResult uint8

const (
	txValid txResult = iota + 1
	txInvalid
)

// makeBlock executes the batches of the pool in order, and commits the successful ones as one
// block.
func (v *validator) makeBlock(now time.Time) {
	if v.isHalted(now) {
		return
	}
	c := &blockCandidate{validator: v, startedAt: now, txResults: map[string]txResult{}, state: map[string]string{}}
	v.reorderPool()
	before := len(v.pool)
	kept := make([]*pooledBatch, 0, len(v.pool))
	for i, p := range v.pool {
		if v.options.MaxBatchesPerBlock > 0 && len(c.executed) >= v.options.MaxBatchesPerBlock {
			kept = append(kept, v.pool[i:]...)
			break
		}
		if p.notBefore.After(now) {
			kept = append(kept, p)
			continue
		}
		if c.schedule(p) {
			kept = append(kept, p)
		} else {
			delete(v.inPool, p.batch.id)
		}
	}
	v.pool = kept
	if len(c.executed) == 0 {
		v.failedBatches = append(v.failedBatches, c.failed...)
		return
	}
	c.rerunFailed()
	num := v.chain.commit(now, c.executed)
	ids := make([]batch.ID, len(c.executed))
	for i, e := range c.executed {
		ids[i] = e.batch.id
		v.tracker.noteCommitted(e.batch)
	}
	v.limit.update(before, len(c.executed))
	v.journal.add(Entry{Time: now, Kind: BlockCommitted, Batches: ids, Block: num})
}

// reorderPool moves batches ahead of others with which they do not conflict, by inputs and
// outputs or by dependencies.
func (v *validator) reorderPool() {
	f := v.options.Faults
	if f == nil || f.Overtake == 0 {
		return
	}
	for i := range v.pool {
		id := v.pool[i].batch.id
		for j := i; j > 0; j-- {
			d := simnode.Draw{Seed: f.Seed, Subject: string(id), Try: i - j, Salt: "overtake"}
			a, b := v.pool[j-1].batch, v.pool[j].batch
			if d.Float("") >= f.Overtake || batchesConflict(a, b) || dependsOnBatch(b, a) {
				break
			}
			v.pool[j-1], v.pool[j] = v.pool[j], v.pool[j-1]
		}
	}
}

// dependsOnBatch reports whether a transaction of b depends on one of a.
func dependsOnBatch(b, a *submittedBatch) bool {
	for _, x := range b.txs {
		for _, y := range a.txs {
			if slices.Contains(x.header.GetDependencies(), y.id) {
				return true
			}
		}
	}
	return false
}

// schedule checks one batch as the candidate and the scheduler of a real node do. It reports
// whether the batch stays in the pool.
func (c *blockCandidate) schedule(p *pooledBatch) (stays bool) {
	b := p.batch
	if _, done := c.validator.chain.batches[b.id]; done {
		return false
	}
	// The transaction is in the chain, or in this block, through another batch
	// (docs/ledgers/sawtooth.md#pending-for-ever, P2).
	for _, tx := range b.txs {
		if c.hasTransaction(tx.id) {
			c.validator.drop(c.startedAt, b, "P2: transaction is in another batch")
			return false
		}
	}
	if !c.hasDependencies(b) {
		c.validator.drop(c.startedAt, b, "P1: dependency is not committed")
		return false
	}
	for _, tx := range b.txs {
		for _, d := range tx.header.GetDependencies() {
			if c.txResults[d] == txInvalid {
				c.setResults(b, txInvalid)
				c.validator.drop(c.startedAt, b, "P1: dependency failed in the same block")
				return false
			}
		}
	}
	for _, tx := range b.txs {
		if !areWellFormed(tx.header.GetInputs()) || !areWellFormed(tx.header.GetOutputs()) {
			c.setResults(b, txInvalid)
			c.validator.drop(c.startedAt, b, "P3: malformed inputs or outputs")
			return false
		}
	}
	return c.execute(p)
}

func (c *blockCandidate) setResults(b *submittedBatch, f txResult) {
	for _, tx := range b.txs {
		c.txResults[tx.id] = f
	}
}

// hasTransaction reports whether a transaction is in the chain or in this candidate.
func (c *blockCandidate) hasTransaction(tx string) bool {
	if _, ok := c.validator.chain.txs[tx]; ok {
		return true
	}
	_, ok := c.txResults[tx]
	return ok
}

// hasDependencies makes the third check of docs/ledgers/sawtooth.md#dependencies. In this
// check a transaction may depend on an earlier one of the same batch.
func (c *blockCandidate) hasDependencies(b *submittedBatch) bool {
	own := map[string]struct{}{}
	for _, tx := range b.txs {
		for _, d := range tx.header.GetDependencies() {
			if _, ok := own[d]; !ok && !c.hasTransaction(d) {
				return false
			}
		}
		own[tx.id] = struct{}{}
	}
	return true
}

// rerunFailed executes once more the batches that have failed since the last block, and then they
// are forgotten. A real node listed the failed transaction of such a batch three times: once when
// it failed, and twice at the next block.
func (c *blockCandidate) rerunFailed() {
	for _, f := range c.validator.failedBatches {
		if _, anew := c.txResults[f.invalidTxs[0].id]; anew {
			continue // the batch was sent again, and this block executed it
		}
		for range 2 {
			f.runCount++
			c.noteInvalid(f)
		}
	}
	c.validator.failedBatches = nil
}

// noteInvalid records a failed batch with each of its invalid transactions.
func (c *blockCandidate) noteInvalid(f failedBatch) {
	c.validator.journal.add(Entry{Time: c.startedAt, Kind: Executed, Batches: []batch.ID{f.batch.id}, Try: f.runCount, Word: Invalid})
	for _, bad := range f.invalidTxs {
		if id := c.validator.tracker.noteInvalid(c.startedAt, bad); id != "" {
			c.validator.journal.add(Entry{Time: c.startedAt, Kind: BatchInvalid, Batches: []batch.ID{id}, Word: bad.message})
		}
	}
}

// execute runs the transactions of a batch. It reports whether the batch stays in the pool to be
// run again.
func (c *blockCandidate) execute(p *pooledBatch) (stays bool) {
	b := p.batch
	p.runCount++
	e, bad := c.runBatch(b)
	if len(bad) == 0 && p.fault.FalseInvalid && p.runCount == 1 && len(b.txs) > 0 {
		bad = []invalidTx{{id: b.txs[0].id, message: "executed on another head"}}
	}
	if len(bad) == 0 {
		c.validator.journal.add(Entry{Time: c.startedAt, Kind: Executed, Batches: []batch.ID{b.id}, Try: p.runCount, Word: Committed})
		c.setResults(b, txValid)
		for _, ws := range e.writes {
			for _, w := range ws {
				c.state[w.address] = w.value
			}
		}
		c.executed = append(c.executed, e)
		return false
	}
	c.setResults(b, txInvalid)
	f := failedBatch{batch: b, runCount: p.runCount, invalidTxs: bad}
	c.noteInvalid(f)
	if p.fault.Reexecute || (p.fault.FalseInvalid && p.runCount == 1) {
		p.notBefore = c.startedAt.Add(c.validator.options.ReexecuteAfter)
		return true
	}
	c.failed = append(c.failed, f)
	return false
}

// runBatch executes a batch, and returns all transactions that failed. Once one has failed, it
// does not execute a transaction that must wait for an earlier one of the batch.
func (c *blockCandidate) runBatch(b *submittedBatch) (*execution, []invalidTx) {
	e := &execution{batch: b, writes: make([][]stateWrite, len(b.txs))}
	own := map[string]string{}
	base := func(address string) string {
		for _, m := range [...]map[string]string{own, c.state, c.validator.chain.state} {
			if s, ok := m[address]; ok {
				return s
			}
		}
		return ""
	}
	var bad []invalidTx
	for i, tx := range b.txs {
		if len(bad) > 0 && slices.ContainsFunc(b.txs[:i], func(earlier submittedTx) bool { return transactionsConflict(earlier, tx) }) {
			continue
		}
		a := &txAccess{readBase: base, inputs: tx.header.GetInputs(), outputs: tx.header.GetOutputs()}
		ch, err := applyPayload(tx.raw.GetPayload(), a)
		if err != nil {
			x := invalidTx{id: tx.id, message: err.Error()}
			if r, ok := errors.AsType[*processorError](err); ok {
				x.data = r.data
			}
			bad = append(bad, x)
			continue
		}
		ch.Batch, ch.Transaction = b.id, tx.id
		e.changes = append(e.changes, ch)
		e.writes[i] = a.writes
		for _, w := range a.writes {
			own[w.address] = w.value
		}
	}
	return e, bad
}
