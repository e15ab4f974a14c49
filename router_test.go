package dltbatch_test

import (
	"context"
	"slices"
	"strings"
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
	"github.com/dltbatch/dltbatch/internal/hooked"
	"github.com/dltbatch/dltbatch/store/memory"
)

// namedLedger returns a ledger with a name and faults.
func namedLedger(name string, change func(t *dlt.Traits), fault func(batch.Attempt) ledgermem.Fault) *ledgermem.Ledger {
	traits := ledgermem.Unforgiving(time.Second)
	traits.Name = name
	if change != nil {
		change(&traits)
	}
	return ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: fault})
}

// prefixRoute returns a route for the services with a prefix.
func prefixRoute(l dlt.Ledger, prefix string) dlt.Route {
	return dlt.Route{Ledger: l, Serves: func(s batch.ServiceID) bool { return strings.HasPrefix(string(s), prefix) }}
}

func newRouter(t *testing.T, routes ...dlt.Route) *dlt.Router {
	r, err := dlt.NewRouter(routes...)
	require.NoError(t, err)
	return r
}

// A route whose ledger is full or cannot be reached holds up no batch of another route, even
// before anything was sent to the other route. This holds for pressure by service and for pressure
// by ledger.
func TestARouteThatIsDownHoldsUpNoOther(t *testing.T) {
	for name, scope := range map[string]dlt.PressureScope{"by service": dlt.ScopeService, "as a whole": dlt.ScopeEndpoint} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := namedLedger("down", func(t *dlt.Traits) { t.PressureScope, t.GroupsByService = dlt.ScopeEndpoint, false },
					func(batch.Attempt) ledgermem.Fault { return ledgermem.Fault{Kind: ledgermem.Unavailable} })
				up := namedLedger("up", func(t *dlt.Traits) { t.PressureScope = scope }, nil)
				r := newStartedRunner(t, memory.New(), newRouter(t, prefixRoute(down, "d"), prefixRoute(up, "u")), nil)
				require.NoError(t, r.Add(t.Context(), newBatch("d1", "d")))
				time.Sleep(10 * time.Minute) // as long as the longest pause
				all := statsOf(t, r)
				require.Len(t, all.Instances, 1)
				assert.Equal(t, "down, up", all.Instances[0].Ledger, "each route")
				for _, id := range []batch.ID{"a", "b", "c"} {
					at := time.Now()
					require.NoError(t, r.Add(t.Context(), newBatch("u1", id)))
					_, err := r.Await(t.Context(), newBatch("u1", id).Key())
					require.NoError(t, err)
					assert.Less(t, time.Since(at), 3*time.Second)
				}
				e, err := r.Explain(t.Context(), newBatch("d1", "d").Key())
				require.NoError(t, err)
				assert.Contains(t, e.Text, "Nothing of its lane is posted")
			})
		})
	}
}

// Each ledger of a Router has its own pause. A pause of one is not a pause of all, the end of one
// pause ends no other, and the Runner posts nothing only while each ledger is paused. Health, its
// verdict, the row of the instance, Explain and the events agree about this.
func TestEachLedgerHasItsOwnPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var east, west atomic.Uint32
		route := func(name string, fault *atomic.Uint32) dlt.Route {
			return prefixRoute(namedLedger(name, func(t *dlt.Traits) { t.PressureScope, t.GroupsByService = dlt.ScopeEndpoint, false },
				func(batch.Attempt) ledgermem.Fault {
					return ledgermem.Fault{Kind: ledgermem.FaultKind(fault.Load())}
				}), name)
		}
		seen := &eventRecorder{}
		r := newStartedRunner(t, memory.New(), newRouter(t, route("east", &east), route("west", &west)), &dltbatch.Options{Observer: seen})
		add := func(ids ...string) { // keeps both routes busy
			for _, id := range ids {
				require.NoError(t, r.Add(t.Context(), newBatch("east", "e"+batch.ID(id)), newBatch("west", "w"+batch.ID(id))))
			}
		}
		says := func(text string) bool {
			return slices.ContainsFunc(r.Health().Attention(time.Now()), func(a health.Attention) bool { return strings.HasPrefix(a.Text, text) })
		}
		shows := func(paused bool, ledgers ...string) {
			t.Helper()
			h, row := r.Health(), statsOf(t, r).Instances[0]
			assert.Equal(t, paused, h.Paused)
			assert.Equal(t, paused, row.Paused)
			var own, kept []string
			for i, p := range h.Pauses {
				own, kept = append(own, p.Ledger), append(kept, row.Pauses[i].Ledger)
				assert.True(t, p.All)
				assert.InDelta(t, time.Since(p.Since), row.Pauses[i].For+row.Unseen, float64(time.Second), "since when")
			}
			assert.Equal(t, ledgers, own)
			assert.Equal(t, ledgers, kept)
			assert.Equal(t, paused, says("Nothing is posted: "))
			assert.Equal(t, len(ledgers) == 1, says("Nothing is posted to ledger "))
			assert.Equal(t, paused, h.Ledger.Condition == health.ConditionFailing, "one that works is enough")
		}
		add("1")
		time.Sleep(time.Minute)
		shows(false)

		east.Store(uint32(ledgermem.Unavailable))
		add("2", "3")
		time.Sleep(10 * time.Minute)
		shows(false, "east")
		assert.True(t, says("Nothing is posted to ledger east: the ledger is not reached."))
		assert.Equal(t, health.ConditionFailing, r.Health().Ledgers["east"].Condition)
		assert.Equal(t, health.ConditionOK, r.Health().Ledgers["west"].Condition)

		west.Store(uint32(ledgermem.Misconfigured))
		add("4", "5")
		time.Sleep(10 * time.Minute)
		shows(true, "east", "west")
		assert.True(t, says("Nothing is posted: the ledger refuses this client."), "what needs a person most")
		e, err := r.Explain(t.Context(), newBatch("east", "e5").Key())
		require.NoError(t, err)
		assert.Contains(t, e.Text, "Nothing of its lane is posted: the ledger is not reached.")
		e, err = r.Explain(t.Context(), newBatch("west", "w5").Key())
		require.NoError(t, err)
		assert.Contains(t, e.Text, "Nothing is posted: the ledger refuses this client.")

		since := r.Health().Pauses[0].Since
		west.Store(uint32(ledgermem.None))
		time.Sleep(10 * time.Minute)
		add("6")
		time.Sleep(time.Minute)
		shows(false, "east")
		assert.Equal(t, since, r.Health().Pauses[0].Since, "the other's end did not end it")

		east.Store(uint32(ledgermem.None))
		time.Sleep(10 * time.Minute)
		shows(false)
		assert.Empty(t, r.Health().Attention(time.Now()))
		var told []string
		for _, e := range slices.Concat(seen.ofKind(batch.EventPaused), seen.ofKind(batch.EventResumed)) {
			told = append(told, string(e.Kind)+" "+e.Ledger)
		}
		assert.Equal(t, []string{"paused east", "paused west", "resumed west", "resumed east"}, told)
	})
}

// A database that was used with one ledger can be used with a Router in which that ledger serves
// the old services. A new route serves new services, and known services stay with their route.
func TestRoutesOfAnOlderDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		old, added := namedLedger("old", nil, nil), namedLedger("added", nil, nil)
		run := func(l dlt.Ledger, d time.Duration) *dltbatch.Runner {
			r := newRunner(t, st, l, nil)
			stop := startRun(t, r)
			time.Sleep(d)
			require.NoError(t, stop())
			return r
		}
		require.NoError(t, st.Add(t.Context(), newBatch("a", "a1"), newBatch("b", "b1")))
		run(old, time.Minute)
		require.NoError(t, st.Add(t.Context(), newBatch("a", "a2"), newBatch("new", "n1")))
		run(newRouter(t, prefixRoute(added, "new"), dlt.Route{Ledger: old}), 0)

		// The ledger of the database is that of the first route, or the one that serves "".
		run(newRouter(t, dlt.Route{Ledger: old, Serves: func(s batch.ServiceID) bool { return s != "new" }}, prefixRoute(added, "new")), time.Minute)
		assert.Equal(t, []batch.ID{"a1", "a2"}, old.Log("a"))
		assert.Equal(t, []batch.ID{"n1"}, added.Log("new"))

		// Another route for a known service is refused before anything is sent.
		require.NoError(t, st.Add(t.Context(), newBatch("a", "a3"), newBatch("b", "b2")))
		r := newRunner(t, st, newRouter(t, prefixRoute(old, "b"), prefixRoute(added, "a")), nil)
		stop := startRun(t, r)
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.ServiceID{"a"}, r.Health().HeldServices)
		require.NoError(t, stop())
		assert.Empty(t, added.Log("a"))
		assert.Equal(t, []batch.ID{"b1", "b2"}, old.Log("b"))

		// Without the Router, the old ledger serves its own services, and no service of the other
		// route.
		require.NoError(t, st.Add(t.Context(), newBatch("new", "n2")))
		run(old, time.Minute)
		assert.Equal(t, []batch.ID{"a1", "a2", "a3"}, old.Log("a"))
		assert.Empty(t, old.Log("new"))
		require.ErrorIs(t, newRunner(t, st, added, nil).Run(t.Context()), dltbatch.ErrOtherLedger)
	})
}

// Add refuses a batch of a service without a route. If such a batch is stored nevertheless, the
// service is held.
func TestNoRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		r := newRunner(t, st, newRouter(t, prefixRoute(namedLedger("one", nil, nil), "one")), nil)
		require.ErrorIs(t, r.Add(t.Context(), newBatch("nobody's", "a")), batch.ErrInvalidInput)
		require.NoError(t, st.Add(t.Context(), newBatch("nobody's", "a"), newBatch("one", "b")))
		keepRunning(t, r)
		time.Sleep(time.Minute)
		assert.Equal(t, []batch.ServiceID{"nobody's"}, r.Health().HeldServices)
		rec, err := r.Get(t.Context(), newBatch("one", "b").Key())
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State)
	})
}

// A route that changes during a Run, against its contract, executes nothing twice. A batch in
// doubt at one ledger is neither asked about nor sent at another, and neither is a batch that the
// first ledger accepted. Their services are held and reported until the old route is back.
func TestARouteThatChangesWhileABatchIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved, down atomic.Bool
		traits := ledgermem.Unforgiving(time.Second)
		traits.Name = "first"
		first := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: 10 * time.Second, Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.ID == "a" && down.CompareAndSwap(false, true) {
				moved.Store(true)
				return ledgermem.Fault{Kind: ledgermem.LostReply}
			}
			return ledgermem.Fault{}
		}})
		second := namedLedger("second", nil, nil)
		asked := &atomic.Int64{}
		router := newRouter(t,
			dlt.Route{Ledger: first, Serves: func(batch.ServiceID) bool { return !moved.Load() }},
			dlt.Route{Ledger: hooked.Wrap(second, hooked.Hooks{BatchStatuses: func(ctx context.Context, s batch.ServiceID, as []batch.Attempt,
				next func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error),
			) ([]batch.Status, error) {
				asked.Add(1)
				return next(ctx, s, as)
			}})})
		seen := &eventRecorder{}
		r := newStartedRunner(t, memory.New(), router, &dltbatch.Options{Observer: seen})
		require.NoError(t, r.Add(t.Context(), newBatch("t", "c")))
		time.Sleep(time.Second)
		require.NoError(t, r.Add(t.Context(), newBatch("s", "a"), newBatch("s", "b")))
		time.Sleep(30 * time.Minute)
		assert.Equal(t, []batch.ID{"a"}, first.Log("s"))
		assert.Empty(t, second.Log("s"))
		assert.Zero(t, asked.Load(), "the second ledger knows nothing of it")
		assert.Equal(t, []batch.ServiceID{"s", "t"}, r.Health().HeldServices)
		require.Len(t, seen.ofKind(batch.EventLaneHeld), 2)
		require.ErrorIs(t, seen.ofKind(batch.EventLaneHeld)[0].Err, dltbatch.ErrOtherLedger)
		moved.Store(false)
		for _, b := range []batch.Batch{newBatch("t", "c"), newBatch("s", "a"), newBatch("s", "b")} {
			assert.Equal(t, batch.Committed, awaitFinal(t, r, b).State)
		}
		assert.Equal(t, []batch.ID{"a", "b"}, first.Log("s"))
		assert.Empty(t, r.Health().HeldServices)
	})
}
