package canton

import (
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// maxTraces bounds each of the two halves of the memory.
const maxTraces = 50_000

// trace is everything that this process has read about a batch. It saves reading again;
// nothing else depends on it. After it is forgotten the client reads from the batch's
// beginning.
type trace struct {
	read bool
	// after is the offset up to which all completions of the batch were read.
	after int64
	// bounded means that reading did not start before the first attempt.
	bounded bool
	// lost means that completions of the batch may have been pruned.
	lost bool
	// unclear means that the last read found what only an operator can judge.
	unclear bool
	// duplicate means that a submission was refused as a duplicate of an accepted one.
	duplicate bool
	// last is the last completion that was no success, of the highest attempt.
	last verdict
}

// traces holds the traces of the last 50,000 to 100,000 batches in flight.
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

// update changes one trace under the lock.
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
