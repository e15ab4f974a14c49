package autobatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store/memory"
)

// An Await returns at once if this process expires its order.
func TestAwaitOfWhatExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEngineTest(t, orderBuilder{}, &autobatch.Options{MonitorInterval: time.Hour, FlushAge: 24 * time.Hour}, nil)
		o := newOrder("p", 1)
		o.Deadline = time.Now().Add(5 * time.Second)
		start := time.Now()
		require.NoError(t, r.engine.Add(t.Context(), o))
		rec, err := r.engine.Await(t.Context(), o.ID)
		require.NoError(t, err)
		require.Equal(t, order.Failed, rec.State)
		assert.Less(t, time.Since(start), time.Minute)
		r.stopAndWait()
	})
}

// If the clock steps back, no order is delayed, although its key is ahead of the clock and its age
// is not known.
func TestOrdersAfterTheClockStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEngineTest(t, orderBuilder{}, nil, nil)
		require.NoError(t, r.engine.Add(t.Context(), newOrder("p", 1)))
		require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, newOrder("p", 1).ID).State)
		r.st.StepClock(-time.Hour)
		start := time.Now()
		require.NoError(t, r.engine.Add(t.Context(), newOrder("p", 2)))
		require.Equal(t, order.Confirmed, awaitOrder(t, r.engine, newOrder("p", 2).ID).State)
		assert.Less(t, time.Since(start), time.Minute)
		r.stopAndWait()
	})
}

// If Options.Wake panics, the event is reported nevertheless.
func TestAPanicInWakeLosesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[autobatch.OrderEventKind]int{}
		e, err := autobatch.New(memory.New(), orderBuilder{}, &autobatch.Options{Wake: func(batch.ServiceID) { panic("boom") }, Observer: func(ev autobatch.OrderEvent) { seen[ev.Kind]++ }})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		require.NoError(t, e.Add(t.Context(), newOrder("p", 1)))
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, 1, seen[autobatch.EventPrepared], "%v", seen)
	})
}
