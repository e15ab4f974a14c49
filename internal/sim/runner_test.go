package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

var runnerSeeds = flag.Int("sim.runner.seeds", tier.Seeds(20, 100), "seeds of layer two, divided among the ledgers")

// failingStore is a store on which one call in ten fails, by seed: before the call does anything,
// or after it has done everything.
type failingStore struct {
	*flaky.Store
	hints       *flaky.Hints
	mu          sync.Mutex
	lostReplies map[batch.ID]bool // batches whose outcome was written although the answer was lost
}

func newFailingStore(t *testing.T, seed uint64) *failingStore {
	h := flaky.NewHints(memory.New(), seed)
	s := &failingStore{Store: &flaky.Store{Store: h, Faults: flaky.New(seed, 10)}, hints: h, lostReplies: map[batch.ID]bool{}}
	s.Faults.SetCalm(false)
	t.Cleanup(func() { t.Log(s.Faults, h) })
	return s
}

// isInjectedFault reports whether an error is one of the store's faults.
func (s *failingStore) isInjectedFault(err error) bool {
	return errors.Is(err, flaky.ErrBefore) || errors.Is(err, flaky.ErrAfter)
}

func (s *failingStore) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	a, err := s.Store.Record(ctx, o)
	if errors.Is(err, flaky.ErrAfter) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range o {
			s.lostReplies[o[i].Key.ID] = true
		}
	}
	return a, err
}

// runAgainOnFault runs a Runner, and runs it again if its first read of the store has failed.
func runAgainOnFault(ctx context.Context, r *dltbatch.Runner) error {
	for {
		if err := r.Run(ctx); !errors.Is(err, flaky.ErrBefore) && !errors.Is(err, flaky.ErrAfter) {
			return err
		}
	}
}

// addUntilStored repeats an Add until it succeeds, as a caller does.
func (s *failingStore) addUntilStored(t *testing.T, r *dltbatch.Runner, b batch.Batch) {
	for {
		err := r.Add(t.Context(), b)
		if err == nil {
			return
		}
		if !s.isInjectedFault(err) {
			require.NoError(t, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRunner runs two Runners on one store, stops and restarts them, and compares the ledger's
// journal and the records with the added batches.
func TestRunner(t *testing.T) {
	tier.Long(t)
	for n := uint64(1); n <= uint64(*runnerSeeds); n++ {
		if !t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if n%uint64(len(ledgerKinds)+1) == uint64(len(ledgerKinds)) {
					runSplinterSeed(t, n)
				} else {
					runRunnerSeed(t, n, serialLanes())
				}
			})
		}) {
			t.Fatalf("seed %d: run it alone: go test ./internal/sim -run 'TestRunner/seed=%d$'", n, n)
		}
	}
}

// TestParallelRunner does the same with a strategy by which every batch leaves at once that
// conflicts with no batch before it, and with a ledger that executes concurrent batches in any
// order. The final state is the same as after executing all batches one by one.
func TestParallelRunner(t *testing.T) {
	differ := 0
	seeds := uint64(*runnerSeeds+3) / 4
	for n := uint64(1); n <= seeds; n++ {
		if !t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { differ += runRunnerSeed(t, n, parallelLanes(n)) })
		}) {
			t.Fatalf("seed %d: run it alone: go test ./internal/sim -run 'TestParallelRunner/seed=%d$'", n, n)
		}
	}
	t.Logf("%d of %d lanes executed in another order than they were added in", differ, 3*seeds)
	require.Greater(t, differ, int(seeds)/4, "lanes executed in another order than they were added in")
}

// TestPipelinedRunner does the same with several batches of a lane under way, on ledgers that keep
// the order of submission. Some batches that the ledger lost in its restart are sent again behind
// others that it kept. No other batch is, and each such case is reported.
func TestPipelinedRunner(t *testing.T) {
	for n := uint64(1); n <= uint64(*runnerSeeds+1)/2; n++ {
		if !t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runRunnerSeed(t, n, pipelinedLanes(n)) })
		}) {
			t.Fatalf("seed %d: run it alone: go test ./internal/sim -run 'TestPipelinedRunner/seed=%d$'", n, n)
		}
	}
}

// ledgerFaults returns the faults of a ledger for the real Runner.
func ledgerFaults(seed uint64, k ledgerKind) ledgermem.Faults {
	faults := ledgermem.Faults{
		Seed: seed, Busy: 0.05, Unavailable: 0.03, Misconfigured: 0.01, LostRequest: 0.05, LostReply: 0.08,
		Late: 0.08, Hang: 0.02, HangAccepted: 0.03, MaxLatency: 300 * time.Millisecond, MaxDelay: k.traits.LateArrival, LastAttempt: 4,
	}
	if k.ignoresDuplicates {
		faults.InvalidFirst, faults.MaxDelay = 0.05, k.traits.Settle/2
	}
	return faults
}

// runRunnerSeed runs one seed. It returns the number of lanes that were executed in another order
// than they were added in.
func runRunnerSeed(t *testing.T, seed uint64, l *laneSetup) (differ int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	k := ledgerKinds[seed%uint64(len(ledgerKinds))]
	faults := ledgerFaults(seed, k)
	k.traits.MaxInFlightPerService, k.traits.KeepsOrder, k.traits.MaxList = l.maxInFlight, l.keepsOrder, l.maxBatchesPerRequest
	ledger := ledgermem.New(&ledgermem.Options{
		Traits: &k.traits, IgnoreDuplicates: k.ignoresDuplicates, DeduplicateFor: k.dedupFor,
		CommitAfter: time.Duration(rng.IntN(1000)) * time.Millisecond, Fault: faults.Fault,
	})
	st := newFailingStore(t, seed)
	var mu sync.Mutex
	told := map[batch.ID]bool{}  // batches that were reported as behind others
	heard := map[batch.ID]bool{} // batches that were reported as decided against
	observer := batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		mu.Lock()
		defer mu.Unlock()
		told[e.Key.ID] = told[e.Key.ID] || e.Kind == batch.EventOrderBreach
		heard[e.Key.ID] = heard[e.Key.ID] || e.State == batch.Invalid
	})
	var runners []*dltbatch.Runner
	for range 2 {
		r, err := dltbatch.New(st, ledger, &dltbatch.Options{
			Strategy: l.strategy, RequestTimeout: requestTimeout, ClaimTTL: claimTTL, StuckAfter: 3 * time.Hour, Retry: dltbatch.RetryPolicy{MaxDelay: 4 * time.Second},
			Observer: observer,
		})
		require.NoError(t, err)
		runners = append(runners, r)
	}
	all, stop := context.WithCancel(t.Context())
	runFor := func(r *dltbatch.Runner, d time.Duration) {
		ctx, cancel := context.WithTimeout(all, d)
		defer cancel()
		require.NoError(t, runAgainOnFault(ctx, r))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runFor(runners[0], time.Duration(rng.IntN(20000))*time.Millisecond)
		runFor(runners[0], 100*time.Hour)
	}()

	order := map[batch.ServiceID][]batch.ID{}
	for i := range 12 + rand.New(rand.NewPCG(seed, 3)).IntN(20) {
		b := batch.Batch{
			ID: batch.ID(fmt.Sprintf("b%03d", i)), Service: batch.ServiceID(fmt.Sprint("s", i%3)),
			Payload: fmt.Appendf(nil, "batch %d", i),
		}
		l.setFootprint(&b)
		st.addUntilStored(t, runners[i%2], b)
		order[b.Service] = append(order[b.Service], b.ID)
		time.Sleep(50 * time.Millisecond)
	}
	runFor(runners[1], 15*time.Second)
	ledger.Restart()
	if seed%2 == 0 { // a second time, while batches that it forgot are under way again
		runFor(runners[1], time.Duration(rng.IntN(8000))*time.Millisecond)
		ledger.Restart()
		t.Log("the node restarted twice")
	}
	runFor(runners[1], 30*time.Second)
	st.Faults.SetCalm(true)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Hour)
	defer cancel()
	require.NoError(t, runners[1].Idle(ctx), "promise 6")
	if l.keepsOrder {
		mu.Lock()
		for id := range st.lostReplies { // the process that writes such an outcome again cannot know the state before it
			heard[id] = false
		}
		checkOrderKept(t, ledger, order, told, heard)
		mu.Unlock()
	} else if l.footprints != nil {
		differ = l.checkSameState(t, ledger, order)
	} else if k.dedupFor == 0 {
		require.NoError(t, ledger.Verify(order))
	}
	for service, ids := range order {
		committed := map[batch.ID]bool{}
		for _, id := range ledger.Log(service) {
			require.False(t, committed[id], "promise 3: %s executed twice", id)
			committed[id] = true
		}
		for _, id := range ids {
			rec, err := runners[0].Await(ctx, batch.Key{Service: service, ID: id})
			require.NoError(t, err, "promise 1")
			require.Equal(t, committed[id], rec.State == batch.Committed, "promise 10: %s is %s", id, rec.State)
		}
	}
	require.ErrorIs(t, runners[0].Run(ctx), dltbatch.ErrRunning)
	start := time.Now()
	stop()
	<-done
	require.LessOrEqual(t, time.Since(start), 30*time.Second, "a stop lasts no longer than Drain")
	return differ
}

// TestFairness is promise 7, for every strategy: a thousand batches in one lane delay another lane
// by at most one round. A round is the batches of one claim, which are at most as many as there
// are posting goroutines.
func TestFairness(t *testing.T) {
	tier.Plain(t)
	for name, c := range map[string]struct {
		strategy queuer.Strategy
		apart    bool // true if no batches of the long lane conflict
	}{
		"serial":                  {queuer.Serial(), true},
		"pipelined":               {queuer.Pipelined(10), true},
		"pipelined, all at once":  {queuer.Pipelined(1000), true},
		"parallel":                {queuer.Parallel(0), true},
		"parallel, all conflicts": {queuer.Parallel(0), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkFairness(t, c.strategy, c.apart) })
		})
	}
}

func checkFairness(t *testing.T, strategy queuer.Strategy, apart bool) {
	const hands = 8
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: time.Second, Latency: 10 * time.Millisecond})
	var mu sync.Mutex
	var rounds []batch.ServiceID // the services of the claimed batches, each service once a round
	last := map[batch.ServiceID]time.Time{}
	observer := batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == batch.EventClaimed && last[e.Key.Service] != e.At {
			last[e.Key.Service] = e.At
			rounds = append(rounds, e.Key.Service)
		}
	})
	r, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Strategy: strategy, Pool: hands, Observer: observer})
	require.NoError(t, err)
	footprint := func(i int) (f batch.Footprint) {
		if apart {
			f.Writes = []string{fmt.Sprintf("%06x", i)}
		}
		return f
	}
	var many []batch.Batch
	for i := range 1000 {
		many = append(many, batch.Batch{ID: batch.ID(fmt.Sprintf("m%04d", i)), Service: "many", Payload: []byte("x"), Footprint: footprint(i)})
	}
	require.NoError(t, r.Add(t.Context(), many...))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	time.Sleep(5 * time.Second) // the long lane is being delivered by then
	for i := range 20 {
		one := batch.Batch{ID: batch.ID(fmt.Sprint("one", i)), Service: batch.ServiceID(fmt.Sprint("one", i)), Payload: []byte("x")}
		mu.Lock()
		before := len(rounds)
		mu.Unlock()
		require.NoError(t, r.Add(ctx, one))
		_, err := r.Await(ctx, one.Key())
		require.NoError(t, err)
		mu.Lock()
		at := slices.Index(rounds[before:], one.Service)
		mu.Unlock()
		require.LessOrEqual(t, at, 2, "one that was under way, and one round before the single")
		time.Sleep(137 * time.Millisecond)
	}
	cancel()
	require.NoError(t, <-done)
}

// TestHangingServices is the second part of promise 7: services whose requests hang do not delay
// the others.
func TestHangingServices(t *testing.T) {
	for name, scope := range pressureScopes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkHangingServices(t, scope) })
		})
	}
}

func checkHangingServices(t *testing.T, scope dlt.PressureScope) {
	traits := ledgermem.Unforgiving(time.Second)
	traits.PressureScope = scope
	ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(a batch.Attempt) ledgermem.Fault {
		if a.Service[0] == 'h' {
			return ledgermem.Fault{Kind: ledgermem.Hang}
		}
		return ledgermem.Fault{}
	}})
	r, err := dltbatch.New(memory.New(), ledger, &dltbatch.Options{Pool: 8})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for i := range 40 {
		s := batch.ServiceID(fmt.Sprintf("h%02d", i))
		require.NoError(t, r.Add(ctx, batch.Batch{ID: batch.ID("b-" + s), Service: s, Payload: []byte("x")}))
	}
	time.Sleep(2 * time.Minute) // by now the services are known to hang, and they go on hanging
	start := time.Now()
	for i := range 20 {
		s := batch.ServiceID(fmt.Sprintf("good%02d", i))
		b := batch.Batch{ID: batch.ID("b-" + s), Service: s, Payload: []byte("x")}
		require.NoError(t, r.Add(ctx, b))
		rec, err := r.Await(ctx, b.Key())
		require.NoError(t, err)
		require.Equal(t, batch.Committed, rec.State)
	}
	require.Less(t, time.Since(start), 20*time.Second)
	cancel()
	require.NoError(t, <-done)
}
