package canton

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// maxTraces bounds each of the two halves of the memory.
const maxTraces = 50_000

// trace is what this process has read about a batch. It saves reading again, and
// nothing hangs on it: what is forgotten is read from where the batch began.
type trace struct {
	read bool
	// after is the offset up to which all completions of the batch were looked at.
	after int64
	// bounded says that it was not read from before its first attempt.
	bounded bool
	// duplicate says that a submission was refused as a duplicate of an accepted one.
	duplicate bool
	// last is the last completion that was no success, of the highest attempt.
	last verdict
}

// traces holds those of the last 50,000 to 100,000 batches that are under way.
type traces struct {
	mu       sync.Mutex
	new, old map[batch.Key]trace
}

func (t *traces) get(k batch.Key) trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x, ok := t.new[k]; ok {
		return x
	}
	return t.old[k]
}

// update changes one under the lock.
func (t *traces) update(k batch.Key, f func(*trace)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, ok := t.new[k]
	if !ok {
		x = t.old[k]
	}
	f(&x)
	if t.new == nil || (!ok && len(t.new) >= maxTraces) {
		t.old, t.new = t.new, make(map[batch.Key]trace)
	}
	t.new[k] = x
}

func (t *traces) duplicate(k batch.Key) { t.update(k, func(x *trace) { x.duplicate = true }) }

func (t *traces) forget(k batch.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.new, k)
	delete(t.old, k)
}
