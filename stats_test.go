package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// countingStore is a store that counts which instances count, and fails while err is set.
type countingStore struct {
	store.Store
	mu         sync.Mutex
	countTimes []time.Time
	keptCounts int
	err        error
}

func (c *countingStore) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *countingStore) SwapTexts(ctx context.Context, all ...store.Text) (bool, error) {
	c.mu.Lock()
	if all[0].Kind == store.TextInstance {
		c.keptCounts++
	}
	err := c.err
	c.mu.Unlock()
	if err != nil && (all[0].Kind == store.TextInstance || all[0].Kind == store.TextStats) {
		return false, err
	}
	return c.Store.SwapTexts(ctx, all...)
}

func (c *countingStore) CountOpen(ctx context.Context) (store.Totals, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countTimes = append(c.countTimes, time.Now())
	return c.Store.CountOpen(ctx)
}

func statsOf(t *testing.T, r *dltbatch.Runner) store.Stats {
	t.Helper()
	s, err := r.Stats(t.Context())
	require.NoError(t, err)
	return s
}

// Of several Runners, one at a time counts for all, and each shows its own row. A Runner that does
// not run reads the same counts.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		st := &countingStore{Store: noHints{memory.New()}}
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.Service == "slow" {
				return ledgermem.Fault{Latency: 10 * time.Second}
			}
			return ledgermem.Fault{}
		}})
		reader := newRunner(t, st, ledger, nil)
		none := statsOf(t, reader)
		assert.True(t, none.At.IsZero())
		assert.Empty(t, none.Instances)

		began := time.Now()
		var stops []func() error
		for _, o := range []*dltbatch.Options{
			{Instance: "a"}, {Instance: "b", Strategy: queuer.Pipelined(3), ClaimTTL: 2 * time.Minute}, {Instance: "b"},
		} {
			stops = append(stops, startRun(t, newRunner(t, st, ledger, o)))
		}
		synctest.Wait()
		first := statsOf(t, reader)
		assert.Equal(t, began.UTC(), first.At, "at the start")
		time.Sleep(time.Hour)
		got := statsOf(t, reader)
		require.Len(t, got.Instances, 3)
		for i, want := range []struct {
			name   string
			shared bool
		}{{"a", false}, {"b", true}, {"b", true}} {
			one := got.Instances[i]
			assert.Equal(t, want.name, one.Name)
			assert.Equal(t, want.shared, one.Shared)
			assert.True(t, one.Live)
			assert.Equal(t, began.UTC(), one.Since)
			assert.Less(t, one.Unseen, 16*time.Second)
			assert.Equal(t, ledger.Traits("").Name, one.Ledger)
			assert.NotEmpty(t, one.Version)
			assert.NotEmpty(t, one.Settings["Strategy"])
			assert.Contains(t, one.Loops, "queuer")
			assert.Less(t, one.Loops["queuer"], 2*time.Second)
			assert.Zero(t, one.Claims)
		}
		assert.NotEqual(t, got.Instances[1].ID, got.Instances[2].ID)
		settings := []string{got.Instances[1].Settings["ClaimTTL"], got.Instances[2].Settings["ClaimTTL"]}
		assert.ElementsMatch(t, []string{"2m0s", "1m0s"}, settings, "they disagree")
		assert.Less(t, got.Age, 20*time.Second)
		for i, at := range st.countTimes[1:] {
			assert.GreaterOrEqual(t, at.Sub(st.countTimes[i]), 15*time.Second)
			assert.Less(t, at.Sub(st.countTimes[i]), 20*time.Second)
		}
		assert.LessOrEqual(t, st.keptCounts, 3*241)

		for i := range 5 {
			require.NoError(t, reader.Add(ctx, newBatch("slow", batch.ID(fmt.Sprint(i)))))
		}
		time.Sleep(25 * time.Second)
		got = statsOf(t, reader)
		assert.Equal(t, 1, got.Lanes)
		assert.Equal(t, batch.ServiceID("slow"), got.OldestLanes[0].Service)
		claims := 0
		for _, i := range got.Instances {
			claims += i.Claims
		}
		assert.Positive(t, claims)

		for n, stop := range stops {
			require.NoError(t, stop())
			assert.Len(t, statsOf(t, reader).Instances, 2-n, "a clean stop")
		}
		counted := len(st.countTimes)
		time.Sleep(time.Hour)
		assert.Len(t, st.countTimes, counted, "nobody runs")
		assert.Greater(t, statsOf(t, reader).Age, time.Hour-time.Minute)
	})
}

// A failure to count delays no delivery: it is reported, and the count is tried again.
func TestStatsFail(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reportedErrs []error
		st := &countingStore{Store: memory.New(), err: errDown}
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Instance: "i", Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == batch.EventTrouble {
				reportedErrs = append(reportedErrs, e.Err)
			}
		})})
		stop := startRun(t, r)
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		time.Sleep(time.Minute)
		h := r.Health()
		require.ErrorIs(t, h.Store.Err, errDown, "its own row is all that an idle instance writes")
		assert.NotContains(t, h.Loops, "stats")
		mu.Lock()
		assert.InDelta(t, 4, len(reportedErrs), 1)
		assert.ErrorIs(t, reportedErrs[0], errDown)
		mu.Unlock()
		assert.Empty(t, statsOf(t, r).Instances)
		st.fail(nil)
		time.Sleep(17 * time.Second)
		assert.Len(t, statsOf(t, r).Instances, 1)
		assert.Less(t, statsOf(t, r).Age, 17*time.Second)
		assert.Equal(t, health.ConditionOK, r.Health().Store.Condition)
		// The row of an instance that could not remove it at its stop stays, and shows that.
		st.fail(errDown)
		require.NoError(t, stop())
		time.Sleep(time.Hour)
		left := statsOf(t, r).Instances
		require.Len(t, left, 1)
		assert.False(t, left[0].Live)
		assert.Greater(t, left[0].Unseen, 59*time.Minute)
		// A later instance removes the row when its time has come.
		st.fail(nil)
		stop = startRun(t, newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Instance: "next", Retention: 24 * time.Hour}))
		time.Sleep(20 * time.Hour)
		assert.Len(t, statsOf(t, r).Instances, 2)
		time.Sleep(4 * time.Hour)
		assert.Len(t, statsOf(t, r).Instances, 1)
		require.NoError(t, stop())
	})
}

// hangingRemovalStore is a store that does not answer an instance that removes its row.
type hangingRemovalStore struct{ store.Store }

func (h hangingRemovalStore) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	if texts[0].Body == "" {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return h.Store.SwapTexts(ctx, texts...)
}

func TestStatsDoNotHoldUpTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, hangingRemovalStore{memory.New()}, ledgermem.New(nil), nil)
		stop := startRun(t, r)
		time.Sleep(time.Minute)
		from := time.Now()
		require.NoError(t, stop())
		assert.Less(t, time.Since(from), time.Second)
		assert.Len(t, statsOf(t, r).Instances, 1)
	})
}

// The row of an instance shows that a busy ledger makes it wait.
func TestStatsShowThatAnInstanceIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(0)
		traits.PressureScope = dlt.ScopeEndpoint
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.Misconfigured}
		}})
		r := newStartedRunner(t, memory.New(), ledger, nil)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "b")))
		time.Sleep(time.Minute)
		got := statsOf(t, r)
		require.Len(t, got.Instances, 1)
		assert.True(t, got.Instances[0].Paused)
	})
}

// Nothing is asked of a store without the ability.
func TestStatsWithoutTheAbility(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, bareStore{Delivery: memory.New()}, ledgermem.New(nil), nil)
		stop := startRun(t, r)
		time.Sleep(time.Minute)
		require.NoError(t, stop())
		_, err := r.Stats(t.Context())
		require.ErrorIs(t, err, store.ErrUnsupported)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		assert.NoError(t, r.Health().Trouble)
	})
}
