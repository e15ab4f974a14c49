package sawtoothtest

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// completer remembers accepted batches, so that the same bytes are ignored when they come again
// (docs/ledgers/sawtooth.md#the-same-bytes-again). Batches with unknown dependencies wait in it
// (docs/ledgers/sawtooth.md#dependencies).
type completer struct {
	chain            *chain
	parkTime         time.Duration
	acceptedBatches  *timedCache[struct{}] // by batch id
	seenTransactions *timedCache[struct{}] // by transaction id
	waitingBatches   []*waitingBatch       // sorted by arrival
}

type waitingBatch struct {
	batch     *submittedBatch
	renewedAt time.Time
}

func newCompleter(now time.Time, c *chain, o *Options) *completer {
	return &completer{
		chain:            c,
		parkTime:         o.ParkTime,
		acceptedBatches:  newTimedCache[struct{}](now, o.CacheTime, o.CacheTime/40, o.LazyPurge),
		seenTransactions: newTimedCache[struct{}](now, o.CacheTime, o.CacheTime/40, o.LazyPurge),
	}
}

// wasAccepted reports whether the batch was accepted recently. Each call makes the node remember
// the batch for another CacheTime.
func (c *completer) wasAccepted(now time.Time, id batch.ID) bool {
	_, ok := c.acceptedBatches.get(now, string(id))
	return ok
}

// add returns the batches that can go on: b, unless it must wait for dependencies, and the batches
// that have waited for b.
func (c *completer) add(now time.Time, b *submittedBatch) (ready []*submittedBatch) {
	c.waitingBatches = slices.DeleteFunc(c.waitingBatches, func(p *waitingBatch) bool { return now.Sub(p.renewedAt) >= c.parkTime })
	if !c.hasDependencies(now, b) {
		c.addWaiting(now, b)
		return nil
	}
	for next := []*submittedBatch{b}; len(next) > 0; next = next[1:] {
		b := next[0]
		if c.wasAccepted(now, b.id) {
			continue // posted again while it waited
		}
		ready = append(ready, b)
		c.acceptedBatches.put(now, string(b.id), struct{}{})
		for _, tx := range b.txs {
			c.seenTransactions.put(now, tx.id, struct{}{})
		}
		c.waitingBatches = slices.DeleteFunc(c.waitingBatches, func(p *waitingBatch) bool {
			if !c.hasDependencies(now, p.batch) {
				return false
			}
			next = append(next, p.batch)
			return true
		})
	}
	return ready
}

// hasDependencies reports whether every dependency was seen or is committed. A transaction of the
// same batch does not count as seen, so a dependency on it is never satisfied
// (docs/ledgers/sawtooth.md#dependencies).
func (c *completer) hasDependencies(now time.Time, b *submittedBatch) bool {
	for _, tx := range b.txs {
		for _, d := range tx.header.GetDependencies() {
			if _, ok := c.chain.txs[d]; ok {
				continue
			}
			if _, ok := c.seenTransactions.get(now, d); !ok {
				return false
			}
		}
	}
	return true
}

func (c *completer) addWaiting(now time.Time, b *submittedBatch) {
	for _, p := range c.waitingBatches {
		if p.batch.id == b.id {
			p.renewedAt = now
			return
		}
	}
	c.waitingBatches = append(c.waitingBatches, &waitingBatch{batch: b, renewedAt: now})
}
