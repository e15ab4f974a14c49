package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// eventRecorder is an observer that keeps all events.
type eventRecorder struct {
	mu  sync.Mutex
	all []batch.Event
}

func (e *eventRecorder) Observe(_ context.Context, ev batch.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// ofKind returns the events of a kind.
func (e *eventRecorder) ofKind(kind batch.EventKind) (out []batch.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.all {
		if ev.Kind == kind {
			out = append(out, ev)
		}
	}
	return out
}

func newRunner(t *testing.T, st store.Store, l dlt.Ledger, o *dltbatch.Options) *dltbatch.Runner {
	t.Helper()
	r, err := dltbatch.New(st, l, o)
	require.NoError(t, err)
	return r
}

// startRun runs r until the func that it returns is called, which returns Run's error.
func startRun(t *testing.T, r *dltbatch.Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// keepRunning runs r until the test, or its bubble, ends.
func keepRunning(t *testing.T, r *dltbatch.Runner) {
	stop := startRun(t, r)
	t.Cleanup(func() { assert.NoError(t, stop()) })
}

// newStartedRunner returns a Runner that runs until the test, or its bubble, ends.
func newStartedRunner(t *testing.T, st store.Store, l dlt.Ledger, o *dltbatch.Options) *dltbatch.Runner {
	t.Helper()
	r := newRunner(t, st, l, o)
	keepRunning(t, r)
	return r
}

// newBatch returns a batch of a service, with a payload that names the batch.
func newBatch(service batch.ServiceID, id batch.ID) batch.Batch {
	return batch.Batch{Service: service, ID: id, Payload: []byte("payload of " + id)}
}

func awaitFinal(t *testing.T, r *dltbatch.Runner, b batch.Batch) batch.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	rec, err := r.Await(ctx, b.Key())
	require.NoError(t, err)
	return rec
}

func TestABatchIsDeliveredInMilliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &eventRecorder{}
		r := newRunner(t, memory.New(), ledgermem.New(nil), &dltbatch.Options{Observer: seen})
		stop := startRun(t, r)
		synctest.Wait()
		time.Sleep(300 * time.Millisecond)
		begin := time.Now()
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		rec := awaitFinal(t, r, b)
		assert.Equal(t, batch.Committed, rec.State)
		assert.Equal(t, 1, rec.Attempt)
		assert.Less(t, time.Since(begin), 100*time.Millisecond, "nobody waits for a scan or a poll")
		require.NoError(t, stop())
		var kinds []batch.EventKind
		for _, ev := range seen.all {
			assert.Equal(t, b.Key(), ev.Key)
			assert.False(t, ev.At.IsZero())
			kinds = append(kinds, ev.Kind)
		}
		assert.Equal(t, []batch.EventKind{batch.EventAdded, batch.EventClaimed, batch.EventState, batch.EventFinal}, kinds)
	})
}

func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
		stop := startRun(t, r)
		synctest.Wait()
		require.ErrorIs(t, r.Run(t.Context()), dltbatch.ErrRunning)
		require.NoError(t, stop())
		stop = startRun(t, r) // starts again, after the first Run has returned
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		require.NoError(t, stop())
	})
}

func TestRunRefusesAnotherLedgersDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		stop := startRun(t, newRunner(t, st, ledgermem.New(nil), nil))
		synctest.Wait()
		require.NoError(t, stop())
		other := ledgermem.Unforgiving(time.Second)
		other.Name = "other"
		r := newRunner(t, st, ledgermem.New(&ledgermem.Options{Traits: &other}), nil)
		err := r.Run(t.Context())
		require.ErrorIs(t, err, dltbatch.ErrOtherLedger)
		assert.Contains(t, err.Error(), `"memory"`)
		assert.Contains(t, err.Error(), `"other"`)
		assert.False(t, r.Health().Running)

		// Add stores no batch that the first ledger would get.
		err = r.Add(t.Context(), newBatch("s", "a"))
		require.ErrorIs(t, err, dltbatch.ErrOtherLedger)
		assert.Contains(t, err.Error(), `it is "memory", this is "other"`)
		require.ErrorIs(t, r.AddTx(t.Context(), st.Tx(st.Begin()), newBatch("s", "a")), dltbatch.ErrOtherLedger)
		_, err = st.Get(t.Context(), newBatch("s", "a").Key())
		require.ErrorIs(t, err, batch.ErrNotFound)

		nameless := dlt.Traits{}
		_, err = dltbatch.New(memory.New(), ledgermem.New(&ledgermem.Options{Traits: &nameless}), nil)
		require.ErrorIs(t, err, batch.ErrInvalidInput)
	})
}

// lackingLedger is a ledger whose traits declare methods that it lacks.
type lackingLedger struct {
	dlt.Unimplemented
	dlt.Submitter
	dlt.BatchStatusReader
	traits dlt.Traits
}

func (l lackingLedger) Traits(batch.ServiceID) dlt.Traits { return l.traits }

// If the traits declare Prepares and the client has no Prepare, nothing is sent, and Health gives
// the reason.
func TestAMissingPrepareSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := ledgermem.New(nil)
		traits := ledgermem.Unforgiving(time.Second)
		traits.Prepares, traits.PressureScope = true, dlt.ScopeEndpoint
		r := newStartedRunner(t, memory.New(), lackingLedger{Submitter: inner, BatchStatusReader: inner, traits: traits}, nil)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		time.Sleep(time.Minute)
		assert.Empty(t, inner.Log("s"))
		require.Len(t, r.Health().Pauses, 1)
		require.ErrorIs(t, r.Health().Pauses[0].Because, errors.ErrUnsupported)
		require.ErrorIs(t, r.Health().Pauses[0].Because, dlt.ErrMisconfigured)
	})
}

// If the traits declare a check and the client has no Check, every batch is refused.
func TestAMissingCheckRefuses(t *testing.T) {
	inner := ledgermem.New(nil)
	r := newRunner(t, memory.New(), lackingLedger{Submitter: inner, BatchStatusReader: inner, traits: dlt.Traits{Name: "l", Checks: true}}, nil)
	require.ErrorIs(t, r.Add(t.Context(), newBatch("s", "a")), errors.ErrUnsupported)
}

// failingStore is a store that does not work.
type failingStore struct{ store.Store }

var errStore = errors.New("database down")

func (failingStore) Add(context.Context, ...batch.Batch) error { return errStore }
func (failingStore) ReadTexts(context.Context, store.TextKind, ...string) ([]store.Text, time.Time, error) {
	return nil, time.Time{}, errStore
}

func (failingStore) SwapTexts(context.Context, ...store.Text) (bool, error) { return false, errStore }
func (failingStore) Get(context.Context, batch.Key) (batch.Record, error) {
	return batch.Record{}, errStore
}
func (failingStore) List(context.Context, store.ListQuery) ([]batch.Record, store.Cursor, error) {
	return nil, "", errStore
}

func (failingStore) Finals(context.Context, []batch.Key) ([]batch.Record, []batch.Key, error) {
	return nil, nil, errStore
}

func TestErrorsOfTheStoreAreReturned(t *testing.T) {
	r := newRunner(t, failingStore{memory.New()}, ledgermem.New(nil), nil)
	ctx := t.Context()
	require.ErrorIs(t, r.Run(ctx), errStore)
	require.ErrorIs(t, r.Add(ctx, newBatch("s", "a")), errStore)
	_, err := r.Get(ctx, batch.Key{ID: "a"})
	require.ErrorIs(t, err, errStore)
	_, err = r.Await(ctx, batch.Key{ID: "a"})
	require.ErrorIs(t, err, errStore)
	require.ErrorIs(t, r.Idle(ctx), errStore)
}

// checkingLedger is a ledger with a local check.
type checkingLedger struct {
	*ledgermem.Ledger
	check func(batch.Batch) error
}

func (c checkingLedger) Check(b batch.Batch) error { return c.check(b) }

func (c checkingLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := c.Ledger.Traits(s)
	t.Checks = true
	return t
}

// If the local check refuses a batch, nothing of the call is stored, and no hint is sent.
func TestAddStoresNothingThatTheLocalCheckRefuses(t *testing.T) {
	for name, bad := range map[string]func() error{
		"refuses": func() error { return &batch.InputError{Field: "Payload", Want: "better"} },
		"panics":  func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			seen := &eventRecorder{}
			r := newRunner(t, memory.New(), checkingLedger{ledgermem.New(nil), func(b batch.Batch) error {
				if b.ID == "bad" {
					return bad()
				}
				return nil
			}}, &dltbatch.Options{Observer: seen})
			err := r.Add(t.Context(), newBatch("s", "good"), newBatch("s", "bad"))
			require.Error(t, err)
			if name == "refuses" {
				require.ErrorIs(t, err, batch.ErrInvalidInput)
			}
			_, err = r.Get(t.Context(), newBatch("s", "good").Key())
			require.ErrorIs(t, err, batch.ErrNotFound)
			assert.Empty(t, seen.all)
			require.NoError(t, r.Add(t.Context(), newBatch("s", "good")))
		})
	}
}

func TestGet(t *testing.T) {
	r := newRunner(t, memory.New(), ledgermem.New(nil), nil)
	_, err := r.Get(t.Context(), batch.Key{ID: "x"})
	require.ErrorIs(t, err, batch.ErrNotFound)
	require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
	rec, err := r.Get(t.Context(), newBatch("s", "a").Key())
	require.NoError(t, err)
	assert.Equal(t, batch.Queued, rec.State, "Add does not need Run")
}

// Await works from any process, whether or not Run runs there. Invalid and Rejected batches are
// records, not errors.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, ledger := memory.New(), ledgermem.New(&ledgermem.Options{CommitAfter: 5 * time.Second})
		r, other := newRunner(t, st, ledger, nil), newRunner(t, st, ledger, nil)
		stop := startRun(t, r)
		for id, want := range map[string]batch.State{"fine": batch.Committed, "invalid": batch.Invalid, "reject": batch.Rejected} {
			b := batch.Batch{Service: batch.ServiceID(id), ID: batch.ID(id), Payload: []byte(id)}
			require.NoError(t, other.Add(t.Context(), b))
			begin := time.Now()
			rec := awaitFinal(t, other, b)
			assert.Equal(t, want, rec.State)
			assert.True(t, rec.Final())
			assert.LessOrEqual(t, time.Since(begin), 8*time.Second)
			if want != batch.Committed {
				require.NotNil(t, rec.Error)
			}
		}
		_, err := r.Await(t.Context(), batch.Key{ID: "x"})
		require.ErrorIs(t, err, batch.ErrNotFound)
		require.NoError(t, stop())

		require.NoError(t, r.Add(t.Context(), newBatch("s", "waits")))
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		rec, err := r.Await(ctx, newBatch("s", "waits").Key())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, batch.Queued, rec.State, "how far it has come")
	})
}

// hangingGetStore is a store whose Get does not answer.
type hangingGetStore struct{ *memory.Store }

func (hangingGetStore) Get(ctx context.Context, _ batch.Key) (batch.Record, error) {
	<-ctx.Done()
	return batch.Record{}, ctx.Err()
}

// An Await whose deadline has passed waits half a second more for a database that does not answer.
// An Await whose context is cancelled returns at once.
func TestAwaitAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, hangingGetStore{memory.New()}, ledgermem.New(nil), nil)
		b := newBatch("s", "a")
		require.NoError(t, r.Add(t.Context(), b))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		begin := time.Now()
		rec, err := r.Await(ctx, b.Key())
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, batch.Record{Key: b.Key()}, rec)
		assert.Equal(t, 1500*time.Millisecond, time.Since(begin))

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin = time.Now()
		_, err = r.Await(ctx, b.Key())
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Second, time.Since(begin))
	})
}

func TestManyMayAwaitTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newStartedRunner(t, memory.New(), ledgermem.New(&ledgermem.Options{CommitAfter: time.Minute}), nil)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("s", "a")).State) })
		}
		wg.Wait()
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memory.New(), ledgermem.New(&ledgermem.Options{CommitAfter: 10 * time.Second}), nil)
		require.NoError(t, r.Idle(t.Context()), "nothing is stored")
		for i := range 3 {
			require.NoError(t, r.Add(t.Context(), newBatch(batch.ServiceID(fmt.Sprint(i)), batch.ID(fmt.Sprint(i)))))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, r.Idle(ctx), context.DeadlineExceeded)
		keepRunning(t, r)
		require.NoError(t, r.Idle(t.Context()))
		for i := range 3 {
			rec, err := r.Get(t.Context(), batch.Key{Service: batch.ServiceID(fmt.Sprint(i)), ID: batch.ID(fmt.Sprint(i))})
			require.NoError(t, err)
			assert.Equal(t, batch.Committed, rec.State)
		}
	})
}

// Idle returns when another process has delivered the batches, also while an Await of the same
// Runner begins and ends.
func TestIdleHearsOtherProcesses(t *testing.T) {
	tier.Hints(t)
	synctest.Test(t, func(t *testing.T) {
		st, o := memory.New(), &dltbatch.Options{PollInterval: time.Hour}
		waits := newRunner(t, st, ledgermem.New(nil), o)
		require.NoError(t, waits.Add(t.Context(), newBatch("s", "a"), newBatch("t", "b")))
		ended := make(chan error, 1)
		go func() { ended <- waits.Idle(t.Context()) }()
		synctest.Wait()
		began := time.Now()
		newStartedRunner(t, st, ledgermem.New(&ledgermem.Options{CommitAfter: 10 * time.Second}), nil)
		awaitFinal(t, waits, newBatch("s", "a"))
		require.NoError(t, <-ended)
		assert.Less(t, time.Since(began), time.Minute)
	})
}

// slowClaimStore is a store whose claims take long.
type slowClaimStore struct {
	store.Store
	claimCalls atomic.Int64
	claimTime  time.Duration
}

func (s *slowClaimStore) Claim(ctx context.Context, q store.ClaimQuery, f store.Choose) (store.Claimed, error) {
	s.claimCalls.Add(1)
	time.Sleep(s.claimTime)
	return s.Store.Claim(ctx, q, f)
}

// A claim is put back if it took so long that no request fits into its rest. This is reported, and
// the lane rests instead of being claimed again at once.
func TestAClaimThatLeavesNoTimeIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		o         dltbatch.Options
		claimTime time.Duration
	}{
		"the quick retries fit": {dltbatch.Options{ClaimTTL: 20250 * time.Millisecond}, 300 * time.Millisecond},
		"no quick retries":      {dltbatch.Options{ClaimTTL: 20002 * time.Millisecond, Retry: dltbatch.RetryPolicy{QuickRetries: -1}}, 3 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, seen := &slowClaimStore{Store: memory.New(), claimTime: c.claimTime}, &eventRecorder{}
				c.o.Observer = seen
				r := newStartedRunner(t, st, ledgermem.New(nil), &c.o)
				time.Sleep(time.Minute)
				r.Wake("s")
				time.Sleep(time.Minute)
				require.NotZero(t, st.claimCalls.Load())
				require.Empty(t, seen.ofKind(batch.EventTrouble), "a claim of nothing may take long")
				require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
				time.Sleep(5 * time.Minute)
				require.NotEmpty(t, seen.ofKind(batch.EventTrouble))
				require.ErrorContains(t, seen.ofKind(batch.EventTrouble)[0].Err, "ClaimTTL")
				assert.Less(t, st.claimCalls.Load(), int64(200), "pauses of 5 s, after shorter ones")
				rec, err := r.Get(t.Context(), newBatch("s", "a").Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Queued, rec.State)
				assert.Zero(t, rec.Spent)
			})
		})
	}
}

// After an AddTx, or an Add in another process, Wake makes the batch leave without the wait for a
// scan.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{ScanInterval: time.Hour})
		r.Wake("s") // without a Run, Wake does nothing
		keepRunning(t, r)
		time.Sleep(time.Minute)
		require.NoError(t, st.Add(t.Context(), newBatch("s", "a")))
		begin := time.Now()
		r.Wake("s")
		assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("s", "a")).State)
		assert.Less(t, time.Since(begin), time.Second)

		require.NoError(t, st.Add(t.Context(), newBatch("s", "b")))
		begin = time.Now()
		assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("s", "b")).State)
		assert.Less(t, time.Since(begin), time.Hour+time.Second, "without it a scan finds the batch")
	})
}
