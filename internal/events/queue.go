package events

import (
	"context"
	"sync"
)

// queue holds values for a receiver that may be slow, and never makes their sender wait. It
// delivers them one after the other, in their order, on a goroutine that exists only while there
// are values. A value that finds the queue full is lost. All methods may be called concurrently.
type queue[T any] struct {
	deliver  func(T)
	capacity int

	mu        sync.Mutex
	values    []T
	isRunning bool
	lostCount uint64
	emptied   chan struct{} // closed when the last value was delivered; nil if nothing waits for that
}

// newQueue returns an empty queue. It holds at most `most` values, in addition to the one that is
// being delivered.
func newQueue[T any](most int, deliver func(T)) *queue[T] {
	return &queue[T]{deliver: deliver, capacity: most}
}

// put queues a value. It returns false if the value was lost.
func (q *queue[T]) put(v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.values) >= q.capacity {
		q.lostCount++
		return false
	}
	q.values = append(q.values, v)
	if !q.isRunning {
		q.isRunning = true
		go q.run()
	}
	return true
}

func (q *queue[T]) run() {
	over := false
	defer func() {
		if !over { // the receiver has ended its goroutine
			go q.run()
		}
	}()
	for {
		v, ok := q.next()
		if !ok {
			over = true
			return
		}
		q.deliver(v)
	}
}

// next takes the first value. If the queue is empty, ok is false and the goroutine ends.
func (q *queue[T]) next() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.values) == 0 {
		q.values, q.isRunning = nil, false
		if q.emptied != nil {
			close(q.emptied)
			q.emptied = nil
		}
		return v, false
	}
	var zero T
	v, q.values[0] = q.values[0], zero
	q.values = q.values[1:]
	return v, true
}

// lostSoFar returns how many values were lost so far.
func (q *queue[T]) lostSoFar() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lostCount
}

// waitEmpty waits until everything is delivered, or ctx is done.
func (q *queue[T]) waitEmpty(ctx context.Context) {
	q.mu.Lock()
	if !q.isRunning {
		q.mu.Unlock()
		return
	}
	if q.emptied == nil {
		q.emptied = make(chan struct{})
	}
	empty := q.emptied
	q.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
