package dltbatch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
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
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// If the reason of a pause changes, an event and Health report the new reason: a busy ledger needs
// only patience, but a ledger that refuses this client needs a person.
func TestAPauseThatChangesItsReasonIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
			if refuses.Load() {
				return ledgermem.Fault{Kind: ledgermem.Misconfigured}
			}
			return ledgermem.Fault{Kind: ledgermem.Busy}
		}})
		var mu sync.Mutex
		var kinds []batch.ErrorKind
		r, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventPaused {
				mu.Lock()
				defer mu.Unlock()
				kinds = append(kinds, dlt.Kind(e.Err))
			}
		})})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		require.NoError(t, r.Add(ctx, batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}))
		time.Sleep(time.Minute)
		since := r.Health().Pauses[0].Since
		refuses.Store(true)
		time.Sleep(3 * time.Minute)
		h := r.Health()
		stop()
		require.NoError(t, <-done)
		assert.Equal(t, []batch.ErrorKind{batch.KindBusy, batch.KindMisconfigured}, kinds, "each reason once")
		if assert.Len(t, h.Pauses, 1) {
			assert.Equal(t, since, h.Pauses[0].Since)
			assert.Equal(t, batch.KindMisconfigured, dlt.Kind(h.Pauses[0].Because))
		}
	})
}

// A Runner whose last open batch is gone does not show a pause until somebody adds another batch:
// once the back-off is over, Health shows no pause.
func TestAnIdleRunnerDoesNotStayPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.PressureScope = dlt.ScopeEndpoint
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault { return ledgermem.Fault{Kind: ledgermem.Unavailable} }})
		st := memory.New()
		r, err := dltbatch.New(st, ledger, nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(ctx, b))
		time.Sleep(10 * time.Minute)
		assert.True(t, r.Health().Paused, "while it waits")
		require.Eventually(t, func() bool {
			rec, err := st.Get(ctx, b.Key())
			require.NoError(t, err)
			_, err = r.Cancel(ctx, rec, batch.By{Actor: "ada", Reason: "not wanted"})
			return err == nil
		}, time.Minute, time.Second)
		time.Sleep(3 * time.Minute)
		assert.False(t, r.Health().Paused, "nothing waits")
		stop()
		require.NoError(t, <-done)
	})
}

// readOnlyStore is a store that answers reads and refuses writes, like a server that was demoted.
type readOnlyStore struct {
	*memory.Store
	isReadOnly atomic.Bool
}

var errReadOnly = fmt.Errorf("%w: cannot execute UPDATE in a read-only transaction", store.ErrReadOnly)

func (s *readOnlyStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	if s.isReadOnly.Load() {
		return store.Claimed{}, errReadOnly
	}
	return s.Store.Claim(ctx, q, choose)
}

func (s *readOnlyStore) SwapTexts(ctx context.Context, texts ...store.Text) (bool, error) {
	if s.isReadOnly.Load() {
		return false, errReadOnly
	}
	return s.Store.SwapTexts(ctx, texts...)
}

// While there is work, Health shows a database that answers reads and refuses writes as failing: a
// read that succeeds does not end the failure, and the first write that succeeds does.
func TestADatabaseThatTakesNoWritesIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &readOnlyStore{Store: memory.New()}
		r, err := dltbatch.New(st, ledgermem.New(nil), nil)
		require.NoError(t, err)
		keepRunning(t, r)
		time.Sleep(time.Minute)
		require.Equal(t, http.StatusOK, readyStatus(t, probe.Ready(r, nil)))
		st.isReadOnly.Store(true)
		require.NoError(t, r.Add(t.Context(), batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}))
		time.Sleep(12 * time.Second)
		for range 60 {
			time.Sleep(time.Second)
			require.Equal(t, http.StatusServiceUnavailable, readyStatus(t, probe.Ready(r, nil)))
		}
		require.ErrorIs(t, r.Health().Store.Err, errReadOnly)
		st.isReadOnly.Store(false)
		time.Sleep(20 * time.Second)
		require.Equal(t, http.StatusOK, readyStatus(t, probe.Ready(r, nil)))
	})
}

// A Run that begins during a failover waits, reports that, and delivers once the database takes
// writes.
func TestRunBeginsOnADatabaseThatTakesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := &readOnlyStore{Store: memory.New()}, &eventRecorder{}
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Observer: seen})
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		st.isReadOnly.Store(true)
		stop := startRun(t, r)
		time.Sleep(10 * time.Minute)
		require.ErrorIs(t, r.Health().Trouble, store.ErrReadOnly)
		require.Equal(t, http.StatusServiceUnavailable, readyStatus(t, probe.Ready(r, nil)))
		require.NotEmpty(t, seen.ofKind(batch.EventTrouble))
		require.ErrorIs(t, seen.ofKind(batch.EventTrouble)[0].Err, store.ErrReadOnly)
		require.NoError(t, stop(), "it can be stopped meanwhile")

		stop = startRun(t, r)
		time.Sleep(time.Minute)
		st.isReadOnly.Store(false)
		time.Sleep(10 * time.Second)
		require.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		require.Equal(t, http.StatusOK, readyStatus(t, probe.Ready(r, nil)))
		require.NoError(t, stop())
	})
}

// An idle Runner, too, notices that its database refuses writes, although it writes only the row
// of its instance.
func TestAnIdleRunnerSeesADatabaseThatTakesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &readOnlyStore{Store: memory.New()}
		r, err := dltbatch.New(st, ledgermem.New(nil), nil)
		require.NoError(t, err)
		keepRunning(t, r)
		time.Sleep(time.Minute)
		require.Empty(t, r.Health().Attention(time.Now()))
		st.isReadOnly.Store(true)
		time.Sleep(87 * time.Second) // the row is written within 76 s, and Ready waits for 10 s
		for range 600 {
			time.Sleep(time.Second)
			require.Equal(t, http.StatusServiceUnavailable, readyStatus(t, probe.Ready(r, nil)))
		}
		require.ErrorIs(t, r.Health().Store.Err, errReadOnly)
		causes := r.Health().Attention(time.Now())
		require.Len(t, causes, 2)
		assert.Equal(t, health.PartDatabase, causes[0].Part)
		assert.Equal(t, health.PartBatches, causes[1].Part, "nobody can keep a count")
		st.isReadOnly.Store(false)
		time.Sleep(17 * time.Second)
		assert.Equal(t, http.StatusOK, readyStatus(t, probe.Ready(r, nil)))
		assert.Empty(t, r.Health().Attention(time.Now()))
	})
}

// A batch that needs a person's decision is a cause in the verdict of every instance, and so are
// open batches of which none moves. A pause that a person made is not a cause.
func TestAttentionToBatches(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.Resolves = false
		var fault atomic.Uint32
		fault.Store(uint32(ledgermem.LostRequest))
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.FaultKind(fault.Load())}
		}})
		st := memory.New()
		r, err := dltbatch.New(st, ledger, nil)
		require.NoError(t, err)
		other, err := dltbatch.New(st, ledgermem.New(nil), nil)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 2)
		go func() { done <- r.Run(ctx) }()
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(ctx, b))
		time.Sleep(5 * time.Minute)
		go func() { done <- other.Run(ctx) }()
		time.Sleep(time.Minute)
		for _, r := range []*dltbatch.Runner{r, other} {
			all := r.Health().Attention(time.Now())
			at := slices.IndexFunc(all, func(a health.Attention) bool { return a.Text == "A person has to decide about 1 batch." })
			require.GreaterOrEqual(t, at, 0, "%v", all)
			require.Equal(t, health.PartBatches, all[at].Part)
			require.False(t, all[at].Since.IsZero())
		}
		rec, err := r.Get(ctx, b.Key())
		require.NoError(t, err)
		_, err = r.Decide(ctx, rec, batch.NotExecutedReject, batch.By{Actor: "ada", Reason: "it is not there"})
		require.NoError(t, err)

		_, err = r.Pause(ctx, batch.Everything(), batch.By{Actor: "ada", Reason: "maintenance"})
		require.NoError(t, err)
		require.NoError(t, r.Add(ctx, batch.Batch{ID: "c", Service: "s", Payload: []byte("x")}))
		time.Sleep(time.Hour)
		assert.Empty(t, r.Health().Attention(time.Now()), "a person paused it")
		stop()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
	})
}

func readyStatus(t *testing.T, h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ready", nil))
	return w.Code
}
