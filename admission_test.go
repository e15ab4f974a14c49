package dltbatch_test

import (
	"context"
	"slices"
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
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// changeTraits is a ledger whose traits change sets for each service.
func changeTraits(l dlt.Ledger, change func(s batch.ServiceID, t *dlt.Traits)) dlt.Ledger {
	return hooked.Wrap(l, hooked.Hooks{Traits: func(s batch.ServiceID, next func(batch.ServiceID) dlt.Traits) dlt.Traits {
		t := next(s)
		change(s, &t)
		return t
	}})
}

// A ledger declares resends harmless for ever for one service, and executes duplicates of another
// service. Batches of the second service leave tombstones, whatever the traits of the first one
// are.
func TestTombstonesGoByService(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		inner := ledgermem.New(nil) // this ledger executes duplicates
		ledger := changeTraits(inner, func(s batch.ServiceID, t *dlt.Traits) {
			if s == "" {
				t.ResendHarmlessFor, t.AddAgainHarmless = dlt.Forever, true
			}
		})
		r := newStartedRunner(t, memory.New(), ledger, &dltbatch.Options{Retention: time.Hour})
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
		_, err := r.Await(t.Context(), newBatch("s", "a").Key())
		require.NoError(t, err)
		time.Sleep(2 * time.Hour)
		rec, err := r.Get(t.Context(), newBatch("s", "a").Key())
		require.NoError(t, err)
		require.False(t, rec.PrunedAt.IsZero(), "it was removed")
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a")), "the caller adds it once more")
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.ID{"a"}, inner.Log("s"), "executed once")
	})
}

// If a ledger prepares before each POST, a claim must have time for both requests. Otherwise a
// slow preparation would put the batch back each time, without an error. Where the store keeps the
// bytes, they are prepared once.
func TestAClaimHasTimeForBothRequests(t *testing.T) {
	const least = 7 * time.Second // twice RequestTimeout, and the margin of a third of it
	for name, c := range map[string]struct {
		ttl    time.Duration
		renews bool
		isHeld bool
	}{
		"too short":        {least, true, true},
		"just long enough": {least + 1, true, false},
		"kept":             {least, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := ledgermem.New(nil)
				ledger := changeTraits(emptyPrepareLedger{inner}, func(_ batch.ServiceID, t *dlt.Traits) { t.Prepares, t.Renews, t.Resolves = true, c.renews, false })
				seen := &eventRecorder{}
				r := newRunner(t, memory.New(), ledger, &dltbatch.Options{RequestTimeout: 3 * time.Second, ClaimTTL: c.ttl, Retry: dltbatch.RetryPolicy{QuickRetries: -1}, Observer: seen})
				stop := startRun(t, r)
				require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
				time.Sleep(time.Minute)
				require.NoError(t, stop())
				if !c.isHeld {
					assert.Equal(t, []batch.ID{"a"}, inner.Log("s"))
					return
				}
				assert.Empty(t, inner.Log("s"), "nothing was sent")
				i := slices.IndexFunc(seen.all, func(e batch.Event) bool { return e.Kind == batch.EventLaneHeld })
				require.GreaterOrEqual(t, i, 0)
				var inputErr *batch.InputError
				require.ErrorAs(t, seen.all[i].Err, &inputErr)
				assert.Equal(t, "Options.ClaimTTL", inputErr.Field)
				assert.Equal(t, "7s", inputErr.Value)
				assert.Contains(t, inputErr.Want, "dlt.Traits.Renews")
			})
		})
	}
}

// A service that its ledger cannot serve is held with its reason, and the others go on.
func TestAServiceThatCannotBeServedIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change     func(t *dlt.Traits)
		strategy   queuer.Strategy
		wantReason string
	}{
		"retention":      {func(t *dlt.Traits) { t.ResendHarmlessFor = 48 * time.Hour }, queuer.Strategy{}, "Retention"},
		"order":          {func(t *dlt.Traits) { t.KeepsOrder = false }, queuer.Pipelined(4), "KeepsOrder"},
		"no name":        {func(t *dlt.Traits) { t.Name = "" }, queuer.Strategy{}, "Traits.Name"},
		"a panic":        {func(*dlt.Traits) { panic("boom") }, queuer.Strategy{}, "boom"},
		"another ledger": {func(t *dlt.Traits) { t.Name = "other" }, queuer.Strategy{}, "another ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New()
				bad, good := newBatch("bad", "b"), newBatch("good", "g")
				if name == "another ledger" {
					stop := startRun(t, newRunner(t, st, ledgermem.New(nil), nil))
					require.NoError(t, st.Add(t.Context(), newBatch("bad", "before")))
					time.Sleep(time.Minute)
					require.NoError(t, stop())
				}
				inner := ledgermem.New(nil)
				ledger := changeTraits(inner, func(s batch.ServiceID, t *dlt.Traits) {
					if s == "bad" {
						c.change(t)
					}
				})
				seen := &eventRecorder{}
				r := newRunner(t, st, ledger, &dltbatch.Options{Strategy: c.strategy, Retention: 24 * time.Hour, Observer: seen})
				stop := startRun(t, r)
				require.NoError(t, r.Add(t.Context(), bad, good))
				rec, err := r.Await(t.Context(), good.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Committed, rec.State)
				time.Sleep(10 * time.Minute)

				assert.Empty(t, inner.Log("bad"), "nothing of it was sent")
				rec, err = r.Get(t.Context(), bad.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.Queued, rec.State)
				assert.Zero(t, rec.Attempt)
				held := 0
				for _, e := range seen.all {
					if e.Kind == batch.EventLaneHeld {
						held++
						assert.Equal(t, batch.ServiceID("bad"), e.Key.Service)
						assert.ErrorContains(t, e.Err, c.wantReason)
					}
				}
				assert.Equal(t, 1, held, "told of once")
				assert.Equal(t, []batch.ServiceID{"bad"}, r.Health().HeldServices)
				why, err := r.Explain(t.Context(), bad.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.CauseUnserved, why.Cause)
				assert.Equal(t, batch.RemedyLedger, why.Remedy)
				assert.Contains(t, why.Text, c.wantReason)
				desk, err := operator.New(st)
				require.NoError(t, err)
				why, err = desk.Explain(t.Context(), bad.Key())
				require.NoError(t, err)
				assert.Equal(t, batch.CauseUnserved, why.Cause)
				assert.Contains(t, why.Text, c.wantReason, "the instance's row says it")
				now, err := desk.Situation(t.Context(), operator.CausesQuery{})
				require.NoError(t, err)
				require.Len(t, now.Incidents, 1)
				assert.Equal(t, operator.IncidentUnserved, now.Incidents[0].Kind)
				assert.Contains(t, now.Incidents[0].Example.Text, c.wantReason)
				assert.Empty(t, now.Moving)
				require.NoError(t, stop())
				assert.Empty(t, r.Health().HeldServices)
			})
		})
	}
}

// otherLedgerForService is a ledger that names itself differently for one service. It counts
// status queries.
func otherLedgerForService(service batch.ServiceID, asked *int, change func(t *dlt.Traits)) dlt.Ledger {
	l := changeTraits(ledgermem.New(nil), func(s batch.ServiceID, t *dlt.Traits) {
		if s == service {
			t.Name = "other"
			change(t)
		}
	})
	return hooked.Wrap(l, hooked.Hooks{BatchStatuses: func(ctx context.Context, s batch.ServiceID, as []batch.Attempt,
		next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error),
	) ([]batch.Status, error) {
		*asked++
		return next(ctx, s, as)
	}})
}

// A batch that is in flight on another ledger is neither asked about nor settled by this ledger.
func TestAnotherLedgersBatchIsNotAskedAbout(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		first := ledgermem.New(&ledgermem.Options{CommitAfter: time.Hour})
		stop := startRun(t, newRunner(t, st, first, nil))
		require.NoError(t, st.Add(t.Context(), newBatch("s", "a")))
		time.Sleep(time.Minute)
		require.NoError(t, stop())

		asked := 0
		second := otherLedgerForService("s", &asked, func(*dlt.Traits) {})
		r := newRunner(t, st, second, nil)
		stop = startRun(t, r)
		time.Sleep(30 * time.Minute)
		assert.Zero(t, asked)
		why, err := r.Explain(t.Context(), newBatch("s", "a").Key())
		require.NoError(t, err)
		assert.Equal(t, batch.CauseUnserved, why.Cause)
		require.NoError(t, stop())
		stop = startRun(t, newRunner(t, st, first, nil))
		time.Sleep(time.Hour)
		rec, err := st.Get(t.Context(), newBatch("s", "a").Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
		require.NoError(t, stop())
	})
}
