package canton

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// maxTraces is the limit of each of the two halves of the memory.
const maxTraces = 50_000

// batchTrace is everything that this process has read about a batch. It only saves reading again.
// When it is forgotten, the client reads from the batch's beginning.
type batchTrace struct {
	wasRead bool
	// readUpTo is the offset up to which all completions of the batch were read.
	readUpTo int64
	// mayHaveEarlier is true if reading did not start before the first attempt.
	mayHaveEarlier bool
	// pruned is true if completions of the batch may have been pruned.
	pruned bool
	// unclear is true if the last read found a completion that only an operator can judge.
	unclear bool
	// duplicate is true if a submission was refused as a duplicate of an accepted one.
	duplicate bool
	// lastFailure is the last completion without success, of the highest attempt.
	lastFailure verdict
}

// batchTraces holds the traces of the last 50,000 to 100,000 batches in flight.
type batchTraces struct {
	mu       sync.Mutex
	new, old map[batch.Key]batchTrace
}

func (t *batchTraces) get(k batch.Key) batchTrace {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x, ok := t.new[k]; ok {
		return x
	}
	return t.old[k]
}

// update changes one trace under the lock.
func (t *batchTraces) update(k batch.Key, f func(*batchTrace)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, ok := t.new[k]
	if !ok {
		x = t.old[k]
	}
	f(&x)
	if t.new == nil || (!ok && len(t.new) >= maxTraces) {
		t.old, t.new = t.new, make(map[batch.Key]batchTrace)
	}
	t.new[k] = x
}

func (t *batchTraces) noteDuplicate(k batch.Key) {
	t.update(k, func(x *batchTrace) { x.duplicate = true })
}

func (t *batchTraces) forget(k batch.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.new, k)
	delete(t.old, k)
}
