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

type tenant struct{}

func from(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, tenant{}, name)
}

// tenants remembers, for each kind of event, the tenants in the events' contexts, and whether a
// context was done.
type tenants struct {
	mu   sync.Mutex
	of   map[batch.EventKind]map[any]int
	done int
}

func (o *tenants) Observe(ctx context.Context, e batch.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[batch.EventKind]map[any]int{}
	}
	if o.of[e.Kind] == nil {
		o.of[e.Kind] = map[any]int{}
	}
	o.of[e.Kind][ctx.Value(tenant{})]++
	if ctx.Err() != nil {
		o.done++
	}
}

func (o *tenants) seen(kind batch.EventKind) map[any]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[kind]
}

// An event that a call causes has the values of that call's context.
func TestObserverGetsTheCallersValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenants{}
		ledger, relent := refuse("bad", "worse", "halts")
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen, Policy: batch.PolicyQuarantine})
		ctx := t.Context()
		bad, worse, waits, halts := one("s", "bad"), one("s", "worse"), one("late", "waits"), one("strict", "halts")
		_, err := r.Pause(from(ctx, "pause"), batch.Only("late"), somebody)
		require.NoError(t, err)
		strict, err := r.SetPolicy(from(ctx, "policy"), batch.Control{Scope: batch.Only("strict")}, batch.PolicyHalt, somebody)
		require.NoError(t, err)
		require.NoError(t, r.Add(from(ctx, "add"), bad, worse, waits, halts))
		_, err = r.Cancel(from(ctx, "cancel"), see(t, r, waits), somebody)
		require.NoError(t, err)
		stop := running(t, r)
		await(t, r, bad)
		await(t, r, worse)
		await(t, r, halts)
		require.NoError(t, stop())
		relent()
		_, err = r.Acquit(from(ctx, "acquit"), see(t, r, worse), somebody)
		require.NoError(t, err)
		_, err = r.Requeue(from(ctx, "requeue"), see(t, r, bad), somebody)
		require.NoError(t, err)
		c, err := r.Control(ctx, batch.Only("late"))
		require.NoError(t, err)
		_, err = r.Resume(from(ctx, "resume"), c, somebody)
		require.NoError(t, err)
		strict, err = r.Control(ctx, strict.Scope)
		require.NoError(t, err)
		_, err = r.Release(from(ctx, "release"), strict, somebody)
		require.NoError(t, err)

		assert.Equal(t, map[any]int{"add": 4}, seen.seen(batch.EventAdded))
		assert.Equal(t, map[any]int{"pause": 1, "cancel": 1, "acquit": 1, "requeue": 1, "policy": 1, "resume": 1, "release": 1},
			seen.seen(batch.EventOperated))
	})
}

// The event of a decision has the values of the caller's context, too.
func TestObserverGetsTheValuesOfADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenants{}
		traits := ledgermem.Unforgiving(0)
		traits.Resolves = false
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.LostRequest}
		}})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen})
		b := one("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		stop := running(t, r)
		time.Sleep(time.Minute)
		require.NoError(t, stop())
		_, err := r.Decide(from(t.Context(), "decide"), see(t, r, b), batch.NotExecutedReject, somebody)
		require.NoError(t, err)
		assert.Equal(t, map[any]int{"decide": 1}, seen.seen(batch.EventOperated))
	})
}

// ailing is a ledger that is misconfigured at first, and gives one service another name than the
// rest.
type ailing struct {
	*ledgermem.Ledger
	until time.Time
}

func (l ailing) Traits(s batch.ServiceID) dlt.Traits {
	t := l.Ledger.Traits(s)
	if s == "nameless" {
		t.Name = ""
	}
	return t
}

func (l ailing) Submit(ctx context.Context, a batch.Attempt) error {
	if time.Now().Before(l.until) {
		return dlt.ErrMisconfigured
	}
	return l.Ledger.Submit(ctx, a)
}

// failingPrune is a store whose Prune fails.
type failingPrune struct{ store.Store }

func (failingPrune) Prune(context.Context, store.PruneQuery) (store.Pruned, error) {
	return store.Pruned{}, errors.New("no")
}

// slowRefusal is a ledger that refuses this client after a second.
type slowRefusal struct{ *ledgermem.Ledger }

func (slowRefusal) Submit(context.Context, batch.Attempt) error {
	time.Sleep(time.Second)
	return dlt.ErrMisconfigured
}

// An event during the stop has a context that is not done.
func TestObserverGetsAContextThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenants{}
		r := newRunner(t, memory.New(), slowRefusal{ledgermem.New(nil)}, &dltbatch.Options{Observer: seen})
		require.NoError(t, r.Add(t.Context(), one("s", "b")))
		ctx, stop := context.WithCancel(from(t.Context(), "run"))
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(time.Second / 2)
		stop()
		require.NoError(t, <-ended)
		assert.Equal(t, map[any]int{"run": 1}, seen.seen(batch.EventPaused))
		assert.Zero(t, seen.done)
	})
}

// All other events have the values of Run's context.
func TestObserverGetsTheValuesOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &tenants{}
		ledger := ailing{ledgermem.New(nil), time.Now().Add(3 * time.Second)}
		r := newRunner(t, failingPrune{memory.New()}, ledger, &dltbatch.Options{Observer: seen})
		for range 2 { // each Run has a context of its own
			ctx, stop := context.WithCancel(from(t.Context(), "run"))
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			require.NoError(t, r.Add(t.Context(), one("s", "b"), one("nameless", "n")))
			time.Sleep(time.Minute)
			stop()
			require.NoError(t, <-ended)
		}
		for _, kind := range []batch.EventKind{batch.EventPaused, batch.EventResumed, batch.EventLaneHeld, batch.EventTrouble} {
			got := seen.seen(kind)
			assert.Positive(t, got["run"], kind)
			assert.Len(t, got, 1, kind)
		}
	})
}
