package events

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.CheckBubbles(m)) }

// slowReceiver is a receiver that takes one value each time that its gate lets it.
type slowReceiver struct {
	gate   chan struct{}
	mu     sync.Mutex
	values []int
}

func (s *slowReceiver) take(v int) {
	<-s.gate
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = append(s.values, v)
}

func (s *slowReceiver) taken() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.values...)
}

func numbers(from, to int) (all []int) {
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// put never waits. A value that finds the queue full is lost and counted, and all others arrive in
// order, however the queue was filled and emptied before.
func TestQueueIsBoundedAndInOrder(t *testing.T) {
	for _, most := range []int{1, 2, 15, 16, 17, 100} {
		synctest.Test(t, func(t *testing.T) {
			s := &slowReceiver{gate: make(chan struct{})}
			q := newQueue(most, s.take)
			next := 0
			put := func(n int) (lost int) {
				for range n {
					if q.put(next) {
						next++
					} else {
						lost++
					}
				}
				return lost
			}
			require.Zero(t, put(1))
			synctest.Wait() // the value is being delivered
			require.Zero(t, put(most))
			require.Equal(t, 3, put(3), "full")
			require.EqualValues(t, 3, q.lostSoFar())
			for range most/2 + 1 {
				s.gate <- struct{}{}
				synctest.Wait()
				require.Zero(t, put(1), "room for one more")
				require.Equal(t, 1, put(1))
			}
			close(s.gate)
			q.waitEmpty(t.Context())
			assert.Equal(t, numbers(0, next), s.taken())
			assert.EqualValues(t, 3+most/2+1, q.lostSoFar())
			require.Zero(t, put(most), "and again")
			q.waitEmpty(t.Context())
			assert.Equal(t, numbers(0, next), s.taken())
		})
	}
}

// The goroutine of a queue ends when the queue is empty. The bubble would report a goroutine that
// is left.
func TestQueueRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowReceiver{gate: make(chan struct{})}
		q := newQueue(4, s.take)
		q.waitEmpty(t.Context()) // returns at once, since nothing waits
		before := runtime.NumGoroutine()
		require.True(t, q.put(1))
		synctest.Wait()
		assert.Equal(t, before+1, runtime.NumGoroutine())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		q.waitEmpty(ctx)
		assert.Equal(t, time.Second, time.Since(begin), "no longer than it may take")
		close(s.gate)
		q.waitEmpty(t.Context())
		synctest.Wait()
		assert.Equal(t, before, runtime.NumGoroutine())
		assert.Equal(t, []int{1}, s.taken())
	})
}

// If the receiver ends its goroutine, as a failed test does, no waiting value is lost.
func TestQueueOutlivesItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got atomic.Int64
		q := newQueue(4, func(v int) {
			got.Add(1)
			if v%2 == 0 {
				runtime.Goexit()
			}
		})
		for i := range 20 {
			require.True(t, q.put(i))
			if i%4 == 3 {
				q.waitEmpty(t.Context())
			}
		}
		assert.EqualValues(t, 20, got.Load())
	})
}

func TestQueueOfManySenders(t *testing.T) {
	const senders, each = 8, 500
	var got [senders][]int
	q := newQueue(senders*each, func(v [2]int) { got[v[0]] = append(got[v[0]], v[1]) })
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for i := range each {
				assert.True(t, q.put([2]int{s, i}))
			}
		})
	}
	all.Wait()
	q.waitEmpty(t.Context())
	for s := range got {
		assert.Equal(t, numbers(0, each), got[s])
	}
	assert.Zero(t, q.lostSoFar())
}
