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

// world is one simulation: a store, a ledger, and instances that start and die.
type world struct {
	t     *testing.T
	seed  uint64
	st    *watched
	books *books
	start time.Time
	calm  atomic.Bool // true if no more faults are made
	o     autobatch.Options
	all   context.Context
	front *autobatch.Engine // adds and awaits orders, and does not run
	lives sync.WaitGroup
	added map[batch.ServiceID][]order.Order

	mu    sync.Mutex
	now   []*autobatch.Engine // the present Engine of each instance
	deal  int
	tally map[string]int // number of events of each kind
}

// count counts an event.
func (w *world) count(ev autobatch.OrderEvent) {
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
		w.tally[string(ev.Kind)+" "+what]++
	default:
		w.tally[string(ev.Kind)]++
	}
}

func newWorld(t *testing.T, seed uint64, o autobatch.Options, lo ledgermem.Options) (*world, context.CancelFunc) {
	w := &world{t: t, seed: seed, o: o, start: time.Now(), now: make([]*autobatch.Engine, 2), tally: map[string]int{}, added: map[batch.ServiceID][]order.Order{}}
	w.o.Observer = w.count
	mem := memory.New()
	w.books = newBooks(mem, &lo)
	w.st = &watched{Store: mem, books: w.books, unsettled: map[batch.ServiceID]map[batch.ID]bool{}}
	var stop context.CancelFunc
	w.all, stop = context.WithCancel(t.Context())
	var err error
	w.front, err = autobatch.New(w.st, builder{}, &o)
	require.NoError(t, err)
	return w, stop
}

// trip makes a Builder fail sometimes.
func (w *world) trip([]order.Order) error {
	if w.calm.Load() {
		return nil
	}
	w.mu.Lock()
	w.deal++
	h := fnv.New64a()
	fmt.Fprint(h, w.seed, "build", w.deal)
	w.mu.Unlock()
	switch h.Sum64() % 20 {
	case 0:
		return errors.New("no key at hand")
	case 1:
		panic("a bug in the application")
	}
	return nil
}

// live runs an instance once, for d at most. last is the call of the store at which it dies; 0 if
// it does not.
func (w *world) live(i int, d time.Duration, last uint64, after bool) {
	ctx, cancel := context.WithTimeout(w.all, d)
	defer cancel()
	m := &mortal{watched: w.st, last: last, after: after, kill: cancel, died: func() { w.count(autobatch.OrderEvent{Kind: "died"}) }}
	var runner *dltbatch.Runner
	o := w.o
	if i == 0 {
		o.Wake = func(s batch.ServiceID) { runner.Wake(s) }
	}
	engine, err := autobatch.New(m, builder{trip: w.trip}, &o)
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
	w.now[i] = engine
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		if err := runner.Run(ctx); err != nil && !m.dead.Load() {
			w.books.fail("run: %w", err)
		}
	})
	both.Go(func() {
		if err := engine.Run(ctx); err != nil && !m.dead.Load() {
			w.books.fail("engine: %w", err)
		}
	})
	both.Wait()
}

// instance starts an instance again and again, until calm; then it runs to the end.
func (w *world) instance(i int) {
	w.lives.Go(func() {
		rng := rand.New(rand.NewPCG(w.seed, uint64(10+i)))
		for !w.calm.Load() && w.all.Err() == nil {
			var last uint64
			if rng.IntN(3) > 0 {
				last = 1 + rng.Uint64N(120)
			}
			w.live(i, time.Duration(rng.IntN(20000))*time.Millisecond, last, rng.IntN(2) == 0)
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		}
		w.live(i, 1000*time.Hour, 0, false)
	})
}

// add adds an order through an instance that may die in the call, and then adds it again.
func (w *world) add(i int, o order.Order) {
	w.mu.Lock()
	e := w.now[i]
	w.mu.Unlock()
	if e != nil && i == 0 {
		_ = e.Add(w.t.Context(), o)
	}
	require.NoError(w.t, w.front.Add(w.t.Context(), o))
	w.added[o.Party] = append(w.added[o.Party], o)
}

// operate decides about batches that need a decision: a ledger that executes no duplicates may get
// them again.
func (w *world) operate() {
	for {
		select {
		case <-w.all.Done():
			return
		case <-time.After(30 * time.Second):
		}
		open, _, err := w.st.List(w.all, store.ListQuery{Open: true})
		if err != nil {
			continue
		}
		for _, rec := range open {
			if rec.Decision != "" {
				_, _ = w.st.Decide(w.all, rec, batch.NotExecutedSendAgain, batch.By{Actor: "test", Reason: "not committed"})
			}
		}
	}
}

// check waits until all is final, and compares the orders with the books.
func (w *world) check() {
	t := w.t
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	records := map[order.ID]order.Record{}
	for party, orders := range w.added {
		for _, o := range orders {
			rec, err := w.front.Await(ctx, o.ID)
			require.NoError(t, err, "%s is forgotten: %s", o.ID, w.stuck(party))
			records[o.ID] = rec
		}
	}
	time.Sleep(90 * time.Second) // late submissions have arrived by then
	for party, orders := range w.added {
		executed := w.books.executed(party)
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
				require.Equal(t, pay, string(o.Payload), say)
			case order.Quarantined:
				require.Zero(t, times[o.ID], say)
				require.NotEqual(t, pay, string(o.Payload), say)
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
	again, _, err := w.st.FinalOrders(ctx, keysOf(records))
	require.NoError(t, err)
	for _, rec := range again {
		require.Equal(t, records[rec.ID], rec, "final is final")
	}
}

// stuck returns a text about what is not final yet, or "".
func (w *world) stuck(party batch.ServiceID) (say string) {
	open, _, _ := w.st.List(context.Background(), store.ListQuery{Open: true, Service: &party})
	for _, rec := range open {
		say += fmt.Sprintf("\nbatch %s is %s, %s, attempt %d, spent %d of %v, doubt since %s, expires %s, %v", rec.ID, rec.State, rec.Decision, rec.Attempt, rec.Spent, rec.Budget, rec.DoubtSince, rec.ClaimExpires, rec.Error)
	}
	orders, _, _ := w.st.ListOrders(context.Background(), order.ListQuery{Party: &party, States: []order.State{order.Queued, order.Dequeued}})
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
