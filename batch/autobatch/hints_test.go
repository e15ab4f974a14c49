package autobatch_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// lostHintsStore is a store whose hints are all lost.
type lostHintsStore struct{ *memory.Store }

func (lostHintsStore) Tell(context.Context, store.Hint) error { return nil }

// One process adds an order, a second makes its batch and delivers it, and a third awaits the
// order. None waits for an interval, and if all hints are lost, none waits longer than the
// intervals.
func TestOrdersBetweenProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		store   func(*memory.Store) order.Store
		maxTime time.Duration
	}{
		"with hints":    {func(s *memory.Store) order.Store { return s }, 10 * time.Second},
		"all are lost":  {func(s *memory.Store) order.Store { return lostHintsStore{s} }, 2*time.Minute + 10*time.Second},
		"none possible": {func(s *memory.Store) order.Store { return noHintsStore{s} }, 2*time.Minute + 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "with hints" {
				tier.Hints(t)
			}
			synctest.Test(t, func(t *testing.T) {
				o := autobatch.Options{BatchInterval: time.Minute, MonitorInterval: time.Minute, FlushAge: time.Nanosecond}
				r := newEngineTest(t, orderBuilder{}, &o, nil)
				r.stopAndWait() // this process does not deliver
				engine := func() *autobatch.Engine {
					e, err := autobatch.New(c.store(r.st), orderBuilder{}, &o)
					require.NoError(t, err)
					return e
				}
				adds, awaits := engine(), engine()
				var runner *dltbatch.Runner
				o.Wake = func(s batch.ServiceID) { runner.Wake(s) }
				var log strings.Builder
				o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				makes := engine()
				assert.Zero(t, makes.Hints())
				runner, err := dltbatch.New(r.st, r.books, &dltbatch.Options{Observer: makes})
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				start := time.Now()
				r.loops.Go(func() { assert.NoError(t, runner.Run(ctx)) })
				r.loops.Go(func() { assert.NoError(t, makes.Run(ctx)) })
				time.Sleep(90 * time.Second) // all are idle by then
				if h := makes.Hints(); name == "none possible" {
					require.ErrorIs(t, h.Err, store.ErrUnsupported)
				} else {
					assert.Equal(t, health.Hints{Live: true, Since: start, Way: "in memory"}, h)
				}

				for i := range 3 {
					start, it := time.Now(), newOrder("p", i)
					require.NoError(t, adds.Add(t.Context(), it))
					require.Equal(t, order.Confirmed, awaitOrder(t, awaits, it.ID).State)
					assert.LessOrEqual(t, time.Since(start), c.maxTime)
				}
				stop()
				r.loops.Wait()
				assert.False(t, makes.Hints().Live)
				assert.Equal(t, name != "none possible", strings.Contains(log.String(), `msg="hears hints" about=orders way="in memory"`), &log)
			})
		})
	}
}

// noHintsStore is a store that has no hints.
type noHintsStore struct{ *memory.Store }

func (noHintsStore) Tell(context.Context, store.Hint) error     { return store.ErrUnsupported }
func (noHintsStore) Hear(context.Context, store.Listener) error { return store.ErrUnsupported }

// If the Runners are in other processes, their hints make this Engine settle orders at once, until
// a Runner of this process reports.
func TestOutcomesOfOtherProcesses(t *testing.T) {
	tier.Hints(t)
	synctest.Test(t, func(t *testing.T) {
		r := newEngineTest(t, orderBuilder{}, nil, nil)
		r.stopAndWait()
		engine, err := autobatch.New(r.st, orderBuilder{}, &autobatch.Options{BatchInterval: time.Hour, MonitorInterval: time.Hour, FlushAge: time.Nanosecond})
		require.NoError(t, err)
		runner, err := dltbatch.New(r.st, r.books, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventFinal {
				go func() { _ = r.st.Tell(context.Background(), store.Hint{WholeTopics: store.TopicFinals}) }()
			}
		})})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		r.loops.Go(func() { assert.NoError(t, runner.Run(ctx)) })
		r.loops.Go(func() { assert.NoError(t, engine.Run(ctx)) })
		time.Sleep(90 * time.Second)
		start := time.Now()
		require.NoError(t, engine.Add(t.Context(), newOrder("p", 1)))
		require.Equal(t, order.Confirmed, awaitOrder(t, engine, newOrder("p", 1).ID).State)
		assert.Less(t, time.Since(start), time.Minute)
		stop()
		r.loops.Wait()
	})
}
