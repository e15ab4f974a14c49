package ordercrash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/dlt/canton/cantontest"
	"github.com/dltbatch/dltbatch/store"
)

// Options are the options of a run.
type Options struct {
	Drivers []string // the drivers of the workers, which use them in turn
	DSN     string
	Store   Store // the parent's own store, on the same database
	Kills   int   // the number of kills in each window
	Seed    uint64
	// Decided is canton.Options.DecidedWithin. If it is 0, a person decides batches that the
	// client cannot decide, and the participant prunes from time to time.
	Decided time.Duration
}

// World is the state of a run.
type World struct {
	t      testing.TB
	o      Options
	st     Store
	ledger *cantontest.Participant
	url    string

	mu             sync.Mutex
	posts          map[batch.ID]*firstPost
	errs           []error
	tooLate        int
	slots          [2]*process
	workersStarted int
	killed         map[Window]int
	livesInVain    int                       // how many workers in a row did not reach their window
	finals         map[order.ID]order.Record // each final order as the first read saw it
	open           map[order.ID]bool
	decisions      int
}

func (w *World) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) < 20 {
		w.errs = append(w.errs, fmt.Errorf(format, args...))
	}
}

// finishTimeout is how long all orders may take to become final after the last kill.
const finishTimeout = 3 * time.Minute

// Run kills workers until every window has had its share of kills, lets the last workers finish,
// and compares the books with the orders.
func Run(t testing.TB, o Options) {
	t.Helper()
	t.Logf("seed %d", o.Seed)
	w := &World{
		t: t, o: o, st: o.Store, posts: map[batch.ID]*firstPost{}, killed: map[Window]int{},
		finals: map[order.ID]order.Record{}, open: map[order.ID]bool{},
	}
	var err error
	w.ledger, err = cantontest.NewParticipant(&cantontest.Options{CompleteAfter: 3 * time.Millisecond, Fault: w.drawFault})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(w.serve))
	w.url = server.URL
	defer func() {
		w.ledger.Close() // ends requests that hang
		server.CloseClientConnections()
		server.Close()
	}()

	start := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	var beside sync.WaitGroup
	defer func() {
		stop()
		beside.Wait()
	}()
	beside.Go(func() { w.watch(ctx) })
	if o.Decided == 0 {
		beside.Go(func() { w.person(ctx) })
	}
	adding, enough := context.WithCancel(ctx)
	defer enough()
	var adders sync.WaitGroup
	producers := make([]*producer, parties)
	for i := range producers {
		producers[i] = w.newProducer(i)
		adders.Go(func() { producers[i].run(adding) })
	}

	var lives sync.WaitGroup
	for i := range w.slots {
		lives.Go(func() { w.runWorkers(i, rand.New(rand.NewPCG(o.Seed, uint64(i)))) })
	}
	lives.Wait()
	w.broken()
	for i := range w.slots { // from here on no worker is killed
		require.NoError(t, w.start(i, nowhere, 0))
	}
	enough()
	adders.Wait()
	killing := time.Since(start)
	w.rest()
	for _, p := range w.slots {
		require.NoError(t, p.stop())
	}
	stop()
	beside.Wait()
	w.check(producers)
	w.report(producers, killing, time.Since(start))
}

// start starts a worker in a slot.
func (w *World) start(i int, kill Window, nth int64) error {
	w.mu.Lock()
	n := w.workersStarted
	w.workersStarted++
	w.mu.Unlock()
	p, err := spawn(job{
		URL: w.url, Driver: w.o.Drivers[n%len(w.o.Drivers)], DSN: w.o.DSN, Decided: w.o.Decided, Hints: n%3 > 0, Kill: kill, Nth: nth,
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.slots[i] = p
	w.mu.Unlock()
	return nil
}

// runWorkers starts and kills one worker after the other in a slot.
func (w *World) runWorkers(i int, rng *rand.Rand) {
	for {
		kill, nth := w.next(rng)
		if kill == nowhere {
			return
		}
		if err := w.start(i, kill, nth); err != nil {
			w.fail("%w", err)
			return
		}
		p := w.slots[i]
		w.mu.Lock()
		slow := 1 + w.livesInVain/4 // a busy machine needs longer to reach a window
		w.mu.Unlock()
		timer := time.NewTimer(time.Duration(slow*(1000+rng.IntN(1500))) * time.Millisecond)
		select {
		case <-p.ended:
		case <-timer.C:
			p.kill()
		}
		timer.Stop()
		at := p.killed
		if at == nowhere {
			at = anywhere
			if p.cmd.ProcessState == nil || p.cmd.ProcessState.Exited() {
				w.fail("a worker ended by itself: %w: %s", p.err, &p.tail)
				return
			}
		}
		w.mu.Lock()
		if w.livesInVain++; at != anywhere {
			w.livesInVain = 0
		}
		w.killed[at]++
		w.mu.Unlock()
	}
}

// next chooses a window that has not had its share of kills, and how often a worker reaches it
// before it is killed.
func (w *World) next(rng *rand.Rand) (Window, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) > 0 {
		return nowhere, 0
	}
	left := slices.DeleteFunc(allWindows(), func(x Window) bool { return w.killed[x] >= w.o.Kills })
	if len(left) == 0 {
		return nowhere, 0
	}
	x := left[rng.IntN(len(left))]
	switch x {
	case claim.inside():
		return x, 1 + rng.Int64N(20) // most of these workers end without reaching the window
	case halve.inside(), halve.after():
		return x, 1 + rng.Int64N(2)
	}
	return x, 1 + rng.Int64N(6)
}

// broken ends the run if something has failed.
func (w *World) broken() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NoError(w.t, errors.Join(w.errs...))
}

// watch reads orders as their application would, and checks that a final order does not change.
func (w *World) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		ids := make([]order.ID, 0, len(w.open))
		for id := range w.open {
			ids = append(ids, id)
		}
		w.mu.Unlock()
		final, missing, err := w.st.FinalOrders(ctx, ids)
		if err != nil {
			continue // the workers have locked the database; the next round tries again
		}
		for _, id := range missing {
			w.fail("order %s was acknowledged, and is lost", id)
		}
		w.mu.Lock()
		for _, rec := range final {
			w.finals[rec.ID] = rec
			delete(w.open, rec.ID)
		}
		w.mu.Unlock()
	}
}

// rest waits until every order is final.
func (w *World) rest() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	for {
		w.mu.Lock()
		n := len(w.open)
		w.mu.Unlock()
		if n == 0 {
			return
		}
		w.broken()
		for _, p := range w.slots {
			select {
			case <-p.ended:
				require.NoError(w.t, p.err, "a worker ended by itself: %s", &p.tail)
			default:
			}
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%d orders are not final %s after the last kill:%s", n, finishTimeout, w.stuck())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stuck returns a list of the orders that are not final.
func (w *World) stuck() (say string) {
	open, _, err := w.st.List(context.Background(), store.ListQuery{Open: true, Limit: 20})
	say = fmt.Sprint(err)
	for _, rec := range open {
		say += fmt.Sprintf("\nbatch %s is %s, %q, attempt %d, spent %d of %v, doubt since %s, %v", rec.Key, rec.State, rec.Decision, rec.Attempt, rec.Spent, rec.Budget, rec.DoubtSince, rec.Error)
	}
	orders, _, err := w.st.ListOrders(context.Background(), order.ListQuery{States: []order.State{order.Queued, order.Dequeued}, Limit: 20})
	say += fmt.Sprint("\n", err)
	for _, rec := range orders {
		say += fmt.Sprintf("\norder %+v", rec)
	}
	return say
}
