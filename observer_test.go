package dltbatch_test

import (
	"context"
	"errors"
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
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

type tenantKey struct{}

func withTenant(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tenantKey{}, name)
}

// tenantObserver remembers, for each kind of event, the tenants in the events' contexts, and
// whether a context was done.
type tenantObserver struct {
	mu           sync.Mutex
	byKind       map[batch.EventKind]map[any]int
	doneContexts int
}

func (o *tenantObserver) Observe(ctx context.Context, e batch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKind == nil {
		o.byKind = map[batch.EventKind]map[any]int{}
	}
	if o.byKind[e.Kind] == nil {
		o.byKind[e.Kind] = map[any]int{}
	}
	o.byKind[e.Kind][ctx.Value(tenantKey{})]++
	if ctx.Err() != nil {
		o.doneContexts++
	}
}

func (o *tenantObserver) tenantsOf(kind batch.EventKind) map[any]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byKind[kind]
}

// An event that a call causes has the values of that call's context.
func TestObserverGetsTheCallersValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenantObserver{}
		ledger, relent := newRefusingLedger("bad", "worse", "halts")
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen, Policy: batch.PolicyQuarantine})
		ctx := t.Context()
		bad, worse, waits, halts := newBatch("s", "bad"), newBatch("s", "worse"), newBatch("late", "waits"), newBatch("strict", "halts")
		_, err := r.Pause(withTenant(ctx, "pause"), batch.Only("late"), somebody)
		require.NoError(t, err)
		strict, err := r.SetPolicy(withTenant(ctx, "policy"), batch.Control{Scope: batch.Only("strict")}, batch.PolicyHalt, somebody)
		require.NoError(t, err)
		require.NoError(t, r.Add(withTenant(ctx, "add"), bad, worse, waits, halts))
		_, err = r.Cancel(withTenant(ctx, "cancel"), recordOf(t, r, waits), somebody)
		require.NoError(t, err)
		stop := startRun(t, r)
		awaitFinal(t, r, bad)
		awaitFinal(t, r, worse)
		awaitFinal(t, r, halts)
		require.NoError(t, stop())
		relent()
		_, err = r.Acquit(withTenant(ctx, "acquit"), recordOf(t, r, worse), somebody)
		require.NoError(t, err)
		_, err = r.Requeue(withTenant(ctx, "requeue"), recordOf(t, r, bad), somebody)
		require.NoError(t, err)
		c, err := r.Control(ctx, batch.Only("late"))
		require.NoError(t, err)
		_, err = r.Resume(withTenant(ctx, "resume"), c, somebody)
		require.NoError(t, err)
		strict, err = r.Control(ctx, strict.Scope)
		require.NoError(t, err)
		_, err = r.Release(withTenant(ctx, "release"), strict, somebody)
		require.NoError(t, err)

		assert.Equal(t, map[any]int{"add": 4}, seen.tenantsOf(batch.EventAdded))
		assert.Equal(t, map[any]int{"pause": 1, "cancel": 1, "acquit": 1, "requeue": 1, "policy": 1, "resume": 1, "release": 1},
			seen.tenantsOf(batch.EventOperated))
	})
}

// The event of a decision has the values of the caller's context, too.
func TestObserverGetsTheValuesOfADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenantObserver{}
		traits := ledgermem.Unforgiving(0)
		traits.Resolves = false
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.LostRequest}
		}})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen})
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		stop := startRun(t, r)
		time.Sleep(time.Minute)
		require.NoError(t, stop())
		_, err := r.Decide(withTenant(t.Context(), "decide"), recordOf(t, r, b), batch.NotExecutedReject, somebody)
		require.NoError(t, err)
		assert.Equal(t, map[any]int{"decide": 1}, seen.tenantsOf(batch.EventOperated))
	})
}

// misconfiguredLedger is a ledger that is misconfigured at first, and gives one service another
// name than the rest.
type misconfiguredLedger struct {
	*ledgermem.Ledger
	misconfiguredUntil time.Time
}

func (l misconfiguredLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := l.Ledger.Traits(s)
	if s == "nameless" {
		t.Name = ""
	}
	return t
}

func (l misconfiguredLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if time.Now().Before(l.misconfiguredUntil) {
		return dlt.ErrMisconfigured
	}
	return l.Ledger.Submit(ctx, a)
}

// failingPruneStore is a store whose Prune fails.
type failingPruneStore struct{ store.Store }

func (failingPruneStore) Prune(context.Context, store.PruneQuery) (store.Pruned, error) {
	return store.Pruned{}, errors.New("no")
}

// slowRefusalLedger is a ledger that refuses this client after a second.
type slowRefusalLedger struct{ *ledgermem.Ledger }

func (slowRefusalLedger) Submit(context.Context, batch.Attempt) error {
	time.Sleep(time.Second)
	return dlt.ErrMisconfigured
}

// An event during the stop has a context that is not done.
func TestObserverGetsAContextThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenantObserver{}
		r := newRunner(t, memory.New(), slowRefusalLedger{ledgermem.New(nil)}, &dltbatch.Options{Observer: seen})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "b")))
		ctx, stop := context.WithCancel(withTenant(t.Context(), "run"))
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second / 2)
		stop()
		require.NoError(t, <-ended)
		assert.Equal(t, map[any]int{"run": 1}, seen.tenantsOf(batch.EventPaused))
		assert.Zero(t, seen.doneContexts)
	})
}

// All other events have the values of Run's context.
func TestObserverGetsTheValuesOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenantObserver{}
		ledger := misconfiguredLedger{ledgermem.New(nil), time.Now().Add(3 * time.Second)}
		r := newRunner(t, failingPruneStore{memory.New()}, ledger, &dltbatch.Options{Observer: seen})
		for range 2 { // each Run has a context of its own
			ctx, stop := context.WithCancel(withTenant(t.Context(), "run"))
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			require.NoError(t, r.Add(t.Context(), newBatch("s", "b"), newBatch("nameless", "n")))
			time.Sleep(time.Minute)
			stop()
			require.NoError(t, <-ended)
		}
		for _, kind := range []batch.EventKind{batch.EventPaused, batch.EventResumed, batch.EventLaneHeld, batch.EventTrouble} {
			got := seen.tenantsOf(kind)
			assert.Positive(t, got["run"], kind)
			assert.Len(t, got, 1, kind)
		}
	})
}
