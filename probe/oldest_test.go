package probe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A batch that is open for longer than Oldest makes all instances on its database not ready, and
// never not alive. They are ready again soon after it is final.
func TestReadySeesAnOldBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := dltbatch.New(memory.New(), ledgermem.New(&ledgermem.Options{CommitAfter: time.Hour}), nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		o := &probe.Options{Oldest: 10 * time.Minute}
		ready, live := probe.Ready(r, o), probe.Live(r, o)
		time.Sleep(time.Minute)
		assert.True(t, getAnswer(t, ready).OK, "nothing is open")
		b := batch.Batch{Service: "s", ID: "b", Payload: []byte("p")}
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(9 * time.Minute)
		assert.True(t, getAnswer(t, ready).OK)
		time.Sleep(2 * time.Minute)
		got := getAnswer(t, ready)
		assert.False(t, got.OK)
		require.Len(t, got.Why, 1)
		assert.Regexp(t, `^oldest batch: open for 1[01]m\d+s, when it was counted \d+s ago$`, got.Why[0])
		assert.True(t, getAnswer(t, live).OK)
		_, err = r.Await(t.Context(), b.Key())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.True(t, getAnswer(t, ready).OK)
		stop()
		require.NoError(t, <-ended)
	})
}

// fakeStatsSource is a source whose counts fail or hang.
type fakeStatsSource struct {
	fixedHealth
	stats func(ctx context.Context) (store.Stats, error)
}

func (c fakeStatsSource) Stats(ctx context.Context) (store.Stats, error) { return c.stats(ctx) }

// Counts that cannot be read decide nothing, and delay an answer by at most a second. Options with
// Oldest for a source without Stats are a mistake that the answer shows.
func TestReadyWithoutCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fixedHealth(health.Health{Running: true, Store: health.PartHealth{Condition: health.ConditionOK, LastSuccess: time.Now()}})
		o := &probe.Options{Oldest: time.Minute}
		since := time.Now()
		assert.Empty(t, getAnswer(t, probe.Ready(fakeStatsSource{h, func(ctx context.Context) (store.Stats, error) {
			<-ctx.Done()
			return store.Stats{}, ctx.Err()
		}}, o)).Why)
		assert.Equal(t, time.Second, time.Since(since))
		assert.Empty(t, getAnswer(t, probe.Ready(fakeStatsSource{h, func(context.Context) (store.Stats, error) { return store.Stats{}, nil }}, o)).Why, "nobody has counted yet")
		assert.Equal(t, []string{"oldest batch: Options.Oldest wants a source with Stats, and probe_test.fixedHealth has none"}, getAnswer(t, probe.Ready(h, o)).Why)
		assert.Empty(t, getAnswer(t, probe.Ready(h, nil)).Why)
	})
}
