package texts_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// countingStore is a store whose counts take time, or fail.
type countingStore struct {
	*memory.Store
	countTime time.Duration
	counted   atomic.Int64
	countErr  error
}

func (c *countingStore) CountOpen(ctx context.Context) (store.Totals, error) {
	c.counted.Add(1)
	totals, err := c.Store.CountOpen(ctx)
	select {
	case <-time.After(c.countTime):
	case <-ctx.Done():
		return store.Totals{At: totals.At}, ctx.Err()
	}
	if c.countErr != nil {
		return store.Totals{At: totals.At}, c.countErr
	}
	return totals, err
}

func inBubble(t *testing.T, test func(t *testing.T, st *countingStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, &countingStore{Store: memory.New()}) })
}

func readStats(t *testing.T, st *countingStore) store.Stats {
	t.Helper()
	s, err := texts.Stats(t.Context(), st)
	require.NoError(t, err)
	return s
}

func refreshStats(t *testing.T, st *countingStore, q store.RefreshQuery) bool {
	t.Helper()
	did, err := texts.Refresh(t.Context(), st, q)
	require.NoError(t, err)
	return did
}

func showInstance(t *testing.T, st *countingStore, id, name string) {
	t.Helper()
	require.NoError(t, new(texts.Presence).Show(t.Context(), st, store.Instance{ID: id, Name: name}))
}

func addBatch(t *testing.T, st *countingStore, id string) {
	t.Helper()
	require.NoError(t, st.Add(t.Context(), batch.Batch{Service: "s", ID: batch.ID(id), Payload: []byte("x")}))
}

// No process counts before the kept counts are old. The earlier counts are kept, a limited number
// of them.
func TestCountsAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		none := readStats(t, st)
		assert.True(t, none.At.IsZero())
		assert.Zero(t, none.Age)
		var want []store.OpenAt
		for n := range store.MaxFlows + 3 {
			addBatch(t, st, fmt.Sprint(n))
			require.True(t, refreshStats(t, st, store.RefreshQuery{By: "me"}))
			got := readStats(t, st)
			assert.Equal(t, "me", got.By)
			assert.Equal(t, n+1, got.OpenAt().Open)
			require.Len(t, got.Earlier, min(n, store.MaxFlows))
			assert.Equal(t, want[len(want)-len(got.Earlier):], slices.Clone(got.Earlier))
			want = append(want, got.OpenAt())
			time.Sleep(10 * time.Second)
			require.False(t, refreshStats(t, st, store.RefreshQuery{By: "other"}))
			again := readStats(t, st)
			assert.Equal(t, got.Totals, again.Totals)
			assert.Equal(t, 10*time.Second, again.Age)
			time.Sleep(5 * time.Second)
		}
	})
}

// Of many processes at once, one counts. Of two that count one after the other, the later one's
// counts are kept.
func TestOneCountsForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		st.countTime = time.Second
		var all sync.WaitGroup
		var refreshed atomic.Int64
		for range 8 {
			all.Go(func() {
				mine, err := texts.Refresh(t.Context(), st, store.RefreshQuery{})
				assert.NoError(t, err)
				if mine {
					refreshed.Add(1)
				}
			})
		}
		all.Wait()
		assert.Equal(t, int64(1), refreshed.Load())
		assert.Equal(t, int64(1), st.counted.Load())
		assert.Equal(t, time.Second, readStats(t, st).Took)

		time.Sleep(time.Hour)
		slow := &countingStore{Store: st.Store, countTime: 9 * time.Second}
		all.Go(func() { assert.False(t, refreshStats(t, slow, store.RefreshQuery{By: "slow"}), "it was followed") })
		synctest.Wait()
		kept, err := texts.Read(t.Context(), st, store.TextStats, "")
		require.NoError(t, err)
		kept.Body = "{}" // as if the counting process had died long ago
		did2, err := st.SwapTexts(t.Context(), kept)
		require.NoError(t, err)
		require.True(t, did2)
		assert.True(t, refreshStats(t, st, store.RefreshQuery{By: "later"}))
		all.Wait()
		assert.Equal(t, "later", readStats(t, st).By)
	})
}

// hookedReadStore is a store for one process: all processes read before one of them writes.
type hookedReadStore struct {
	*countingStore
	afterRead func() // called after the first read
}

func (r *hookedReadStore) ReadTexts(ctx context.Context, kind store.TextKind, names ...string) ([]store.Text, time.Time, error) {
	found, now, err := r.countingStore.ReadTexts(ctx, kind, names...)
	r.afterRead()
	return found, now, err
}

// Of many processes that read the same turn, one takes it.
func TestOneOfManyTakesTheTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		var read, all sync.WaitGroup
		var refreshed atomic.Int64
		read.Add(8)
		for range 8 {
			all.Go(func() {
				r := &hookedReadStore{countingStore: st, afterRead: sync.OnceFunc(func() { read.Done(); read.Wait() })}
				mine, err := texts.Refresh(t.Context(), r, store.RefreshQuery{})
				assert.NoError(t, err)
				if mine {
					refreshed.Add(1)
				}
			})
		}
		all.Wait()
		assert.Equal(t, int64(1), refreshed.Load())
		assert.Equal(t, int64(1), st.counted.Load())
	})
}

// A count that fails leaves the earlier counts, and is followed by a pause.
func TestACountThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		require.True(t, refreshStats(t, st, store.RefreshQuery{By: "me"}))
		time.Sleep(time.Minute)
		st.countErr, st.countTime = errDown, 2*time.Second
		_, err := texts.Refresh(t.Context(), st, store.RefreshQuery{By: "other"})
		require.ErrorIs(t, err, errDown)
		got := readStats(t, st)
		assert.Equal(t, "me", got.By)
		assert.Equal(t, 62*time.Second, got.Age)
		st.countErr = nil
		time.Sleep(99 * time.Second)
		assert.False(t, refreshStats(t, st, store.RefreshQuery{}), "a fiftieth of the time")
		time.Sleep(time.Second)
		st.countTime = time.Hour
		_, err = texts.Refresh(t.Context(), st, store.RefreshQuery{})
		require.ErrorIs(t, err, context.DeadlineExceeded, "it is cut off")
		assert.Equal(t, "me", readStats(t, st).By)
	})
}

func TestTheClockStepsBack(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		showInstance(t, st, "i", "i")
		time.Sleep(10 * time.Minute)
		require.True(t, refreshStats(t, st, store.RefreshQuery{}))
		st.StepClock(-time.Hour)
		got := readStats(t, st)
		assert.Zero(t, got.Age)
		assert.Equal(t, 50*time.Minute, got.Instances[0].Unseen)
		assert.False(t, got.Instances[0].Live, "nobody has seen it since")
		require.True(t, refreshStats(t, st, store.RefreshQuery{Forget: time.Minute}), "nobody waits until the clock is where it was")
		assert.Len(t, readStats(t, st).Instances, 1)
		showInstance(t, st, "i", "i")
		assert.True(t, readStats(t, st).Instances[0].Live)
	})
}

func TestAnInstanceFromItsStartToItsStop(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		i := store.Instance{
			ID: "id", Name: "näme", Host: "höst", Version: "v1.2.3", Ledger: "ledger", Claims: 7, Paused: true,
			Pauses: []store.Pause{{Ledger: "ledger", All: true, Kind: batch.KindMisconfigured, Why: "401", For: time.Second}},
			Schema: 1, Settings: map[string]string{"strategy": "serial", "odd": "a'\"\\\n\x00\xff"}, Loops: map[string]time.Duration{"queuer": time.Second},
			Flows: []store.Flow{{Ago: time.Second, Took: 15 * time.Second, Final: 3, Queue: store.Times{N: 2, Sum: 3, Max: 2}}, {Took: 15 * time.Second}},
		}
		var p, other texts.Presence
		require.NoError(t, p.End(t.Context(), st), "it was never shown")
		require.NoError(t, p.Show(t.Context(), st, i))
		began := time.Now()
		time.Sleep(15 * time.Second)
		i.Claims, i.Paused, i.Pauses = 0, false, nil
		require.NoError(t, p.Show(t.Context(), st, i))
		seen := time.Now()
		time.Sleep(10 * time.Second)
		all := readStats(t, st).Instances
		require.Len(t, all, 1)
		got := all[0]
		assert.True(t, began.Equal(got.Since), got.Since)
		assert.True(t, seen.Equal(got.Seen), got.Seen)
		assert.True(t, strings.HasPrefix(got.Settings["odd"], "a'\"\\\n"), "%q", got.Settings["odd"])
		want := i
		want.Since, want.Seen, want.Unseen, want.Live, want.Settings = got.Since, got.Seen, 10*time.Second, true, got.Settings
		assert.Equal(t, want, got)

		require.NoError(t, other.Show(t.Context(), st, store.Instance{ID: "other", Name: "a"}))
		assert.Equal(t, "other", readStats(t, st).Instances[0].ID, "by name")
		for range 2 { // a second call is harmless
			require.NoError(t, p.End(t.Context(), st))
			assert.Len(t, readStats(t, st).Instances, 1)
		}
	})
}

// losingStore is a store that writes, and loses its first answer.
type losingStore struct {
	*countingStore
	hasLost bool
}

func (l *losingStore) SwapTexts(ctx context.Context, all ...store.Text) (bool, error) {
	did, err := l.countingStore.SwapTexts(ctx, all...)
	if !l.hasLost {
		l.hasLost = true
		return false, errDown
	}
	return did, err
}

// An instance whose text was written with a lost answer, or was removed, is shown again, and can
// be ended.
func TestAnInstanceIsShownAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		var p texts.Presence
		i := store.Instance{ID: "i", Name: "i"}
		require.ErrorIs(t, p.Show(t.Context(), &losingStore{countingStore: st}, i), errDown)
		require.NoError(t, p.Show(t.Context(), st, i))
		require.ErrorIs(t, p.Show(t.Context(), &losingStore{countingStore: st}, i), errDown)
		require.NoError(t, p.Show(t.Context(), st, i))
		_, err := texts.Put(t.Context(), st, store.Text{Kind: store.TextInstance, Name: "i"})
		require.NoError(t, err)
		require.NoError(t, p.Show(t.Context(), st, i))
		assert.Len(t, readStats(t, st).Instances, 1)
		require.ErrorIs(t, p.Show(t.Context(), &losingStore{countingStore: st}, i), errDown)
		require.NoError(t, p.End(t.Context(), st))
		assert.Empty(t, readStats(t, st).Instances)

		var first texts.Presence
		require.ErrorIs(t, first.Show(t.Context(), &losingStore{countingStore: st}, i), errDown)
		require.NoError(t, first.End(t.Context(), st))
		assert.Empty(t, readStats(t, st).Instances)
	})
}

func TestInstancesAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		showInstance(t, st, "dead", "dead")
		showInstance(t, st, "alive", "alive")
		time.Sleep(time.Hour)
		showInstance(t, st, "alive", "alive")
		ids := func() (ids []string) {
			for _, i := range readStats(t, st).Instances {
				ids = append(ids, i.ID)
			}
			return ids
		}
		require.True(t, refreshStats(t, st, store.RefreshQuery{}))
		assert.Equal(t, []string{"alive", "dead"}, ids(), "for ever, unless somebody says otherwise")
		time.Sleep(time.Minute)
		require.True(t, refreshStats(t, st, store.RefreshQuery{Forget: time.Hour + time.Minute}))
		assert.Equal(t, []string{"alive"}, ids())
	})
}

func TestSoManyInstancesAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		for i := range store.MaxInstances + 3 {
			showInstance(t, st, fmt.Sprintf("%05d", i), "n")
			time.Sleep(time.Millisecond)
		}
		require.True(t, refreshStats(t, st, store.RefreshQuery{}))
		all, _, err := st.ListTexts(t.Context(), store.TextsQuery{Kind: store.TextInstance, Limit: 9999})
		require.NoError(t, err)
		require.Len(t, all, store.MaxInstances)
		assert.Equal(t, "00003", all[len(all)-1].Name, "those that were seen last")
	})
}

func TestInstancesThatAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, st *countingStore) {
		long := strings.Repeat("x", 2000)
		many := map[string]string{}
		for i := range 100 {
			many[fmt.Sprint(i)] = ""
		}
		for name, i := range map[string]store.Instance{
			"no id":          {Name: "n"},
			"an odd id":      {ID: "a\x00"},
			"a long name":    {ID: "i", Name: long},
			"an odd name":    {ID: "i", Name: "a\x00b"},
			"a long version": {ID: "i", Version: long},
			"a long host":    {ID: "i", Host: long},
			"a long setting": {ID: "i", Settings: map[string]string{"s": long}},
			"a long loop":    {ID: "i", Loops: map[string]time.Duration{long: 0}},
			"many settings":  {ID: "i", Settings: many},
			"many flows":     {ID: "i", Flows: make([]store.Flow, store.MaxFlows+1)},
		} {
			assert.ErrorIs(t, new(texts.Presence).Show(t.Context(), st, i), batch.ErrInvalidInput, name)
		}
		_, err := texts.Refresh(t.Context(), st, store.RefreshQuery{By: long})
		require.ErrorIs(t, err, batch.ErrInvalidInput)
		got := readStats(t, st)
		assert.Empty(t, got.Instances)
		assert.True(t, got.At.IsZero())
	})
}
