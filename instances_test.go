package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
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

// slowCallCounter is a store that is slow and counts its calls.
type slowCallCounter struct {
	store.Store
	claims, scans, lanes *atomic.Int64
}

func (c slowCallCounter) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	time.Sleep(2 * time.Millisecond)
	claimed, err := c.Store.Claim(ctx, q, choose)
	c.claims.Add(1)
	c.lanes.Add(int64(len(q.Lanes)))
	return claimed, err
}

func (c slowCallCounter) Lanes(ctx context.Context, q store.LanesQuery) ([]batch.ServiceID, error) {
	time.Sleep(20 * time.Millisecond)
	c.scans.Add(1)
	return c.Store.Lanes(ctx, q)
}

func (c slowCallCounter) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	time.Sleep(2 * time.Millisecond)
	return c.Store.Record(ctx, o)
}

// Three instances on one database do not all claim from the same lanes. For the same work they
// together make at most about twice as many claims as one instance, and look at twice the lanes.
func TestThreeInstancesAreNoHerd(t *testing.T) {
	tier.Plain(t)
	const lanes, deep = 2000, 4
	traits := ledgermem.Unforgiving(0)
	traits.GroupsByService = false
	traits.PressureScope = dlt.ScopeEndpoint
	work := func(t *testing.T, instances int) (c slowCallCounter, took time.Duration) {
		c = slowCallCounter{memory.New(), new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)}
		l := ledgermem.New(&ledgermem.Options{Traits: &traits, Latency: 5 * time.Millisecond, CommitAfter: 20 * time.Millisecond})
		begin := time.Now()
		var runners []*dltbatch.Runner
		for range instances {
			r := newRunner(t, c, l, nil)
			stop := startRun(t, r)
			defer func() { require.NoError(t, stop()) }()
			runners = append(runners, r)
		}
		time.Sleep(time.Second)
		for from := range lanes / 500 { // one instance adds to the lanes, as one process of an application does
			var group []batch.Batch
			for k := range deep {
				for i := range 500 {
					lane := from*500 + i
					group = append(group, newBatch(batch.ServiceID(fmt.Sprint("lane", lane)), batch.ID(fmt.Sprint(lane, "-", k))))
				}
			}
			require.NoError(t, runners[from%instances].Add(t.Context(), group...))
		}
		waitIdle(t, runners[0])
		return c, time.Since(begin)
	}
	synctest.Test(t, func(t *testing.T) {
		a, alone := work(t, 1)
		b, together := work(t, 3)
		t.Logf("one: %d claims, %d scans, %d lanes looked at, %s", a.claims.Load(), a.scans.Load(), a.lanes.Load(), alone)
		t.Logf("three: %d claims, %d scans, %d lanes looked at, %s", b.claims.Load(), b.scans.Load(), b.lanes.Load(), together)
		// On one processor the count is sometimes a twentieth more than twice, since scheduling
		// varies.
		assert.LessOrEqual(t, b.claims.Load(), 2*a.claims.Load()+a.claims.Load()/4, "claims")
		assert.LessOrEqual(t, b.lanes.Load(), 2*a.lanes.Load(), "lanes that claims look at")
		assert.LessOrEqual(t, b.scans.Load(), 3*a.scans.Load()+3, "scans")
		assert.LessOrEqual(t, together, alone+alone/4)
	})
}

// noStatusLedger is a ledger that answers no status query of this instance.
type noStatusLedger struct{ *ledgermem.Ledger }

func (noStatusLedger) BatchStatuses(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
	return nil, errors.New("no answer")
}

// An instance that does not see the outcomes of its batches does not delay new batches of their
// lanes for long: another instance sees the outcomes, and sends this one no hint.
func TestALaneThatAnotherInstanceSetsFreeIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, l, seen := memory.New(), ledgermem.New(nil), &eventRecorder{}
		o := dltbatch.Options{ScanInterval: time.Hour, Observer: seen}
		r, other := newRunner(t, st, noStatusLedger{l}, &o), newRunner(t, st, l, &dltbatch.Options{ScanInterval: time.Hour})
		for _, r := range []*dltbatch.Runner{r, other} {
			stop := startRun(t, r)
			defer func() { require.NoError(t, stop()) }()
		}
		synctest.Wait()
		for i := range 3 {
			b := newBatch("s", batch.ID(fmt.Sprint(i)))
			added := time.Now()
			require.NoError(t, r.Add(t.Context(), b))
			awaitFinal(t, other, b)
			synctest.Wait() // until the observer has got the event
			claims := seen.ofKind(batch.EventClaimed)
			require.Len(t, claims, i+1)
			assert.Less(t, claims[i].At.Sub(added), 100*time.Millisecond)
		}
	})
}

// refusedBeforeStore is a store to which another instance always writes a refusal first.
type refusedBeforeStore struct{ store.Store }

func (s refusedBeforeStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	for _, o := range o {
		if o.Finding != store.Refused {
			continue
		}
		if _, err := s.Store.Record(ctx, []store.Outcome{o}); err != nil {
			return nil, err
		}
	}
	return s.Store.Record(ctx, o)
}

// Another instance was faster, and has notified only itself. The slower instance's outcome changes
// nothing, and this tells the slower instance that the lane may go on.
func TestALaneWhoseBatchAnotherInstanceDecidedIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := refusedBeforeStore{memory.New()}
		r := newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{ScanInterval: time.Minute, PollInterval: time.Minute})
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		synctest.Wait()
		b := newBatch("s", "a")
		b.Payload = []byte("reject")
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Second)
		next, begin := newBatch("s", "b"), time.Now()
		require.NoError(t, r.Add(t.Context(), next))
		awaitFinal(t, r, next)
		assert.Less(t, time.Since(begin), time.Second)
		require.Equal(t, batch.Rejected, awaitFinal(t, r, b).State)
	})
}

// secondLateLedger is a ledger that takes a second to answer.
type secondLateLedger struct{ *ledgermem.Ledger }

func (l secondLateLedger) Submit(ctx context.Context, a batch.Attempt) error {
	time.Sleep(time.Second)
	return l.Ledger.Submit(ctx, a)
}

// A Wake while a run of the lane is under way, for example after an AddTx, does not hide the end
// of the run: a look at the lane would find nothing then, and the lane would afterwards wait for a
// scan.
func TestAWakeDoesNotHideTheEndOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := refusedBeforeStore{memory.New()}
		r := newRunner(t, st, secondLateLedger{ledgermem.New(nil)}, &dltbatch.Options{ScanInterval: time.Minute, PollInterval: time.Minute})
		stop := startRun(t, r)
		defer func() { require.NoError(t, stop()) }()
		synctest.Wait()
		b := newBatch("s", "a")
		b.Payload = []byte("reject")
		begin := time.Now()
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Second / 2)
		next := newBatch("s", "b")
		require.NoError(t, st.Add(t.Context(), next))
		r.Wake("s")
		awaitFinal(t, r, next)
		assert.Less(t, time.Since(begin), 3*time.Second)
	})
}
