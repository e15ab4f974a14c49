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
	// isPruned is true if completions of the batch may have been pruned.
	isPruned bool
	// isUnclear is true if the last read found a completion that only an operator can judge.
	isUnclear bool
	// isDuplicate is true if a submission was refused as a duplicate of an accepted one.
	isDuplicate bool
	// lastFailure is the last completion without success, of the highest attempt.
	lastFailure completionVerdict
}

// batchTraces holds the traces of the last 50,000 to 100,000 batches in flight.
type batchTraces struct {
	mu               sync.Mutex
	newHalf, oldHalf map[batch.Key]batchTrace
}

func (t *batchTraces) get(k batch.Key) batchTrace {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x, ok := t.newHalf[k]; ok {
		return x
	}
	return t.oldHalf[k]
}

// update changes one trace under the lock.
func (t *batchTraces) update(k batch.Key, f func(*batchTrace)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, ok := t.newHalf[k]
	if !ok {
		x = t.oldHalf[k]
	}
	f(&x)
	if t.newHalf == nil || (!ok && len(t.newHalf) >= maxTraces) {
		t.oldHalf, t.newHalf = t.newHalf, make(map[batch.Key]batchTrace)
	}
	t.newHalf[k] = x
}

func (t *batchTraces) noteDuplicate(k batch.Key) {
	t.update(k, func(x *batchTrace) { x.isDuplicate = true })
}

func (t *batchTraces) forget(k batch.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.newHalf, k)
	delete(t.oldHalf, k)
}
