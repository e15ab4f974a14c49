package autobatch_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// simulation is one simulation: a store, a ledger, and instances that start and die.
type simulation struct {
	t             *testing.T
	seed          uint64
	store         *unsettledStore
	books         *checkingLedger
	startedAt     time.Time
	isCalm        atomic.Bool // true if no more faults are made
	options       autobatch.Options
	ctx           context.Context
	waitingEngine *autobatch.Engine // adds and awaits orders, and does not run
	instances     sync.WaitGroup
	addedOrders   map[batch.ServiceID][]order.Order

	mu          sync.Mutex
	engines     []*autobatch.Engine // the present Engine of each instance
	buildCalls  int
	eventCounts map[string]int // number of events of each kind
}

// count counts an event.
func (w *simulation) count(ev autobatch.OrderEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev.Kind {
	case autobatch.EventSettled, autobatch.EventRefused:
		v := ev.Orders[0]
		what := v.State.String()
		if v.State == order.Queued {
			what = "put back"
			if v.Group != ev.Orders[len(ev.Orders)-1].Group {
				what = "halved"
			}
		}
		w.eventCounts[string(ev.Kind)+" "+what]++
	default:
		w.eventCounts[string(ev.Kind)]++
	}
}

func newSimulation(t *testing.T, seed uint64, o autobatch.Options, lo ledgermem.Options) (*simulation, context.CancelFunc) {
	w := &simulation{t: t, seed: seed, options: o, startedAt: time.Now(), engines: make([]*autobatch.Engine, 2), eventCounts: map[string]int{}, addedOrders: map[batch.ServiceID][]order.Order{}}
	w.options.Observer = w.count
	mem := memory.New()
	w.books = newCheckingLedger(mem, &lo)
	w.store = &unsettledStore{Store: mem, books: w.books, unsettled: map[batch.ServiceID]map[batch.ID]bool{}}
	var stop context.CancelFunc
	w.ctx, stop = context.WithCancel(t.Context())
	var err error
	w.waitingEngine, err = autobatch.New(w.store, orderBuilder{}, &o)
	require.NoError(t, err)
	return w, stop
}

// builderError makes a Builder fail sometimes.
func (w *simulation) builderError([]order.Order) error {
	if w.isCalm.Load() {
		return nil
	}
	w.mu.Lock()
	w.buildCalls++
	h := fnv.New64a()
	fmt.Fprint(h, w.seed, "build", w.buildCalls)
	w.mu.Unlock()
	switch h.Sum64() % 20 {
	case 0:
		return errors.New("no key at hand")
	case 1:
		panic("a bug in the application")
	}
	return nil
}

// runInstance runs an instance once, for d at most. last is the call of the store at which it
// dies; 0 if it does not.
func (w *simulation) runInstance(i int, d time.Duration, last uint64, after bool) {
	ctx, cancel := context.WithTimeout(w.ctx, d)
	defer cancel()
	m := &mortalStore{unsettledStore: w.store, lastCall: last, diesAfterCall: after, kill: cancel, onDeath: func() { w.count(autobatch.OrderEvent{Kind: "died"}) }}
	var runner *dltbatch.Runner
	o := w.options
	if i == 0 {
		o.Wake = func(s batch.ServiceID) { runner.Wake(s) }
	}
	engine, err := autobatch.New(m, orderBuilder{err: w.builderError}, &o)
	require.NoError(w.t, err)
	ro := &dltbatch.Options{
		RequestTimeout: 3 * time.Second, ClaimTTL: 12 * time.Second, StuckAfter: 3 * time.Hour, Retry: dltbatch.RetryPolicy{MaxDelay: 4 * time.Second, QuickRetries: -1}, Drain: 5 * time.Second,
	}
	if i == 0 { // the other instance gets no hints from a Runner
		ro.Observer = engine
	}
	runner, err = dltbatch.New(m, w.books, ro)
	require.NoError(w.t, err)
	w.mu.Lock()
	w.engines[i] = engine
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		if err := runner.Run(ctx); err != nil && !m.isDead.Load() {
			w.books.fail("run: %w", err)
		}
	})
	both.Go(func() {
		if err := engine.Run(ctx); err != nil && !m.isDead.Load() {
			w.books.fail("engine: %w", err)
		}
	})
	both.Wait()
}

// runInstances starts an instance again and again, until isCalm; then it runs to the end.
func (w *simulation) runInstances(i int) {
	w.instances.Go(func() {
		rng := rand.New(rand.NewPCG(w.seed, uint64(10+i)))
		for !w.isCalm.Load() && w.ctx.Err() == nil {
			var last uint64
			if rng.IntN(3) > 0 {
				last = 1 + rng.Uint64N(120)
			}
			w.runInstance(i, time.Duration(rng.IntN(20000))*time.Millisecond, last, rng.IntN(2) == 0)
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		}
		w.runInstance(i, 1000*time.Hour, 0, false)
	})
}

// add adds an order through an instance that may die in the call, and then adds it again.
func (w *simulation) add(i int, o order.Order) {
	w.mu.Lock()
	e := w.engines[i]
	w.mu.Unlock()
	if e != nil && i == 0 {
		_ = e.Add(w.t.Context(), o)
	}
	require.NoError(w.t, w.waitingEngine.Add(w.t.Context(), o))
	w.addedOrders[o.Party] = append(w.addedOrders[o.Party], o)
}

// actAsOperator decides about batches that need a decision: a ledger that executes no duplicates
// may get them again.
func (w *simulation) actAsOperator() {
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(30 * time.Second):
		}
		open, _, err := w.store.List(w.ctx, store.ListQuery{Open: true})
		if err != nil {
			continue
		}
		for _, rec := range open {
			if rec.Decision != "" {
				_, _ = w.store.Decide(w.ctx, rec, batch.NotExecutedSendAgain, batch.By{Actor: "test", Reason: "not committed"})
			}
		}
	}
}

// check waits until all is final, and compares the orders with the books.
func (w *simulation) check() {
	t := w.t
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	records := map[order.ID]order.Record{}
	for party, orders := range w.addedOrders {
		for _, o := range orders {
			rec, err := w.waitingEngine.Await(ctx, o.ID)
			require.NoError(t, err, "%s is forgotten: %s", o.ID, w.stuckText(party))
			records[o.ID] = rec
		}
	}
	time.Sleep(90 * time.Second) // late submissions have arrived by then
	for party, orders := range w.addedOrders {
		executed := w.books.executedOrders(party)
		times, place := map[order.ID]int{}, map[order.ID]int{}
		for i, id := range executed {
			times[id]++
			place[id] = i
		}
		last := map[int]int{} // by priority
		for _, o := range orders {
			rec := records[o.ID]
			say := fmt.Sprintf("%s (%s) is %s %v, executed %d times", o.ID, o.Payload, rec.State, rec.Error, times[o.ID])
			switch rec.State {
			case order.Confirmed:
				require.Equal(t, 1, times[o.ID], say)
				require.Equal(t, payPayload, string(o.Payload), say)
			case order.Quarantined:
				require.Zero(t, times[o.ID], say)
				require.NotEqual(t, payPayload, string(o.Payload), say)
			case order.Failed:
				require.Zero(t, times[o.ID], say)
				require.False(t, o.Deadline.IsZero(), say)
				require.False(t, rec.FinalAt.Before(o.Deadline.Truncate(time.Microsecond)), say)
			default:
				require.Fail(t, "not final", say)
			}
			if rec.State == order.Confirmed && rec.Batches == 1 && rec.Group == "" {
				require.GreaterOrEqual(t, place[o.ID], last[o.Priority], "%s is out of order", o.ID)
				last[o.Priority] = place[o.ID]
			}
		}
	}
	require.NoError(t, w.books.check())
	again, _, err := w.store.FinalOrders(ctx, keysOf(records))
	require.NoError(t, err)
	for _, rec := range again {
		require.Equal(t, records[rec.ID], rec, "final is final")
	}
}

// stuckText returns a text about what is not final yet, or "".
func (w *simulation) stuckText(party batch.ServiceID) (say string) {
	open, _, _ := w.store.List(context.Background(), store.ListQuery{Open: true, Service: &party})
	for _, rec := range open {
		say += fmt.Sprintf("\nbatch %s is %s, %s, attempt %d, spent %d of %v, doubt since %s, expires %s, %v", rec.ID, rec.State, rec.Decision, rec.Attempt, rec.Spent, rec.Budget, rec.DoubtSince, rec.ClaimExpires, rec.Error)
	}
	orders, _, _ := w.store.ListOrders(context.Background(), order.ListQuery{Party: &party, States: []order.State{order.Queued, order.Dequeued}})
	for _, rec := range orders {
		say += fmt.Sprintf("\norder %+v", rec)
	}
	return say
}

func keysOf(m map[order.ID]order.Record) (ids []order.ID) {
	for id := range m {
		ids = append(ids, id)
	}
	return ids
}
