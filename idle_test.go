package dltbatch_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// opCounts counts the calls to the store and the ledger.
type opCounts struct {
	mu sync.Mutex
	by map[string]int
}

func (a *opCounts) ObserveCall(_ context.Context, c batch.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[c.Op]++
}

// forget returns the counts and begins anew.
func (a *opCounts) forget() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := a.by
	a.by = map[string]int{}
	return by
}

// While nothing is open, a scan a second answers for the monitor, too. An Add of another process is
// seen as soon as ever.
func TestIdleRunnerAsksLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := memory.New(), &opCounts{by: map[string]int{}}
		r := started(t, st, ledgermem.New(nil), &dltbatch.Options{Calls: seen})
		require.NoError(t, r.Add(t.Context(), one("s", "a")))
		idle(t, r)
		time.Sleep(time.Minute) // the batch's own work has passed
		seen.forget()
		time.Sleep(time.Hour)
		by := seen.forget()
		for op, most := range map[string]int{"lanes": 3600, "pending": 720, "read_texts": 480, "list_texts": 480, "swap_texts": 720, "count_open": 240, "prune": 60, "upkeep": 3600} {
			assert.LessOrEqual(t, by[op], most+1, op)
			assert.GreaterOrEqual(t, by[op], most*8/10, op)
			delete(by, op)
		}
		assert.Empty(t, by)

		for _, id := range []batch.ID{"b", "c", "d"} { // as if another process had added them
			since := time.Now()
			require.NoError(t, st.Add(t.Context(), one("other", id)))
			await(t, r, one("other", id))
			assert.Less(t, time.Since(since), 2500*time.Millisecond, "a scan, and Await's own look")
			time.Sleep(time.Minute + 123*time.Millisecond)
		}
	})
}

// A scan leaves out the lanes that are paused. So the monitor looks by itself now and then, and finds
// what a process that died has left in them.
func TestIdleRunnerFindsWhatOthersLeftInAPausedLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, st := t.Context(), memory.New()
		require.NoError(t, st.Add(ctx, one("s", "a")))
		claimed, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute},
			func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(t, err)
		require.Len(t, claimed.Runs, 1)
		seen := &opCounts{by: map[string]int{}}
		r := started(t, st, ledgermem.New(nil), &dltbatch.Options{Calls: seen})
		_, err = r.Pause(ctx, batch.Everything(), somebody)
		require.NoError(t, err)
		time.Sleep(time.Minute + 6*time.Second)
		assert.Positive(t, seen.forget()["statuses"], "nobody else asks about it")
	})
}
