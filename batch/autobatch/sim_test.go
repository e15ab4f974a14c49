package autobatch_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

var seeds = flag.Int("autobatch.seeds", 100, "seeds of the simulation")

// kinds are the ledgers that the seeds are divided among.
var kinds = []struct {
	traits dlt.Traits
	ignore bool
}{
	{traits: dlt.Traits{ // executes duplicates
		Name: "memory", LateArrival: 3 * time.Second, MaxIDsPerQuery: 50, GroupsByService: true,
		PressureScope: dlt.ScopeService, Resolves: true,
	}},
	{ignore: true, traits: dlt.Traits{ // as Sawtooth
		Name: "memory", ResendHarmlessFor: dlt.Forever, Grace: 4 * time.Second,
		ResendQuiet: 60 * time.Second, Settle: 5 * time.Second, MaxIDsPerQuery: 50, Resolves: true,
	}},
	{ignore: true, traits: dlt.Traits{ // and without evidence, so that a person decides
		Name: "memory", ResendHarmlessFor: dlt.Forever, Grace: 4 * time.Second,
		ResendQuiet: 60 * time.Second, Settle: 5 * time.Second, MaxIDsPerQuery: 50,
	}},
}

// mortal is the store as one life of one instance has it. At its last call it dies,
// before the call did anything or after: nobody hears of the answer, and nothing that
// it does later reaches the store.
type mortal struct {
	*watched
	last  uint64 // 0: immortal
	after bool
	calls atomic.Uint64
	dead  atomic.Bool
	kill  context.CancelFunc
	died  func()
}

var errDead = errors.New("this process is dead")

func step[T any](m *mortal, f func() (T, error)) (T, error) {
	var none T
	if m.dead.Load() {
		return none, errDead
	}
	if n := m.calls.Add(1); m.last != 0 && n >= m.last {
		if m.after && n == m.last {
			_, _ = f()
		}
		m.dead.Store(true)
		m.died()
		m.kill()
		return none, errDead
	}
	return f()
}

func (m *mortal) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	return step(m, func() (store.Claimed, error) { return m.watched.Claim(ctx, q, choose) })
}

func (m *mortal) Record(ctx context.Context, o []store.Outcome) ([]store.Applied, error) {
	return step(m, func() ([]store.Applied, error) { return m.watched.Record(ctx, o) })
}

func (m *mortal) AddOrders(ctx context.Context, orders ...batch.Order) error {
	_, err := step(m, func() (bool, error) { return true, m.watched.AddOrders(ctx, orders...) })
	return err
}

func (m *mortal) Parties(ctx context.Context, q store.PartiesQuery) ([]store.PartyLoad, error) {
	return step(m, func() ([]store.PartyLoad, error) { return m.watched.Parties(ctx, q) })
}

func (m *mortal) NextOrders(ctx context.Context, p batch.ServiceID, q store.NextQuery) ([]store.QueuedOrder, error) {
	return step(m, func() ([]store.QueuedOrder, error) { return m.watched.NextOrders(ctx, p, q) })
}

func (m *mortal) PrepareBatch(ctx context.Context, b batch.Batch, o []store.OrderRef) (bool, error) {
	return step(m, func() (bool, error) { return m.watched.PrepareBatch(ctx, b, o) })
}

func (m *mortal) SettleableBatches(ctx context.Context, n int) ([]store.OrderBatch, error) {
	return step(m, func() ([]store.OrderBatch, error) { return m.watched.SettleableBatches(ctx, n) })
}

func (m *mortal) SettleOrders(ctx context.Context, s []store.Settlement) ([]bool, error) {
	return step(m, func() ([]bool, error) { return m.watched.SettleOrders(ctx, s) })
}

func (m *mortal) FailOrders(ctx context.Context, v []store.OrderVerdict) ([]bool, error) {
	return step(m, func() ([]bool, error) { return m.watched.FailOrders(ctx, v) })
}

func (m *mortal) SplitOrders(ctx context.Context, v []store.OrderVerdict) (bool, error) {
	return step(m, func() (bool, error) { return m.watched.SplitOrders(ctx, v) })
}

func (m *mortal) ExpireOrders(ctx context.Context, n int) (int, error) {
	return step(m, func() (int, error) { return m.watched.ExpireOrders(ctx, n) })
}

// world is one simulation: a store, a ledger, and instances that live and die.
type world struct {
	t     *testing.T
	seed  uint64
	st    *watched
	books *books
	start time.Time
	calm  atomic.Bool // nothing goes wrong any more
	o     autobatch.Options
	all   context.Context
	front *autobatch.Engine // adds and awaits, and does not run
	lives sync.WaitGroup
	added map[batch.ServiceID][]batch.Order

	mu    sync.Mutex
	now   []*autobatch.Engine // of each instance
	deal  int
	tally map[string]int // what happened
}

// count keeps the tally.
func (w *world) count(ev autobatch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch ev.Kind {
	case autobatch.EventSettled, autobatch.EventRefused:
		v := ev.Orders[0]
		what := v.State.String()
		if v.State == batch.OrderQueued {
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
	w := &world{t: t, seed: seed, o: o, start: time.Now(), now: make([]*autobatch.Engine, 2), tally: map[string]int{}, added: map[batch.ServiceID][]batch.Order{}}
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

// trip is what goes wrong with a Builder.
func (w *world) trip([]batch.Order) error {
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

// live is one life of an instance. last is the call of the store at which it dies, 0
// for none.
func (w *world) live(i int, d time.Duration, last uint64, after bool) {
	ctx, cancel := context.WithTimeout(w.all, d)
	defer cancel()
	m := &mortal{watched: w.st, last: last, after: after, kill: cancel, died: func() { w.count(autobatch.Event{Kind: "died"}) }}
	var runner *dltbatch.Runner
	o := w.o
	if i == 0 {
		o.Wake = func(s batch.ServiceID) { runner.Wake(s) }
	}
	engine, err := autobatch.New(m, builder{trip: w.trip}, &o)
	require.NoError(w.t, err)
	ro := &dltbatch.Options{
		RequestTimeout: 3 * time.Second, ClaimTTL: 12 * time.Second, StuckAfter: 3 * time.Hour, MaxRetryDelay: 4 * time.Second,
		QuickRetries: -1, Drain: 5 * time.Second,
	}
	if i == 0 { // the other instance has no hints at all
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

// instance lives again and again, until nothing goes wrong any more; then for good.
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

// add adds an order through an instance that may die of it, and then once more.
func (w *world) add(i int, o batch.Order) {
	w.mu.Lock()
	e := w.now[i]
	w.mu.Unlock()
	if e != nil && i == 0 {
		_ = e.Add(w.t.Context(), o)
	}
	require.NoError(w.t, w.front.Add(w.t.Context(), o))
	w.added[o.Party] = append(w.added[o.Party], o)
}

// operate is what a person does about batches that need a decision: a ledger that
// executes no duplicate may get them once more.
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
				_, _ = w.st.Decide(w.all, rec.Key, batch.Unknown, "not committed")
			}
		}
	}
}

// check waits until everything is final, and holds the books against it.
func (w *world) check() {
	t := w.t
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	records := map[batch.OrderID]batch.OrderRecord{}
	for party, orders := range w.added {
		for _, o := range orders {
			rec, err := w.front.Await(ctx, o.ID)
			require.NoError(t, err, "%s is forgotten: %s", o.ID, w.stuck(party))
			records[o.ID] = rec
		}
	}
	time.Sleep(90 * time.Second) // whatever is late comes now
	for party, orders := range w.added {
		executed := w.books.executed(party)
		times, place := map[batch.OrderID]int{}, map[batch.OrderID]int{}
		for i, id := range executed {
			times[id]++
			place[id] = i
		}
		last := map[int]int{} // by priority
		for _, o := range orders {
			rec := records[o.ID]
			say := fmt.Sprintf("%s (%s) is %s %v, executed %d times", o.ID, o.Payload, rec.State, rec.Error, times[o.ID])
			switch rec.State {
			case batch.OrderConfirmed:
				require.Equal(t, 1, times[o.ID], say)
				require.Equal(t, pay, string(o.Payload), say)
			case batch.OrderQuarantined:
				require.Zero(t, times[o.ID], say)
				require.NotEqual(t, pay, string(o.Payload), say)
			case batch.OrderFailed:
				require.Zero(t, times[o.ID], say)
				require.False(t, o.Deadline.IsZero(), say)
				require.False(t, rec.FinalAt.Before(o.Deadline.Truncate(time.Microsecond)), say)
			default:
				require.Fail(t, "not final", say)
			}
			if rec.State == batch.OrderConfirmed && rec.Batches == 1 && rec.Group == "" {
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

// stuck is what is not at rest.
func (w *world) stuck(party batch.ServiceID) (say string) {
	open, _, _ := w.st.List(context.Background(), store.ListQuery{Open: true, Service: &party})
	for _, rec := range open {
		say += fmt.Sprintf("\nbatch %s is %s, %s, attempt %d, spent %d of %v, doubt since %s, expires %s, %v", rec.ID, rec.State, rec.Decision, rec.Attempt, rec.Spent, rec.Budget, rec.DoubtSince, rec.ClaimExpires, rec.Error)
	}
	orders, _, _ := w.st.ListOrders(context.Background(), store.ListOrdersQuery{Party: &party, States: []batch.OrderState{batch.OrderQueued, batch.OrderDequeued}})
	for _, rec := range orders {
		say += fmt.Sprintf("\norder %+v", rec)
	}
	return say
}

func keysOf(m map[batch.OrderID]batch.OrderRecord) (ids []batch.OrderID) {
	for id := range m {
		ids = append(ids, id)
	}
	return ids
}

// TestSimulation: two engines and two Runners on one store, which die at any call of
// it, a ledger that loses, doubles, delays and is away for so long that budgets are
// used up, orders that poison their batches, Builders that fail. Every order ends
// exactly once as what the ledger's books say.
func TestSimulation(t *testing.T) {
	tally := map[string]int{}
	for n := uint64(1); n <= uint64(*seeds); n++ {
		if !t.Run(fmt.Sprintf("seed=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for what, n := range simulate(t, n) {
					tally[what] += n
				}
			})
		}) {
			t.Fatalf("seed %d: run it alone: go test ./batch/autobatch -run 'TestSimulation/seed=%d$'", n, n)
		}
	}
	t.Log(tally)
	if *seeds < 50 {
		return
	}
	for _, what := range []string{ // else the seeds prove nothing
		"prepared", "settled confirmed", "settled quarantined", "settled halved", "settled put back",
		"refused halved", "refused quarantined", "expired", "trouble", "died",
	} {
		require.NotZero(t, tally[what], what)
	}
}

func simulate(t *testing.T, seed uint64) map[string]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	k := kinds[seed%uint64(len(kinds))]
	faults := ledgermem.Faults{
		Seed: seed, Busy: 0.05, Unavailable: 0.03, Misconfigured: 0.01, LostRequest: 0.05, LostReply: 0.08,
		Late: 0.08, Hang: 0.02, HangTaken: 0.03, MaxLatency: 300 * time.Millisecond, MaxDelay: k.traits.LateArrival, Until: 4,
	}
	if k.ignore {
		faults.InvalidFirst, faults.MaxDelay = 0.05, k.traits.Settle/2
	}
	start := time.Now()
	away, back := time.Duration(rng.IntN(20))*time.Second, time.Duration(20+rng.IntN(60))*time.Second
	var restarted atomic.Bool
	outage := rng.IntN(2) == 0
	w, stop := newWorld(t, seed, autobatch.Options{
		MaxSize: 1 + rng.IntN(12), MaxBytes: 20 + rng.IntN(100), MaxAttempts: 1 + rng.IntN(3),
		BatchInterval: time.Second, Drain: 20 * time.Second,
	}, ledgermem.Options{
		Traits: &k.traits, IgnoreDuplicates: k.ignore, CommitAfter: time.Duration(rng.IntN(1000)) * time.Millisecond,
		Fault: func(a batch.Attempt) ledgermem.Fault {
			if since := time.Since(start); outage && since > away && since < back {
				return ledgermem.Fault{Kind: []ledgermem.FaultKind{ledgermem.Busy, ledgermem.Unavailable}[seed%2]}
			}
			f := faults.Fault(a)
			f.InvalidFirst = f.InvalidFirst && restarted.Load() // else it would stay invalid, of a good order
			if strings.HasPrefix(string(a.Payload), refuse) {   // dlt/memory refuses at the door only
				switch f.Kind {
				case ledgermem.LostReply, ledgermem.Late, ledgermem.HangTaken:
					f.Kind = ledgermem.LostRequest
				}
			}
			return f
		},
	})
	w.instance(0)
	w.instance(1)
	if k.ignore && !k.traits.Resolves {
		w.lives.Go(w.operate)
	}
	poison := rng.IntN(6)
	for i := range 30 + rng.IntN(40) {
		o := batch.Order{ID: batch.OrderID(fmt.Sprintf("o%03d", i)), Party: batch.ServiceID(fmt.Sprint("p", rng.IntN(3))), Payload: []byte(pay)}
		switch rng.IntN(60) {
		case 0, 1, 2, 3, 4:
			if poison > 2 {
				o.Payload = []byte([]string{refuse, invalid, unbuildable}[rng.IntN(3)])
			}
		case 5, 6:
			o.Urgent = true
		case 7, 8, 9:
			o.Deadline = time.Now().Add(time.Duration(rng.IntN(5000)) * time.Millisecond)
		case 10, 11:
			o.Priority = 1 + rng.IntN(2)
		}
		w.add(i%2, o)
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		}
		if i == 25 {
			w.books.Restart()
			restarted.Store(true)
		}
	}
	time.Sleep(60 * time.Second)
	w.calm.Store(true)
	w.check()
	stop()
	w.lives.Wait()
	return w.tally
}

// TestDeathAtEveryStep dies at each call of the store in turn, before and after it,
// with orders to divide and one that is put back.
func TestDeathAtEveryStep(t *testing.T) {
	for last := uint64(1); last <= 60; last++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				busy := 0
				w, stop := newWorld(t, last, autobatch.Options{MaxSize: 8, MaxAttempts: 1}, ledgermem.Options{
					Traits: &kinds[0].traits,
					Fault: func(batch.Attempt) ledgermem.Fault {
						if busy++; busy == 1 {
							return ledgermem.Fault{Kind: ledgermem.Busy}
						}
						return ledgermem.Fault{}
					},
				})
				w.calm.Store(true)
				for i := range 8 {
					o := batch.Order{ID: batch.OrderID(fmt.Sprintf("o%d", i)), Party: "p", Payload: []byte(pay)}
					if i == 5 {
						o.Payload = []byte(invalid)
					}
					w.add(1, o)
				}
				w.lives.Go(func() {
					w.live(0, time.Hour, last, after)
					w.live(0, 1000*time.Hour, 0, false)
				})
				w.check()
				stop()
				w.lives.Wait()
			})
			if t.Failed() {
				t.Fatalf("died at call %d, after it: %v", last, after)
			}
		}
	}
}
