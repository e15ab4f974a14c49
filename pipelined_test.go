package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// addLane adds n batches of a service: "00", "01", and so on.
func addLane(t *testing.T, r *dltbatch.Runner, s batch.ServiceID, n int) (ids []batch.ID) {
	t.Helper()
	var batches []batch.Batch
	for i := range n {
		b := newBatch(s, batch.ID(fmt.Sprintf("%02d", i)))
		batches, ids = append(batches, b), append(ids, b.ID)
	}
	require.NoError(t, r.Add(t.Context(), batches...))
	return ids
}

// postedIDs returns the batches in the order in which their POSTs started.
func postedIDs(l *ledgermem.Ledger) (ids []batch.ID) {
	for _, e := range l.Journal() {
		if e.Kind == ledgermem.PostStart {
			ids = append(ids, e.Key.ID)
		}
	}
	return ids
}

func waitIdle(t *testing.T, r *dltbatch.Runner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	require.NoError(t, r.Idle(ctx))
}

// maxUnderWay returns the largest number of batches that were accepted and not executed at one
// time.
func maxUnderWay(l *ledgermem.Ledger) (most int) {
	n := 0
	for _, e := range l.Journal() {
		switch {
		case e.Kind == ledgermem.PostEnd && e.Err == nil:
			n++
		case e.Kind == ledgermem.Executed:
			n--
		}
		most = max(most, n)
	}
	return most
}

func TestPipelinedDoesNotWaitForCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{Latency: 10 * time.Millisecond, CommitAfter: 10 * time.Second})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(20)})
		ids := addLane(t, r, "s", 100)
		keepRunning(t, r)
		begin := time.Now()
		waitIdle(t, r)
		assert.Less(t, time.Since(begin), time.Minute, "five commits of 10 s, not a hundred")
		assert.Equal(t, ids, postedIDs(ledger), "each once, in order")
		assert.Equal(t, ids, ledger.Log("s"))
		assert.Equal(t, 20, maxUnderWay(ledger))
	})
}

// MaxInFlightPerService limits the batches in flight, even if the strategy would send more.
func TestPipelinedHeedsMaxInFlightPerService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.MaxInFlightPerService = 7
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: time.Second})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(20)})
		ids := addLane(t, r, "s", 50)
		keepRunning(t, r)
		waitIdle(t, r)
		assert.Equal(t, ids, ledger.Log("s"))
		assert.Equal(t, 7, maxUnderWay(ledger))
	})
}

// A failure stops the run: its later batches are put back, their attempts are not spent, and they
// do not overtake the failed batch.
func TestPipelinedStopsAtAFailure(t *testing.T) {
	for name, fault := range map[string]ledgermem.FaultKind{
		"busy": ledgermem.Busy, "unavailable": ledgermem.Unavailable, "misconfigured": ledgermem.Misconfigured,
		"request lost": ledgermem.LostRequest, "reply lost": ledgermem.LostReply, "late": ledgermem.Late, "hangs": ledgermem.HangAccepted,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ledger *ledgermem.Ledger
				ledger = ledgermem.New(&ledgermem.Options{CommitAfter: 3 * time.Second, Fault: func(a batch.Attempt) ledgermem.Fault {
					if a.ID == "03" && !slices.Contains(postedIDs(ledger), "03") {
						return ledgermem.Fault{Kind: fault, Delay: 500 * time.Millisecond}
					}
					return ledgermem.Fault{}
				}})
				seen := &eventRecorder{}
				r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(20), Retry: dltbatch.RetryPolicy{QuickRetries: -1}, Observer: seen})
				ids := addLane(t, r, "s", 10)
				keepRunning(t, r)
				waitIdle(t, r)
				assert.Equal(t, ids, ledger.Log("s"))
				require.NoError(t, ledger.Verify(map[batch.ServiceID][]batch.ID{"s": ids}))
				assert.Equal(t, ids, slices.Compact(postedIDs(ledger)), "it is tried again before anything after it is tried at all")
				for _, id := range ids {
					rec, err := r.Get(t.Context(), batch.Key{Service: "s", ID: id})
					require.NoError(t, err)
					assert.Zero(t, rec.Spent)
				}
				assert.Empty(t, seen.ofKind(batch.EventOrderBreach))
			})
		})
	}
}

// A batch that is refused for good, or whose verdict is Invalid, does not hold up the batches
// behind it, as with any strategy.
func TestPipelinedGoesOnAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 3 * time.Second})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(20)})
		var batches []batch.Batch
		for i, verb := range []string{"", "", "reject", "", "invalid", ""} {
			batches = append(batches, batch.Batch{Service: "s", ID: batch.ID(fmt.Sprint(i)), Payload: []byte(verb + " payload")})
		}
		require.NoError(t, r.Add(t.Context(), batches...))
		keepRunning(t, r)
		waitIdle(t, r)
		assert.Equal(t, []batch.ID{"0", "1", "3", "5"}, ledger.Log("s"))
		assert.Equal(t, batch.Rejected, awaitFinal(t, r, batches[2]).State)
		assert.Equal(t, batch.Invalid, awaitFinal(t, r, batches[4]).State)
		assert.Equal(t, []batch.ID{"0", "1", "2", "3", "4", "5"}, postedIDs(ledger))
	})
}

// postCountLedger is a ledger that counts the POSTs of each service that are in flight.
type postCountLedger struct {
	*ledgermem.Ledger
	mu          sync.Mutex
	inFlight    map[batch.ServiceID]int
	maxInFlight int
}

func (g *postCountLedger) Submit(ctx context.Context, a batch.Attempt) error {
	g.mu.Lock()
	g.inFlight[a.Service]++
	g.maxInFlight = max(g.maxInFlight, g.inFlight[a.Service])
	g.mu.Unlock()
	err := g.Ledger.Submit(ctx, a)
	g.mu.Lock()
	g.inFlight[a.Service]--
	g.mu.Unlock()
	return err
}

// claimCheckStore is a store that checks every claim: no batch of a lane may be claimed while
// another batch of the lane is Submitting.
type claimCheckStore struct {
	store.Store
	t              *testing.T
	claims         int
	lanesLeftAlone int // how many times a claim met a lane with a Submitting batch
	mu             sync.Mutex
}

func (w *claimCheckStore) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	return w.Store.Claim(ctx, q, func(l batch.Lane) []batch.Run {
		runs := choose(l)
		w.mu.Lock()
		defer w.mu.Unlock()
		if slices.ContainsFunc(l.Batches, func(b batch.LaneBatch) bool { return b.State == batch.Submitting }) {
			w.lanesLeftAlone++
			assert.Empty(w.t, runs, "of a lane with an unacknowledged run")
		} else if len(runs) > 0 {
			w.claims++
			assert.Len(w.t, runs, 1)
		}
		return runs
	})
}

// Two instances take turns with the runs of a lane, and each of them is stopped for a while.
// Nothing of the lane is sent while either instance has a run of it that is not acknowledged,
// though each looks for work all the time.
func TestTwoPipelinedInstancesNeverShareALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := ledgermem.New(&ledgermem.Options{Latency: 300 * time.Millisecond, CommitAfter: time.Second})
		ledger := &postCountLedger{Ledger: inner, inFlight: map[batch.ServiceID]int{}}
		st := &claimCheckStore{Store: memory.New(), t: t}
		seen := [2]*eventRecorder{{}, {}}
		var runners [2]*dltbatch.Runner
		for i := range runners {
			runners[i] = newRunner(t, st, ledger, &dltbatch.Options{
				Strategy: queuer.Pipelined(8), Observer: seen[i], ScanInterval: 50 * time.Millisecond, Pool: 2, // the pool is smaller than the number of lanes
			})
		}
		order := map[batch.ServiceID][]batch.ID{}
		for s := range 3 {
			service := batch.ServiceID(fmt.Sprint("s", s))
			for i := range 60 {
				b := newBatch(service, batch.ID(fmt.Sprintf("%s-%02d", service, i)))
				require.NoError(t, runners[i%2].Add(t.Context(), b))
				order[service] = append(order[service], b.ID)
			}
		}
		stops := [2]func() error{startRun(t, runners[0]), startRun(t, runners[1])}
		time.Sleep(5 * time.Second) // about a third of the time
		require.NoError(t, stops[0]())
		time.Sleep(5 * time.Second)
		stops[0] = startRun(t, runners[0])
		require.NoError(t, stops[1]())
		time.Sleep(time.Second)
		stops[1] = startRun(t, runners[1])
		waitIdle(t, runners[0])
		require.NoError(t, inner.Verify(order))
		for service, ids := range order {
			assert.Equal(t, ids, inner.Log(service))
		}
		assert.Equal(t, 1, ledger.maxInFlight, "POSTs of one lane at a time")
		assert.Greater(t, st.claims, 3*60/8, "runs")
		assert.Greater(t, st.lanesLeftAlone, 10, "it was tried often enough")
		for i := range seen {
			assert.Greater(t, len(seen[i].ofKind(batch.EventClaimed)), 10, "instance %d took its part", i)
			assert.Empty(t, seen[i].ofKind(batch.EventLaneHeld))
			assert.Empty(t, seen[i].ofKind(batch.EventOrderBreach))
		}
		for _, stop := range stops {
			require.NoError(t, stop())
		}
	})
}

// namingLedger is a ledger whose answers can say that an accepted attempt had no effect.
func namingLedger(o ledgermem.Options) *ledgermem.Ledger {
	traits := ledgermem.Unforgiving(time.Second)
	o.Traits, o.NameAttempts = &traits, true
	return ledgermem.New(&o)
}

// invalidFirstLedger is a ledger that answers Invalid about the batches whose ids end with end,
// and executes them 10 s later nevertheless.
func invalidFirstLedger(settle time.Duration, end string) *ledgermem.Ledger {
	return ledgermem.New(&ledgermem.Options{
		Traits: &dlt.Traits{
			Name: "memory", KeepsOrder: true, ResendHarmlessFor: dlt.Forever, Grace: 4 * time.Second,
			Settle: settle, MaxIDsPerQuery: 50,
		},
		IgnoreDuplicates: true, CommitAfter: time.Second,
		Fault: func(a batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{InvalidFirst: strings.HasSuffix(string(a.ID), end), Delay: 10 * time.Second}
		},
	})
}

// The ledger loses one batch of a run. The batch is sent again only when all later ones are final,
// and its late place is reported.
func TestPipelinedReportsWhatIsSentAgainBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := namingLedger(ledgermem.Options{CommitAfter: 3 * time.Second, Latency: 200 * time.Millisecond, Fault: func(a batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{FailFirst: a.ID == "01" && a.Number == 1}
		}})
		seen := &eventRecorder{}
		st := memory.New()
		r := newRunner(t, st, ledger, &dltbatch.Options{Strategy: queuer.Pipelined(4), Observer: seen})
		addLane(t, r, "s", 8)
		keepRunning(t, r)
		waitIdle(t, r)
		assert.Equal(t, []batch.ID{"00", "02", "03", "04", "01", "05", "06", "07"}, ledger.Log("s"))
		breach := seen.ofKind(batch.EventOrderBreach)
		require.Len(t, breach, 1)
		assert.Equal(t, batch.Key{Service: "s", ID: "01"}, breach[0].Key)
		assert.Equal(t, 2, breach[0].Attempt)
		assert.ErrorContains(t, breach[0].Err, "behind 02")
	})
}

// Batches that the ledger lost together, in a restart, are sent again in their order, and nothing
// is reported.
func TestPipelinedSendsAgainInOrderWhatWasLostTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 20 * time.Second})
		seen := &eventRecorder{}
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(6), Observer: seen})
		ids := addLane(t, r, "s", 20)
		keepRunning(t, r)
		time.Sleep(10 * time.Second)
		require.Equal(t, ids[:6], postedIDs(ledger))
		ledger.Restart()
		waitIdle(t, r)
		assert.Equal(t, ids, ledger.Log("s"))
		assert.Equal(t, slices.Concat(ids[:6], ids), postedIDs(ledger))
		assert.Empty(t, seen.ofKind(batch.EventOrderBreach))
	})
}

// A ledger that forgets what it has executed may lose one batch and execute the next. It then has
// a trace of neither, and both are sent again in one run. The place of the first one is not
// certain, and this is reported.
func TestPipelinedReportsWhatGoesAgainWithABatchInDoubt(t *testing.T) {
	for _, c := range []struct {
		name     string
		harmless time.Duration
		breaches int
	}{
		{name: "a ledger that forgets", harmless: time.Hour, breaches: 1},
		{name: "a ledger that remembers its commits", harmless: dlt.Forever},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := ledgermem.New(&ledgermem.Options{
					Traits: &dlt.Traits{
						Name: "window", KeepsOrder: true, ResendHarmlessFor: c.harmless, Grace: time.Second, MaxIDsPerQuery: 50,
					},
					DeduplicateFor: time.Hour, Latency: 2 * time.Second, CommitAfter: 2 * time.Second,
				})
				seen := &eventRecorder{}
				r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(4), Observer: seen, FirstPoll: 20 * time.Second, PollInterval: 20 * time.Second})
				addLane(t, r, "s", 2)
				keepRunning(t, r)
				time.Sleep(3 * time.Second)
				ledger.Restart() // loses the first
				time.Sleep(4 * time.Second)
				require.Equal(t, []batch.ID{"01"}, ledger.Log("s"))
				ledger.Restart() // forgets that it executed the second
				waitIdle(t, r)
				require.Equal(t, []batch.ID{"01", "00"}, ledger.Log("s"))
				require.Equal(t, []batch.ID{"00", "01", "00", "01"}, postedIDs(ledger))
				breach := seen.ofKind(batch.EventOrderBreach)
				require.Len(t, breach, c.breaches)
				if c.breaches > 0 {
					assert.Equal(t, batch.ID("00"), breach[0].Key.ID)
					assert.ErrorContains(t, breach[0].Err, "perhaps behind 01")
				}
			})
		})
	}
}

// An Invalid batch is executed after all, behind later batches. This is reported, and no later
// batch is sent before the Invalid batch is settled.
func TestPipelinedReportsAnInvalidThatCommitsBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := invalidFirstLedger(30*time.Second, "01")
		seen := &eventRecorder{}
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(4), Observer: seen})
		ids := addLane(t, r, "s", 6)
		keepRunning(t, r)
		time.Sleep(9 * time.Second)
		assert.Equal(t, ids[:4], postedIDs(ledger), "none leaves while it is not settled")
		waitIdle(t, r)
		assert.Equal(t, []batch.ID{"00", "02", "03", "01", "04", "05"}, ledger.Log("s"))
		breach := seen.ofKind(batch.EventOrderBreach)
		require.Len(t, breach, 1)
		assert.Equal(t, ids[1], breach[0].Key.ID)
		assert.Equal(t, batch.Committed, breach[0].State)
		assert.ErrorContains(t, breach[0].Err, "behind 02")
	})
}

// failingListStore is a store whose lists fail.
type failingListStore struct{ store.Store }

func (failingListStore) List(context.Context, store.ListQuery) ([]batch.Record, store.Cursor, error) {
	return nil, "", errors.New("the list fails")
}

// Promise 6: while the store answers no query about order, the reports about order delay neither
// the outcomes of other batches for long nor the POSTs of a claim.
func TestPipelinedReportsWithoutAnAnswerHoldUpNothing(t *testing.T) {
	const ttl, lanes = 40 * time.Second, 8
	options := func(o dltbatch.Options) *dltbatch.Options {
		o.Strategy, o.ClaimTTL, o.RequestTimeout = queuer.Pipelined(8), ttl, 2*time.Second
		return &o
	}
	finals := func(seen *eventRecorder, n int) (took time.Duration) { // a breach by a commit is the batch's final event, too
		ended := func() (n int) {
			for _, e := range append(seen.ofKind(batch.EventFinal), seen.ofKind(batch.EventOrderBreach)...) {
				if e.State == batch.Committed {
					n++
				}
			}
			return n
		}
		for began := time.Now(); took < time.Hour && ended() < n; took = time.Since(began) {
			time.Sleep(time.Second)
		}
		return took
	}
	t.Run("outcomes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ledger := invalidFirstLedger(10*time.Minute, "first")
			seen := &eventRecorder{}
			r := newRunner(t, failingListStore{memory.New()}, ledger, options(dltbatch.Options{Observer: seen}))
			for i := range lanes {
				s := fmt.Sprint("s", i)
				require.NoError(t, r.Add(t.Context(), newBatch(batch.ServiceID(s), batch.ID(s+"-first")), newBatch(batch.ServiceID(s), batch.ID(s+"-second"))))
			}
			keepRunning(t, r)
			assert.Less(t, finals(seen, 2*lanes), ttl)
			assert.Len(t, seen.ofKind(batch.EventOrderBreach), lanes)
		})
	})
	t.Run("posts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 20 * time.Second})
			seen := &eventRecorder{}
			r := newRunner(t, failingListStore{memory.New()}, ledger, options(dltbatch.Options{Observer: seen}))
			ids := addLane(t, r, "s", 8)
			keepRunning(t, r)
			time.Sleep(10 * time.Second)
			ledger.Restart()
			assert.Less(t, finals(seen, len(ids)), 2*ttl)
			assert.Equal(t, ids, ledger.Log("s"))
			assert.Equal(t, slices.Concat(ids, ids), postedIDs(ledger))
			assert.Len(t, seen.ofKind(batch.EventOrderBreach), 8)
		})
	})
}

func TestNewRefusesPipelinedOnALedgerThatDoesNotKeepOrder(t *testing.T) {
	traits := ledgermem.Unforgiving(time.Second)
	traits.Name, traits.KeepsOrder = "free", false
	ledger := ledgermem.New(&ledgermem.Options{Traits: &traits})
	_, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(8)})
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	assert.ErrorContains(t, err, "pipelined")
	assert.ErrorContains(t, err, `"free"`)
	assert.ErrorContains(t, err, "KeepsOrder")
	newRunner(t, memory.New(), ledger, nil)
	newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Parallel(0)})

	_, err = dltbatch.New(memory.New(), ledgermem.New(nil), &dltbatch.Options{Strategy: queuer.Pipelined(0)})
	require.ErrorIs(t, err, batch.ErrInvalidInput)
	assert.ErrorContains(t, err, "Strategy.Window")
}
