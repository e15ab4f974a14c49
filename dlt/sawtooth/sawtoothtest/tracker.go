package sawtoothtest

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// The words of a status answer (docs/ledgers/sawtooth.md#statuses).
const (
	Committed = "COMMITTED"
	Invalid   = "INVALID"
	Pending   = "PENDING"
	Unknown   = "UNKNOWN"
)

// invalidTx is a transaction that a processor refused, with its message.
type invalidTx struct {
	id      string
	message string
	data    []byte
}

// statusTracker is the memory that status queries use. A restart loses it.
type statusTracker struct {
	chain           *chain
	keepTime        time.Duration
	invalid         *timedCache[[]invalidTx]
	pending         map[batch.ID]struct{}
	learnedAt       map[batch.ID]time.Time // when the batch's transactions became known
	learnedPurgedAt time.Time
	batchesByTx     map[string][]batch.ID // batches with a transaction, in the order in which they became known
}

func newTracker(now time.Time, c *chain, keep time.Duration) *statusTracker {
	return &statusTracker{
		chain:           c,
		keepTime:        keep,
		invalid:         newTimedCache[[]invalidTx](now, keep, keep/20, true),
		pending:         map[batch.ID]struct{}{},
		learnedAt:       map[batch.ID]time.Time{},
		learnedPurgedAt: now,
		batchesByTx:     map[string][]batch.ID{},
	}
}

// queryStatus looks first in the chain, then among the invalid batches, and then among the pending
// ones. A query about an invalid batch renews the memory of it
// (docs/ledgers/sawtooth.md#statuses).
func (t *statusTracker) queryStatus(now time.Time, id batch.ID) (string, []invalidTx) {
	if _, ok := t.chain.batches[id]; ok {
		return Committed, nil
	}
	if info, ok := t.invalid.get(now, string(id)); ok {
		return Invalid, info
	}
	if _, ok := t.pending[id]; ok {
		return Pending, nil
	}
	return Unknown, nil
}

// peekStatus returns the status as queryStatus does, and renews nothing.
func (t *statusTracker) peekStatus(now time.Time, id batch.ID) string {
	if _, ok := t.chain.batches[id]; ok {
		return Committed
	}
	if _, ok := t.invalid.peek(now, string(id)); ok {
		return Invalid
	}
	if _, ok := t.pending[id]; ok {
		return Pending
	}
	return Unknown
}

func (t *statusTracker) notePending(now time.Time, b *submittedBatch) {
	t.pending[b.id] = struct{}{}
	t.noteTransactions(now, b)
}

// noteTransactions notes the transactions of a batch.
func (t *statusTracker) noteTransactions(now time.Time, b *submittedBatch) {
	t.purge(now)
	if _, known := t.learnedAt[b.id]; !known {
		for _, tx := range b.txs {
			if !slices.Contains(t.batchesByTx[tx.id], b.id) {
				t.batchesByTx[tx.id] = append(t.batchesByTx[tx.id], b.id)
			}
		}
	}
	t.learnedAt[b.id] = now
}

// noteInvalid notes that a transaction is invalid. It finds only the first batch with the
// transaction (docs/ledgers/sawtooth.md#pending-for-ever, P6), and only while the batch's
// transactions are remembered (docs/ledgers/sawtooth.md#pending-for-ever, P4). It returns the
// batch that is now INVALID, or "".
func (t *statusTracker) noteInvalid(now time.Time, tx invalidTx) batch.ID {
	for _, id := range t.batchesByTx[tx.id] {
		since, ok := t.learnedAt[id]
		if !ok || now.Sub(since) >= t.keepTime {
			continue
		}
		old, _ := t.invalid.get(now, string(id))
		t.invalid.put(now, string(id), append(slices.Clone(old), tx))
		delete(t.pending, id)
		return id
	}
	return ""
}

func (t *statusTracker) noteCommitted(b *submittedBatch) { delete(t.pending, b.id) }

func (t *statusTracker) purge(now time.Time) {
	if now.Sub(t.learnedPurgedAt) <= t.keepTime/20 {
		return
	}
	t.learnedPurgedAt = now
	for id, since := range t.learnedAt {
		if now.Sub(since) >= t.keepTime {
			delete(t.learnedAt, id)
		}
	}
	for tx, ids := range t.batchesByTx {
		ids = slices.DeleteFunc(ids, func(id batch.ID) bool { _, ok := t.learnedAt[id]; return !ok })
		if len(ids) == 0 {
			delete(t.batchesByTx, tx)
		} else {
			t.batchesByTx[tx] = ids
		}
	}
}
