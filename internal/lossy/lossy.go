// Package lossy hands values to a receiver that may be slow, and never makes their sender wait.
package lossy

import (
	"context"
	"sync"
)

// Queue holds values until they are delivered, one after the other and in their order, on a
// goroutine that exists only while there are any. A value that finds the queue full is lost. All
// methods may be called concurrently.
type Queue[T any] struct {
	deliver func(T)
	most    int

	mu      sync.Mutex
	queue   []T
	running bool
	lost    uint64
	empty   chan struct{} // closed when the last value was delivered; nil if nobody waits for that
}

// New returns an empty queue. It holds at most so many values, and delivers one more at the time.
func New[T any](most int, deliver func(T)) *Queue[T] {
	return &Queue[T]{deliver: deliver, most: most}
}

// Put queues a value. It returns false if the value was lost.
func (q *Queue[T]) Put(v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) >= q.most {
		q.lost++
		return false
	}
	q.queue = append(q.queue, v)
	if !q.running {
		q.running = true
		go q.run()
	}
	return true
}

func (q *Queue[T]) run() {
	over := false
	defer func() {
		if !over { // the receiver has ended the goroutine
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

// next takes the first value. On an empty queue the goroutine is over.
func (q *Queue[T]) next() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.queue, q.running = nil, false
		if q.empty != nil {
			close(q.empty)
			q.empty = nil
		}
		return v, false
	}
	var zero T
	v, q.queue[0] = q.queue[0], zero
	q.queue = q.queue[1:]
	return v, true
}

// Lost returns how many values were lost so far.
func (q *Queue[T]) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Rest waits until everything is delivered, or ctx is done.
func (q *Queue[T]) Rest(ctx context.Context) {
	q.mu.Lock()
	if !q.running {
		q.mu.Unlock()
		return
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	empty := q.empty
	q.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
