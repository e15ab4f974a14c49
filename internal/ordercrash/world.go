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
	Drivers        []string // the drivers of the workers, which use them in turn
	DSN            string
	Store          Store // the parent's own store, on the same database
	KillsPerWindow int   // the number of kills in each window
	Seed           uint64
	// DecidedWithin is canton.Options.DecidedWithin. If it is 0, a person decides batches that the
	// client cannot decide, and the participant prunes from time to time.
	DecidedWithin time.Duration
}

// World is the state of a run.
type World struct {
	t       testing.TB
	options Options
	store   Store
	ledger  *cantontest.Participant
	url     string

	mu             sync.Mutex
	firstPosts     map[batch.ID]*firstPost
	failures       []error
	latePosts      int
	workers        [2]*workerProcess
	workersStarted int
	killsByWindow  map[Window]int
	livesInVain    int                       // how many workers in a row did not reach their window
	finalOrders    map[order.ID]order.Record // each final order as the first read saw it
	openOrders     map[order.ID]bool
	decisionCount  int
}

func (w *World) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) < 20 {
		w.failures = append(w.failures, fmt.Errorf(format, args...))
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
		t: t, options: o, store: o.Store, firstPosts: map[batch.ID]*firstPost{}, killsByWindow: map[Window]int{},
		finalOrders: map[order.ID]order.Record{}, openOrders: map[order.ID]bool{},
	}
	var err error
	w.ledger, err = cantontest.NewParticipant(&cantontest.Options{CompleteAfter: 3 * time.Millisecond, Fault: w.drawFault})
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(w.serveParticipant))
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
	beside.Go(func() { w.readFinalOrders(ctx) })
	if o.DecidedWithin == 0 {
		beside.Go(func() { w.decideDoubts(ctx) })
	}
	adding, enough := context.WithCancel(ctx)
	defer enough()
	var adders sync.WaitGroup
	producers := make([]*producer, partyCount)
	for i := range producers {
		producers[i] = w.newProducer(i)
		adders.Go(func() { producers[i].addUntilDone(adding) })
	}

	var lives sync.WaitGroup
	for i := range w.workers {
		lives.Go(func() { w.runWorkers(i, rand.New(rand.NewPCG(o.Seed, uint64(i)))) })
	}
	lives.Wait()
	w.requireNoFailure()
	for i := range w.workers { // from here on no worker is killed
		require.NoError(t, w.startWorker(i, noWindow, 0))
	}
	enough()
	adders.Wait()
	killing := time.Since(start)
	w.waitUntilFinal()
	for _, p := range w.workers {
		require.NoError(t, p.stop())
	}
	stop()
	beside.Wait()
	w.checkBooks(producers)
	w.logFigures(producers, killing, time.Since(start))
}

// startWorker starts a worker in a slot.
func (w *World) startWorker(i int, kill Window, nth int64) error {
	w.mu.Lock()
	n := w.workersStarted
	w.workersStarted++
	w.mu.Unlock()
	p, err := startProcess(workerJob{
		URL: w.url, Driver: w.options.Drivers[n%len(w.options.Drivers)], DSN: w.options.DSN, DecidedWithin: w.options.DecidedWithin, WithHints: n%3 > 0, KillWindow: kill, KillAtNth: nth,
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.workers[i] = p
	w.mu.Unlock()
	return nil
}

// runWorkers starts and kills one worker after the other in a slot.
func (w *World) runWorkers(i int, rng *rand.Rand) {
	for {
		kill, nth := w.pickWindow(rng)
		if kill == noWindow {
			return
		}
		if err := w.startWorker(i, kill, nth); err != nil {
			w.fail("%w", err)
			return
		}
		p := w.workers[i]
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
		at := p.killedIn
		if at == noWindow {
			at = anyWindow
			if p.cmd.ProcessState == nil || p.cmd.ProcessState.Exited() {
				w.fail("a worker ended by itself: %w: %s", p.err, &p.stderrTail)
				return
			}
		}
		w.mu.Lock()
		if w.livesInVain++; at != anyWindow {
			w.livesInVain = 0
		}
		w.killsByWindow[at]++
		w.mu.Unlock()
	}
}

// pickWindow chooses a window that has not had its share of kills, and how often a worker reaches
// it before it is killed.
func (w *World) pickWindow(rng *rand.Rand) (Window, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) > 0 {
		return noWindow, 0
	}
	left := slices.DeleteFunc(allWindows(), func(x Window) bool { return w.killsByWindow[x] >= w.options.KillsPerWindow })
	if len(left) == 0 {
		return noWindow, 0
	}
	x := left[rng.IntN(len(left))]
	switch x {
	case callClaim.inside():
		return x, 1 + rng.Int64N(20) // most of these workers end without reaching the window
	case callSplitOrders.inside(), callSplitOrders.after():
		return x, 1 + rng.Int64N(2)
	}
	return x, 1 + rng.Int64N(6)
}

// requireNoFailure ends the run if something has failed.
func (w *World) requireNoFailure() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NoError(w.t, errors.Join(w.failures...))
}

// readFinalOrders reads orders as their application would, and checks that a final order does not
// change.
func (w *World) readFinalOrders(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		ids := make([]order.ID, 0, len(w.openOrders))
		for id := range w.openOrders {
			ids = append(ids, id)
		}
		w.mu.Unlock()
		final, missing, err := w.store.FinalOrders(ctx, ids)
		if err != nil {
			continue // the workers have locked the database; the next round tries again
		}
		for _, id := range missing {
			w.fail("order %s was acknowledged, and is lost", id)
		}
		w.mu.Lock()
		for _, rec := range final {
			w.finalOrders[rec.ID] = rec
			delete(w.openOrders, rec.ID)
		}
		w.mu.Unlock()
	}
}

// waitUntilFinal waits until every order is final.
func (w *World) waitUntilFinal() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	for {
		w.mu.Lock()
		n := len(w.openOrders)
		w.mu.Unlock()
		if n == 0 {
			return
		}
		w.requireNoFailure()
		for _, p := range w.workers {
			select {
			case <-p.ended:
				require.NoError(w.t, p.err, "a worker ended by itself: %s", &p.stderrTail)
			default:
			}
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%d orders are not final %s after the last kill:%s", n, finishTimeout, w.describeOpen())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// describeOpen returns a list of the orders that are not final.
func (w *World) describeOpen() (say string) {
	open, _, err := w.store.List(context.Background(), store.ListQuery{Open: true, Limit: 20})
	say = fmt.Sprint(err)
	for _, rec := range open {
		say += fmt.Sprintf("\nbatch %s is %s, %q, attempt %d, spent %d of %v, doubt since %s, %v", rec.Key, rec.State, rec.Decision, rec.Attempt, rec.Spent, rec.Budget, rec.DoubtSince, rec.Error)
	}
	orders, _, err := w.store.ListOrders(context.Background(), order.ListQuery{States: []order.State{order.Queued, order.Dequeued}, Limit: 20})
	say += fmt.Sprint("\n", err)
	for _, rec := range orders {
		say += fmt.Sprintf("\norder %+v", rec)
	}
	return say
}
