package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// callCounts counts the calls to the store and the ledger.
type callCounts struct {
	mu   sync.Mutex
	byOp map[string]int
}

func (a *callCounts) ObserveCall(_ context.Context, c batch.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byOp[c.Op]++
}

// takeCounts returns the counts and begins anew.
func (a *callCounts) takeCounts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := a.byOp
	a.byOp = map[string]int{}
	return by
}

// noHints is a store without hints.
type noHints struct{ *memory.Store }

func (noHints) Abilities() store.Abilities { return store.AllAbilities &^ store.CanHint }

// While nothing is open and the store has no hints, one scan a second finds work for the monitor,
// too. An Add of another process is seen as soon as on a busy Runner.
func TestIdleRunnerAsksLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := noHints{memory.New()}, &callCounts{byOp: map[string]int{}}
		r := newStartedRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Calls: seen})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		waitIdle(t, r)
		time.Sleep(time.Minute) // the follow-up work of the batch is over
		seen.takeCounts()
		time.Sleep(time.Hour)
		by := seen.takeCounts()
		for op, most := range map[string]int{"lanes": 3600, "pending": 720, "read_texts": 480, "list_texts": 480, "swap_texts": 720, "count_open": 240, "prune": 60, "upkeep": 3600} {
			assert.LessOrEqual(t, by[op], most+1, op)
			assert.GreaterOrEqual(t, by[op], most*8/10, op)
			delete(by, op)
		}
		assert.Empty(t, by)

		for _, id := range []batch.ID{"b", "c", "d"} { // as if another process had added them
			since := time.Now()
			require.NoError(t, st.Add(t.Context(), newBatch("other", id)))
			awaitFinal(t, r, newBatch("other", id))
			assert.Less(t, time.Since(since), 2500*time.Millisecond, "a scan, and Await's own look")
			time.Sleep(time.Minute + 123*time.Millisecond)
		}
	})
}

// While hints arrive and nothing is open, an idle Runner sends less than 0.2 statements a second.
// It finds a batch by its hint, and an Add whose hint was lost. When hints stop arriving, the
// Runner at once reads the store as often as without hints.
func TestIdleRunnerThatHearsAsksLess(t *testing.T) {
	tier.Hints(t)
	synctest.Test(t, func(t *testing.T) {
		st, seen := &cutHintsStore{Store: memory.New()}, &callCounts{byOp: map[string]int{}}
		r := newStartedRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Calls: seen})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		waitIdle(t, r)
		time.Sleep(2 * time.Minute) // the follow-up work of the batch is over
		seen.takeCounts()
		time.Sleep(time.Hour)
		by, all := seen.takeCounts(), 0
		for op, most := range map[string]int{"lanes": 240, "pending": 60, "swap_texts": 60 + 24, "read_texts": 24, "list_texts": 24, "count_open": 12, "prune": 15, "upkeep": 12} {
			assert.LessOrEqual(t, by[op], most+1, op)
			assert.GreaterOrEqual(t, by[op], most*7/10, op)
			all += by[op]
			delete(by, op)
		}
		assert.Empty(t, by)
		assert.Less(t, all, 3600*2/10)
		stats, err := r.Stats(t.Context())
		require.NoError(t, err)
		assert.True(t, stats.Instances[0].Live, "not seen for a minute: %s", stats.Instances[0].Unseen)

		since := time.Now()
		require.NoError(t, st.Add(t.Context(), newBatch("other", "b"))) // another process adds, and its hint is lost
		awaitFinal(t, r, newBatch("other", "b"))
		assert.Less(t, time.Since(since), 17*time.Second)
		time.Sleep(10 * time.Minute)
		since = time.Now()
		require.NoError(t, st.Add(t.Context(), newBatch("other", "c")))
		require.NoError(t, st.Tell(t.Context(), store.Hint{Lanes: []batch.ServiceID{"other"}}))
		awaitFinal(t, r, newBatch("other", "c"))
		assert.Less(t, time.Since(since), 100*time.Millisecond)

		time.Sleep(10 * time.Minute)
		st.cutHints()
		time.Sleep(time.Second)
		since = time.Now()
		require.NoError(t, st.Add(t.Context(), newBatch("other", "d")))
		awaitFinal(t, r, newBatch("other", "d"))
		assert.Less(t, time.Since(since), 2500*time.Millisecond)
	})
}

// cutHintsStore is a store whose hints can be cut off.
type cutHintsStore struct {
	*memory.Store
	mu          sync.Mutex
	hintsAreCut bool
	cancels     []context.CancelFunc
}

func (m *cutHintsStore) Hear(ctx context.Context, l store.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m.mu.Lock()
	gone := m.hintsAreCut
	m.cancels = append(m.cancels, stop)
	m.mu.Unlock()
	if gone {
		return errors.New("cut off")
	}
	return m.Store.Hear(ctx, l)
}

func (m *cutHintsStore) cutHints() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hintsAreCut = true
	for _, end := range m.cancels {
		end()
	}
}

// With Options.Rest the Runner leaves an idle database alone for that long, and then does all its
// work within a short time. A batch that this process adds is sent at once.
func TestADatabaseMaySleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := memory.New(), &callTimes{}
		r := newStartedRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Calls: seen, Rest: time.Hour})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		waitIdle(t, r)
		time.Sleep(4 * time.Hour)
		seen.takeTimes()
		time.Sleep(24 * time.Hour)
		var awake int
		var last time.Time
		for _, at := range seen.takeTimes() {
			if at.Sub(last) > 5*time.Minute {
				awake++
			}
			last = at
		}
		assert.LessOrEqual(t, awake, 25)
		assert.GreaterOrEqual(t, awake, 22)
		h := r.Health()
		assert.Empty(t, h.Attention(time.Now()))
		answer := httptest.NewRecorder()
		probe.Live(r, nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		assert.Equal(t, http.StatusOK, answer.Code, answer.Body)
		since := time.Now()
		require.NoError(t, r.Add(t.Context(), newBatch("s", "b")))
		awaitFinal(t, r, newBatch("s", "b"))
		assert.Less(t, time.Since(since), 100*time.Millisecond)
	})
}

// callTimes are when calls to the store were made.
type callTimes struct {
	mu    sync.Mutex
	times []time.Time
}

func (a *callTimes) ObserveCall(context.Context, batch.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times = append(a.times, time.Now())
}

func (a *callTimes) takeTimes() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.times
	a.times = nil
	return at
}

// A scan leaves out paused lanes. So the monitor sometimes looks on its own, and finds the batches
// in them that a dead process left in flight.
func TestIdleRunnerFindsWhatOthersLeftInAPausedLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, st := t.Context(), memory.New()
		require.NoError(t, st.Add(ctx, newBatch("s", "a")))
		claimed, err := st.Claim(ctx, store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute},
			func(batch.Lane) []batch.Run { return []batch.Run{{0}} })
		require.NoError(t, err)
		require.Len(t, claimed.Runs, 1)
		seen := &callCounts{byOp: map[string]int{}}
		r := newStartedRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Calls: seen})
		_, err = r.Pause(ctx, batch.Everything(), somebody)
		require.NoError(t, err)
		time.Sleep(2*time.Minute + 6*time.Second)
		assert.Positive(t, seen.takeCounts()["statuses"], "nobody else asks about it")
	})
}

// A process that cannot send a batch tells the idle processes: while its ledger cannot be reached,
// and when it stops.
func TestOthersHearWhatOneCannotSend(t *testing.T) {
	tier.Hints(t)
	for phase := range 4 { // the phase of the others' scans, which are 15 s apart
		synctest.Test(t, func(t *testing.T) { testOthersHear(t, time.Duration(phase)*4*time.Second) })
	}
}

func testOthersHear(t *testing.T, phase time.Duration) {
	t.Helper()
	st := memory.New()
	newStartedRunner(t, st, ledgermem.New(nil), nil)
	waits := newRunner(t, st, ledgermem.New(nil), nil) // a Runner of a process that delivers nothing
	r := newRunner(t, st, ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
		return ledgermem.Fault{Kind: ledgermem.Unavailable}
	}}), nil)
	stop := startRun(t, r)
	time.Sleep(time.Hour + phase)
	since := time.Now()
	require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
	awaitFinal(t, waits, newBatch("s", "a"))
	assert.Less(t, time.Since(since), 5*time.Second)
	require.NoError(t, stop())

	r = newRunner(t, st, ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
		return ledgermem.Fault{Latency: time.Second}
	}}), nil)
	stop = startRun(t, r)
	time.Sleep(time.Hour + phase)
	for i := range 3 {
		require.NoError(t, r.Add(t.Context(), newBatch("t", batch.ID(fmt.Sprint(i)))))
	}
	require.NoError(t, stop())
	since = time.Now()
	awaitFinal(t, waits, newBatch("t", "2"))
	assert.Less(t, time.Since(since), 5*time.Second)
}

// slowListStore is a store whose lists take 5 ms.
type slowListStore struct {
	*memory.Store
	listCalls atomic.Int64
}

func (s *slowListStore) List(ctx context.Context, q store.ListQuery) ([]batch.Record, store.Cursor, error) {
	s.listCalls.Add(1)
	time.Sleep(5 * time.Millisecond)
	return s.Store.List(ctx, q)
}

// Idle spends at most a tenth of the time on lists, however fast batches become final, and returns
// soon after the last one is final.
func TestIdleListsATenthOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowListStore{Store: memory.New()}
		r := newStartedRunner(t, st, ledgermem.New(nil), nil)
		held, err := r.Pause(t.Context(), batch.Only("held"), batch.By{Actor: "ada"})
		require.NoError(t, err)
		require.NoError(t, r.Add(t.Context(), newBatch("held", "h")))
		done := make(chan error, 1)
		go func() { done <- r.Idle(t.Context()) }()
		for i := range 1500 {
			require.NoError(t, r.Add(t.Context(), newBatch(batch.ServiceID(fmt.Sprint(i%50)), batch.ID(fmt.Sprint(i)))))
			time.Sleep(time.Millisecond)
		}
		lists := st.listCalls.Load()
		assert.LessOrEqual(t, lists, int64(40), "in 1.5 s, and some in every PollInterval")
		assert.Greater(t, lists, int64(15), "it looks when batches become final")
		_, err = r.Resume(t.Context(), held, batch.By{Actor: "ada"})
		require.NoError(t, err)
		awaitFinal(t, r, newBatch("held", "h"))
		last := time.Now()
		require.NoError(t, <-done)
		assert.Less(t, time.Since(last), 200*time.Millisecond)
	})
}
