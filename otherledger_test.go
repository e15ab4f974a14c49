package dltbatch_test

import (
	"context"
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
	"github.com/dltbatch/dltbatch/store/memory"
)

// A process's route of a service leads to another ledger, which cannot even be served. The process
// asks that ledger nothing about the batches in flight, because the answers would end their
// doubts.
func TestAnotherLedgerThatCannotServeIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		first := ledgermem.New(&ledgermem.Options{CommitAfter: time.Hour})
		stop := startRun(t, newRunner(t, st, first, nil))
		require.NoError(t, st.Add(t.Context(), newBatch("s", "a")))
		time.Sleep(time.Minute)
		require.NoError(t, stop())

		asked := 0
		second := otherLedgerForService("s", &asked, func(t *dlt.Traits) {
			t.ResendHarmlessFor = 48 * time.Hour // too long for this Retention, so the ledger cannot be served
		})
		r := newRunner(t, st, second, &dltbatch.Options{Retention: 24 * time.Hour})
		stop = startRun(t, r)
		time.Sleep(30 * time.Minute)
		require.NoError(t, stop())
		stop = startRun(t, newRunner(t, st, first, nil))
		time.Sleep(3 * time.Hour)
		require.NoError(t, stop())
		assert.Zero(t, asked)
		assert.Equal(t, []batch.ID{"a"}, first.Log("s"))
	})
}

// namedBytesLedger is a ledger whose prepared bytes contain its name.
type namedBytesLedger struct {
	*ledgermem.Ledger
	name              string
	askedOf, postedTo *[]string
}

func (l namedBytesLedger) Traits(s batch.ServiceID) dlt.Traits {
	t := l.Ledger.Traits(s)
	t.Name, t.Prepares, t.Resolves = l.name, true, false
	return t
}
func (l namedBytesLedger) Prepare(_ context.Context, a batch.Attempt) ([]byte, error) {
	*l.askedOf = append(*l.askedOf, l.name)
	return []byte("offset of " + l.name), nil
}
func (l namedBytesLedger) Submit(ctx context.Context, a batch.Attempt) error {
	*l.postedTo = append(*l.postedTo, l.name+" with "+string(a.Prepared))
	return l.Ledger.Submit(ctx, a)
}

// If a route changes between a claim and its request, the new ledger prepares nothing: its bytes
// would be kept with the batch and sent with it later. The refused call is not counted by Calls or
// Health.
func TestAnotherLedgerPreparesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved atomic.Bool
		var asked, posted []string
		first := namedBytesLedger{ledgermem.New(nil), "first", &asked, &posted}
		second := namedBytesLedger{ledgermem.New(nil), "second", &asked, &posted}
		router := newRouter(t,
			dlt.Route{Ledger: first, Serves: func(batch.ServiceID) bool { return !moved.Load() }},
			dlt.Route{Ledger: second})
		told := &callRecorder{}
		r := newRunner(t, memory.New(), router, &dltbatch.Options{Calls: told, Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventClaimed && e.Attempt == 1 {
				moved.Store(true) // between the claim and the request
			}
		})})
		keepRunning(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		time.Sleep(10 * time.Minute)
		assert.Empty(t, told.callsOf("ledger", "prepare"))
		assert.Empty(t, told.callsOf("ledger", "submit"))
		assert.Len(t, told.callsOf("store", "claim"), 1, "nothing is claimed from a lane that is held")
		assert.Equal(t, health.PartHealth{}, r.Health().Ledger)
		moved.Store(false)
		assert.Equal(t, batch.Committed, awaitFinal(t, r, newBatch("s", "a")).State)
		assert.NotContains(t, asked, "second")
		assert.Equal(t, []string{"first with offset of first"}, posted)
	})
}

// Requeue uses the ResendQuiet of the ledger that serves the service. A process whose route leads
// to another ledger refuses the requeue.
func TestRequeueWhereAnotherLedgerServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		var posts []time.Time
		first := changeTraits(ledgermem.New(&ledgermem.Options{Fault: func(a batch.Attempt) ledgermem.Fault {
			posts = append(posts, time.Now())
			return ledgermem.Fault{}
		}}), func(_ batch.ServiceID, t *dlt.Traits) { t.Name, t.ResendQuiet = "first", 21*time.Minute })
		r := newRunner(t, st, first, nil)
		stop := startRun(t, r)
		b := newBatch("s", "a")
		b.Payload = []byte("invalid")
		require.NoError(t, r.Add(t.Context(), b))
		rec, err := r.Await(t.Context(), b.Key())
		require.NoError(t, err)
		require.Equal(t, batch.Invalid, rec.State)
		// A process whose routes are all served by the right ledgers can requeue the batch.
		second := newRunner(t, st, newRouter(t, dlt.Route{Ledger: namedLedger("second", nil, nil), Serves: func(s batch.ServiceID) bool { return s == "other" }}), &dltbatch.Options{})
		_, err = second.Requeue(t.Context(), rec, batch.By{Actor: "ann"})
		require.ErrorIs(t, err, dltbatch.ErrOtherLedger)
		other := newRunner(t, st, namedLedger("second", nil, nil), nil)
		_, err = other.Requeue(t.Context(), rec, batch.By{Actor: "ann"})
		require.ErrorIs(t, err, dltbatch.ErrOtherLedger)
		_, err = r.Requeue(t.Context(), rec, batch.By{Actor: "ann"})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, stop())
		require.Len(t, posts, 2)
		assert.GreaterOrEqual(t, posts[1].Sub(posts[0]), 21*time.Minute)
	})
}

// A process removes the old batches of a service that another ledger serves, and keeps their
// tombstones, because the traits of its own ledger do not hold for that service.
func TestRetentionOfAnotherLedgersBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		first := ledgermem.New(nil) // this ledger executes duplicates
		r := newRunner(t, st, first, &dltbatch.Options{Retention: time.Hour})
		stop := startRun(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		_, err := r.Await(t.Context(), newBatch("s", "a").Key())
		require.NoError(t, err)
		require.NoError(t, stop())
		// Another instance has another route for s: it holds s, and still removes the old batches
		// of s.
		second := changeTraits(ledgermem.New(nil), func(s batch.ServiceID, t *dlt.Traits) {
			if s == "s" {
				t.Name, t.ResendHarmlessFor, t.AddAgainHarmless = "other", dlt.Forever, true
			}
		})
		stop = startRun(t, newRunner(t, st, second, &dltbatch.Options{Retention: time.Hour}))
		time.Sleep(2 * time.Hour)
		require.NoError(t, stop())
		stop = startRun(t, r)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")), "the caller adds it once more")
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.ID{"a"}, first.Log("s"), "executed once")
		require.NoError(t, stop())
	})
}
