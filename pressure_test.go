package dltbatch_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/store/memory"
)

// curableLedger is a ledger that answers every Submit with an error until it is cured.
type curableLedger struct {
	*ledgermem.Ledger
	err     error
	curedAt time.Time
}

func (m *curableLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if err := m.Ledger.Submit(ctx, a); err != nil || !time.Now().Before(m.curedAt) {
		return err
	}
	return m.err
}

// newCurableLedger returns a ledger that accepts nothing for d, and whose PressureScope is the
// endpoint.
func newCurableLedger(err error, d time.Duration) *curableLedger {
	traits := ledgermem.Unforgiving(time.Second)
	traits.PressureScope = dlt.ScopeEndpoint
	cured := time.Now().Add(d)
	return &curableLedger{err: err, curedAt: cured, Ledger: ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
		if time.Now().Before(cured) {
			return ledgermem.Fault{Kind: ledgermem.Unavailable}
		}
		return ledgermem.Fault{}
	}})}
}

func (m *curableLedger) postCount() (n int) {
	for _, e := range m.Journal() {
		if e.Kind == ledgermem.PostStart {
			n++
		}
	}
	return n
}

func addLanes(t *testing.T, r *dltbatch.Runner, lanes int, budget batch.Budget) map[batch.ServiceID][]batch.ID {
	t.Helper()
	order := map[batch.ServiceID][]batch.ID{}
	var batches []batch.Batch
	for i := range lanes {
		for j := range 2 {
			b := newBatch(batch.ServiceID(fmt.Sprintf("s%04d", i)), batch.ID(fmt.Sprintf("b%04d-%d", i, j)))
			b.Budget = budget
			batches = append(batches, b)
			order[b.Service] = append(order[b.Service], b.ID)
		}
	}
	require.NoError(t, r.Add(t.Context(), batches...))
	return order
}

// Promise 10: a misconfiguration uses up no batch of the backlog. It is reported, the ledger is
// tried once in each back-off, and delivery goes on once the configuration is corrected.
func TestAMisconfigurationBurnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := newCurableLedger(&dlt.Error{Op: "submit", Kind: dlt.ErrMisconfigured, StatusCode: 401}, 20*time.Minute)
		ledger.Ledger = ledgermem.New(&ledgermem.Options{Traits: ptr(ledger.Traits("")), Fault: func(batch.Attempt) ledgermem.Fault {
			if time.Now().Before(ledger.curedAt) {
				return ledgermem.Fault{Kind: ledgermem.Misconfigured}
			}
			return ledgermem.Fault{}
		}})
		seen := &eventRecorder{}
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen})
		stop := startRun(t, r)
		order := addLanes(t, r, 100, batch.Budget{Attempts: 1, EveryTry: true})
		time.Sleep(20*time.Minute - time.Second)
		synctest.Wait()
		assert.LessOrEqual(t, ledger.postCount(), 64+40, "what was under way, and then one probe a minute")
		require.Len(t, seen.ofKind(batch.EventPaused), 1)
		require.ErrorIs(t, seen.ofKind(batch.EventPaused)[0].Err, dlt.ErrMisconfigured)
		assert.True(t, r.Health().Paused)
		assert.Equal(t, seen.ofKind(batch.EventPaused)[0].At, r.Health().Pauses[0].Since)
		assert.Empty(t, seen.ofKind(batch.EventFinal))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		require.NoError(t, r.Idle(ctx), "within minutes")
		assert.Len(t, seen.ofKind(batch.EventResumed), 1)
		assert.False(t, r.Health().Paused)
		assert.Empty(t, r.Health().Pauses)
		require.NoError(t, stop())
		require.NoError(t, ledger.Verify(order))
		for s, ids := range order {
			assert.Equal(t, ids, ledger.Log(s), "each committed, on a budget of one")
			for _, id := range ids {
				rec, err := r.Get(t.Context(), batch.Key{Service: s, ID: id})
				require.NoError(t, err)
				assert.Equal(t, 1, rec.Spent)
			}
		}
	})
}

func ptr[T any](v T) *T { return &v }

// busyLedger is a ledger that sends RetryAfter.
type busyLedger struct {
	*ledgermem.Ledger
	busyUntil time.Time
	postTimes []time.Duration
}

func (b *busyLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if left := time.Until(b.busyUntil); left > 0 {
		b.postTimes = append(b.postTimes, left)
		return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy, StatusCode: 429, RetryAfter: 40 * time.Second}
	}
	return b.Ledger.Submit(ctx, a)
}

// Nothing is sent to a busy ledger until its RetryAfter has passed.
func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.PressureScope = dlt.ScopeEndpoint
		ledger := &busyLedger{Ledger: ledgermem.New(&ledgermem.Options{Traits: &traits}), busyUntil: time.Now().Add(2 * time.Minute)}
		r := newRunner(t, memory.New(), ledger, nil)
		stop := startRun(t, r)
		var order map[batch.ServiceID][]batch.ID
		require.NoError(t, r.Add(t.Context(), newBatch("first", "first")))
		time.Sleep(time.Second)
		order = addLanes(t, r, 50, batch.Budget{})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		require.NoError(t, r.Idle(ctx))
		require.NoError(t, stop())
		assert.LessOrEqual(t, len(ledger.postTimes), 4)
		for i := 1; i < len(ledger.postTimes); i++ {
			assert.GreaterOrEqual(t, ledger.postTimes[i-1]-ledger.postTimes[i], 40*time.Second)
		}
		require.NoError(t, ledger.Verify(order))
	})
}

// The ledger of a thousand lanes cannot be reached for ten minutes. All batches end final soon
// after it is back, each executed once and in order.
func TestAThousandLanesOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := newCurableLedger(&dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable}, 10*time.Minute)
		r := newRunner(t, memory.New(), ledger, nil)
		stop := startRun(t, r)
		order := addLanes(t, r, 1000, batch.Budget{Attempts: 3})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Less(t, ledger.postCount(), 64+4*60, "nobody hammers it")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		require.NoError(t, r.Idle(ctx), "all of them, within two minutes")
		require.NoError(t, stop())
		require.NoError(t, ledger.Verify(order))
		for s, ids := range order {
			require.Equal(t, ids, ledger.Log(s))
		}
	})
}

// A batch that the ledger cannot take yet holds only its own lane: the others go on at full speed,
// no attempt is spent, and after StuckAfter one event gives the reason. Once the ledger takes the
// batch, the lane goes on as usual.
func TestNotYetHoldsItsLaneOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.PressureScope = dlt.ScopeEndpoint
		cured := time.Now().Add(3 * time.Hour)
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.Service == "s0000" && time.Now().Before(cured) {
				return ledgermem.Fault{Kind: ledgermem.NotYet}
			}
			return ledgermem.Fault{}
		}})
		seen := &eventRecorder{}
		r := newStartedRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen, StuckAfter: time.Hour})
		order := addLanes(t, r, 20, batch.Budget{Attempts: 1, EveryTry: true})
		time.Sleep(time.Minute)
		synctest.Wait()
		for s, ids := range order {
			for _, id := range ids {
				rec, err := r.Get(t.Context(), batch.Key{Service: s, ID: id})
				require.NoError(t, err)
				if s != "s0000" {
					require.Equal(t, batch.Committed, rec.State, "%s", id)
				} else {
					require.NotEqual(t, batch.Committed, rec.State)
					assert.Zero(t, rec.Spent)
				}
			}
		}
		assert.Empty(t, seen.ofKind(batch.EventPaused), "the ledger is well")
		assert.Empty(t, seen.ofKind(batch.EventDecision))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		first := batch.Key{Service: "s0000", ID: order["s0000"][0]}
		decisions := seen.ofKind(batch.EventDecision)
		require.Len(t, decisions, 1, "once")
		assert.Equal(t, first, decisions[0].Key)
		assert.ErrorContains(t, decisions[0].Err, "not its turn")
		assert.Equal(t, batch.Delayed, decisions[0].State)
		why, err := r.Explain(t.Context(), first)
		require.NoError(t, err)
		assert.Contains(t, why.Decision, "not its turn")
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, id := range order["s0000"] {
			rec, err := r.Get(t.Context(), batch.Key{Service: "s0000", ID: id})
			require.NoError(t, err)
			assert.Equal(t, batch.Committed, rec.State)
			assert.Empty(t, rec.Decision)
		}
	})
}

// Promise 7: after an outage, requests of services that hang do not take the only place in the
// pool from a healthy service for long.
//
// At the end of the outage the gate's pause lasts for 18 s at most: 15 s, and a fifth for jitter.
// Then one request after the other is sent, each 1 s after the one before, because that one hangs
// (`hangsAfter` in `internal/submit`), and the queuer looks for work every 20 ms. The healthy lane
// was added last, behind 40 others, and every lane that is tried again goes behind it: 18 s and 40
// times 1.02 s are less than a minute.
func TestHangingServicesDoNotKeepTheOnlyPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.PressureScope = dlt.ScopeEndpoint
		cured := time.Now().Add(time.Minute)
		ledger := hooked.Wrap(ledgermem.New(&ledgermem.Options{Traits: &traits}), hooked.Hooks{
			Submit: func(ctx context.Context, a batch.Attempt, next func(context.Context, batch.Attempt) error) error {
				switch {
				case time.Now().Before(cured):
					return dlt.ErrBusy
				case strings.HasPrefix(string(a.Service), "hangs"):
					<-ctx.Done()
					return ctx.Err()
				}
				return next(ctx, a)
			},
		})
		r := newStartedRunner(t, memory.New(), ledger, nil)
		require.NoError(t, r.Add(t.Context(), newBatch("first", "first")))
		time.Sleep(time.Minute)
		for i := range 40 {
			require.NoError(t, r.Add(t.Context(), newBatch(batch.ServiceID("hangs"+strconv.Itoa(i)), batch.ID("h"+strconv.Itoa(i)))))
		}
		require.NoError(t, r.Add(t.Context(), newBatch("healthy", "b")))
		began := time.Now()
		_, err := r.Await(t.Context(), newBatch("healthy", "b").Key())
		require.NoError(t, err)
		assert.Less(t, time.Since(began), time.Minute)
	})
}
