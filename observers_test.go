package dltbatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// queueCapacity is how many events may wait for one of Options.Observers.
const queueCapacity = 4096

// eventsByBatch returns the kinds of events of each batch, in their order.
func (e *eventRecorder) eventsByBatch() map[batch.Key][]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[batch.Key][]string{}
	for _, ev := range e.all {
		all[ev.Key] = append(all[ev.Key], fmt.Sprint(ev.Kind, " ", ev.State, " ", ev.Attempt, " ", ev.At.UnixNano(), " ", ev.SinceAdded))
	}
	return all
}

func (e *eventRecorder) eventCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.all)
}

// addToLanes adds n batches, each in a lane of its own.
func addToLanes(t *testing.T, r *dltbatch.Runner, n int) {
	t.Helper()
	all := make([]batch.Batch, n)
	for i := range all {
		all[i] = newBatch(batch.ServiceID(fmt.Sprint("s", i)), batch.ID(fmt.Sprint("b", i)))
	}
	require.NoError(t, r.Add(t.Context(), all...))
}

// Every observer gets every event, and the events of one batch in their order.
func TestAllObserversGetAllEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := &eventRecorder{}, &eventRecorder{}, &eventRecorder{}
		others := []batch.Observer{second, third}
		faults := ledgermem.Faults{Seed: 3, Busy: 0.2, LostReply: 0.2}
		r := newRunner(t, memory.New(), ledgermem.New(&ledgermem.Options{Fault: faults.Fault}), &dltbatch.Options{Observer: first, Observers: others})
		others[0] = nil // New has its own copy of the list
		stop := startRun(t, r)
		addToLanes(t, r, 200)
		waitIdle(t, r)
		require.NoError(t, stop())
		assert.Greater(t, first.eventCount(), 800)
		assert.Equal(t, first.eventsByBatch(), second.eventsByBatch())
		assert.Equal(t, first.eventsByBatch(), third.eventsByBatch())
		assert.Nil(t, r.Health().LostEvents)
	})
}

// An observer that blocks delays nothing. It loses the events beyond 4,096 that wait, and the loss
// is counted and logged.
func TestAnObserverThatBlocksLosesItsOwnEventsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, good, bad, log, gate := &eventRecorder{}, &eventRecorder{}, &eventRecorder{}, &logBuffer{}, make(chan struct{})
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{
			Logger: log.logger(slog.LevelInfo), Observer: first, Pool: 500,
			Observers: []batch.Observer{good, batch.ObserverFunc(func(ctx context.Context, e batch.Event) {
				<-gate
				bad.Observe(ctx, e)
			})},
		})
		stop := startRun(t, r)
		begin := time.Now()
		for range 2 {
			addToLanes(t, r, 1000)
			waitIdle(t, r)
		}
		for i := range 3 {
			b := newBatch("s", batch.ID(fmt.Sprint("late ", i)))
			require.NoError(t, r.Add(t.Context(), b))
			assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
			time.Sleep(20 * time.Second)
		}
		assert.Less(t, time.Since(begin), 70*time.Second)
		all := first.eventCount()
		assert.Equal(t, all, good.eventCount())
		lost := r.Health().LostEvents
		require.Len(t, lost, 2)
		assert.Zero(t, lost[0])
		assert.EqualValues(t, all-queueCapacity-1, lost[1], "one is with the observer")
		time.Sleep(time.Hour)
		const text = "events lost: an observer is too slow"
		var lines []string
		for l := range strings.Lines(log.String()) {
			if strings.Contains(l, text) {
				assert.Contains(t, l, "observer=Observers[1]")
				lines = append(lines, l)
			}
		}
		require.Len(t, lines, 3, "at once, after a minute, and when it was over:\n%s", log)
		assert.Contains(t, lines[2], fmt.Sprint("times=", lost[1]))
		assert.Contains(t, lines[2], "over=true")

		close(gate)
		synctest.Wait()
		assert.Equal(t, queueCapacity+1, bad.eventCount())
		want, got := good.eventsByBatch(), bad.eventsByBatch()
		for key, story := range got {
			assert.Equal(t, want[key][:len(story)], story, "from the first on")
		}
		addToLanes(t, r, 1) // adds a batch that is known already
		synctest.Wait()
		assert.Equal(t, queueCapacity+2, bad.eventCount(), "and it goes on")
		require.NoError(t, stop())
		assert.Equal(t, lost, r.Health().LostEvents)
	})
}

// Observers that panic are contained, get all events, and are named in the log.
func TestObserversThatPanicAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, told, good := &logBuffer{}, atomic.Int64{}, &eventRecorder{}
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{
			Logger: log.logger(slog.LevelWarn),
			Observers: []batch.Observer{good, batch.ObserverFunc(func(context.Context, batch.Event) {
				told.Add(1)
				panic("boom in the observer")
			})},
		})
		stop := startRun(t, r)
		addToLanes(t, r, 50)
		waitIdle(t, r)
		require.NoError(t, stop())
		assert.EqualValues(t, 200, told.Load())
		assert.Equal(t, 200, good.eventCount())
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 2, "the first, and the sum at the end:\n%s", log)
		assert.Contains(t, lines[0], "observers_test.go", "with its stack")
		assert.NotContains(t, lines[1], "stack=")
		assert.Contains(t, lines[1], "times=199")
		for _, l := range lines {
			assert.Contains(t, l, "level=ERROR")
			assert.Contains(t, l, "boom in the observer")
			assert.Contains(t, l, "Observers[1]")
		}
	})
}

// New refuses a nil observer, and the error names its index.
func TestObserversThatAreNil(t *testing.T) {
	for name, bad := range map[string]batch.Observer{"nil": nil, "a nil func": batch.ObserverFunc(nil)} {
		_, err := dltbatch.New(memory.New(), ledgermem.New(nil), &dltbatch.Options{Observers: []batch.Observer{&eventRecorder{}, &eventRecorder{}, bad}})
		var inputErr *batch.InputError
		require.ErrorAs(t, err, &inputErr, name)
		assert.Equal(t, "Options.Observers[2]", inputErr.Field)
		assert.Equal(t, "an observer", inputErr.Want)
	}
}

// At its end Run gives a slow observer time for the events that wait, and gives an observer that
// blocks half a second.
func TestRunGivesObserversTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &eventRecorder{}
		gate := make(chan struct{})
		defer close(gate)
		o := &dltbatch.Options{Observers: []batch.Observer{batch.ObserverFunc(func(ctx context.Context, e batch.Event) {
			time.Sleep(5 * time.Millisecond)
			slow.Observe(ctx, e)
		})}}
		r := newRunner(t, memory.New(), ledgermem.New(nil), o)
		stop := startRun(t, r)
		addToLanes(t, r, 20)
		waitIdle(t, r)
		require.Less(t, slow.eventCount(), 80)
		ended := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, 80, slow.eventCount())
		assert.Less(t, time.Since(ended), 500*time.Millisecond)

		o.Observers = append(o.Observers, batch.ObserverFunc(func(context.Context, batch.Event) { <-gate }))
		r = newRunner(t, memory.New(), ledgermem.New(nil), o)
		stop = startRun(t, r)
		addToLanes(t, r, 1)
		waitIdle(t, r)
		ended = time.Now()
		require.NoError(t, stop())
		assert.Equal(t, 500*time.Millisecond, time.Since(ended))
	})
}

// The context of an event that an observer gets late has the caller's values, and is not done.
func TestObserversGetContextsThatLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen, gate := &tenantObserver{}, make(chan struct{})
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{Observers: []batch.Observer{
			batch.ObserverFunc(func(ctx context.Context, e batch.Event) {
				<-gate
				seen.Observe(ctx, e)
			}),
		}})
		ctx, cancel := context.WithCancel(withTenant(t.Context(), "add"))
		require.NoError(t, r.Add(ctx, newBatch("s", "b")))
		cancel()
		run, stop := context.WithCancel(withTenant(t.Context(), "run"))
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, r.Run(run)) })
		waitIdle(t, r)
		stop()
		wg.Wait()
		close(gate)
		synctest.Wait()
		assert.Equal(t, map[any]int{"add": 1}, seen.tenantsOf(batch.EventAdded))
		assert.Equal(t, map[any]int{"run": 1}, seen.tenantsOf(batch.EventFinal))
		assert.Zero(t, seen.doneContexts)
	})
}

// The Runner goes on only once Options.Observer has returned, so that observer misses no event,
// however slow it is.
func TestTheFirstObserverIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, others := &eventRecorder{}, make([]batch.Observer, 3)
		for i := range others {
			others[i] = &eventRecorder{}
		}
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{
			Observers: others,
			Observer: batch.ObserverFunc(func(ctx context.Context, e batch.Event) {
				time.Sleep(time.Second)
				first.Observe(ctx, e)
			}),
		})
		begin := time.Now()
		addToLanes(t, r, 10)
		assert.Equal(t, 10*time.Second, time.Since(begin))
		assert.Equal(t, 10, first.eventCount(), "when Add returns")
		stop := startRun(t, r)
		waitIdle(t, r)
		require.NoError(t, stop())
		assert.Equal(t, 40, first.eventCount(), "when Run returns")
	})
}
