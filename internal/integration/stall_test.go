package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
)

var stallTime = flag.Duration("stall.time", 10*time.Second, "how long lanes are watched for one that stands still")

// stallBound is how many reads of the watch may find a lane unchanged before it counts as standing
// still. The watch reads five times a second, and less often on a busy machine, as everything else
// does. A lane that can continue does so after some milliseconds, and a scan reads it after a
// second.
const stallBound = 50

// No lane whose batches may leave stands still, beside bursts and rests, transactions that stay
// open, pauses, and a snapshot that is held for half of the time. Where one Runner adds everything
// and wakes after each AddTx, no lane needs a scan.
func TestNoLaneStandsStill(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // the cases run side by side, however many tests run at once
	defer all.Wait()
	for name, c := range map[string]struct {
		d        driver
		strategy queuer.Strategy
		runners  int
		lanes    int
		scan     time.Duration
	}{
		"Serial":                 {nativePool, queuer.Serial(), 1, 60, time.Minute},
		"Pipelined":              {nativePool, queuer.Pipelined(8), 1, 12, time.Minute},
		"Parallel":               {pgx, queuer.Parallel(0), 1, 20, time.Minute},
		"Serial in three":        {nativePool, queuer.Serial(), 3, 60, 0},
		"Pipelined in two by pq": {libpq, queuer.Pipelined(8), 2, 12, 0},
	} {
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				seed := rand.Uint64()
				t.Log("seed", seed)
				w := &loadCase{t: t, strategy: c.strategy, ledger: newChainLedger(seed), laneCount: c.lanes, wakesRunner: c.scan > 0, random: rand.New(rand.NewPCG(seed, 1)), nextNumbers: map[string]int{}}
				w.space = newSpace(t, c.d)
				w.space.exec(`DROP FUNCTION ` + w.space.schema + `.clock_timestamp()`)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var running sync.WaitGroup
				for range c.runners {
					a := w.space.app()
					var st store.Store = a.Store
					if a.native != nil {
						st = a.native
					}
					r, err := dltbatch.New(st, w.ledger, &dltbatch.Options{Strategy: c.strategy, ScanInterval: c.scan, Retention: time.Minute})
					require.NoError(t, err)
					w.apps, w.runners = append(w.apps, a), append(w.runners, r)
					running.Go(func() { assert.NoError(t, r.Run(ctx)) })
				}
				watching, seen := context.WithCancel(ctx)
				var watcher sync.WaitGroup
				watcher.Go(func() { w.watchLanes(watching) })
				loading, enough := context.WithTimeout(ctx, *stallTime)
				defer enough()
				var load sync.WaitGroup
				load.Go(func() { w.addBursts(loading) })
				load.Go(func() { w.addInTransactions(loading) })
				load.Go(func() { w.pauseLanes(loading) })
				load.Go(func() { w.holdSnapshots(loading) })
				load.Wait()
				wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
				defer cancel()
				assert.NoError(t, w.runners[0].Idle(wait))
				seen()
				watcher.Wait()
				stop()
				running.Wait()
				w.ledger.check(t, w.nextNumbers)
				t.Logf("%d batches; the longest that a lane stood still: %d looks", w.ledger.countCommitted(), w.mostReads)
			})
		})
	}
}

// loadCase is one case of TestNoLaneStandsStill, with its load and its watch.
type loadCase struct {
	t           *testing.T
	space       *testSpace
	strategy    queuer.Strategy
	apps        []*testApp
	runners     []*dltbatch.Runner
	ledger      *chainLedger
	laneCount   int
	wakesRunner bool // wakes the Runner after each AddTx

	mu          sync.Mutex
	random      *rand.Rand
	nextNumbers map[string]int // the number of each chain's next batch

	mostReads int // number of reads of the watch
}

func (w *loadCase) randomBelow(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// newBatches returns batches in lanes whose names begin with a prefix. Batches of a lane with the
// same address form a chain, which the ledger must execute in this order.
func (w *loadCase) newBatches(prefix string, lanes, n int) (all []batch.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		lane := fmt.Sprint(prefix, w.random.IntN(lanes))
		chain := fmt.Sprint(lane, "/", w.random.IntN(3))
		if w.strategy.Name != queuer.Parallel(0).Name {
			chain = lane + "/0"
		}
		b := newBatch(lane, fmt.Sprint(chain, "/", w.nextNumbers[chain]))
		b.Footprint = batch.Footprint{Writes: []string{chain}}
		w.nextNumbers[chain]++
		all = append(all, b)
	}
	return all
}

// takeBack takes back the numbers of batches that were rolled back.
func (w *loadCase) takeBack(all []batch.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range all {
		chain, _ := chainOf(b.ID)
		w.nextNumbers[chain]--
	}
}

// waitForLoad waits up to d, and reports whether the load continues.
func (w *loadCase) waitForLoad(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(w.randomBelow(int(d)))):
		return true
	}
}

// addBursts adds bursts, with rests between them in which the Runner becomes idle.
func (w *loadCase) addBursts(ctx context.Context) {
	for w.waitForLoad(ctx, 400*time.Millisecond) {
		all := w.newBatches("lane", w.laneCount, 1+w.randomBelow(60))
		assert.NoError(w.t, w.runners[w.randomBelow(len(w.runners))].Add(context.WithoutCancel(ctx), all...))
	}
}

// addInTransactions adds in transactions that stay open, to lanes of its own, because the order of
// two transactions that are open at once is not promised.
func (w *loadCase) addInTransactions(ctx context.Context) {
	for w.waitForLoad(ctx, 300*time.Millisecond) {
		i := w.randomBelow(len(w.runners))
		ctx := context.WithoutCancel(ctx)
		x, err := w.apps[i].begin(ctx)
		if !assert.NoError(w.t, err) {
			return
		}
		all := w.newBatches("tx", 5, 1+w.randomBelow(5))
		assert.NoError(w.t, w.apps[i].addTx(ctx, x, all...))
		time.Sleep(time.Duration(w.randomBelow(int(300 * time.Millisecond))))
		if w.randomBelow(4) == 0 {
			w.takeBack(all)
			assert.NoError(w.t, x.rollback())
			continue
		}
		assert.NoError(w.t, x.commit())
		for _, b := range all {
			if w.wakesRunner {
				w.runners[i].Wake(b.Service)
			}
		}
	}
}

// pauseLanes pauses a lane from time to time for up to a second.
func (w *loadCase) pauseLanes(ctx context.Context) {
	by := batch.By{Actor: "test", Reason: "test"}
	for w.waitForLoad(ctx, 2*time.Second) {
		ctx := context.WithoutCancel(ctx)
		lane := batch.Scope{Service: batch.ServiceID(fmt.Sprint("lane", w.randomBelow(w.laneCount)))}
		seen, err := w.runners[w.randomBelow(len(w.runners))].Pause(ctx, lane, by)
		assert.NoError(w.t, err)
		time.Sleep(time.Duration(w.randomBelow(int(time.Second))))
		_, err = w.runners[w.randomBelow(len(w.runners))].Resume(ctx, seen, by)
		assert.NoError(w.t, err)
	}
}

// holdSnapshots holds a snapshot for about half of the time.
func (w *loadCase) holdSnapshots(ctx context.Context) {
	for w.waitForLoad(ctx, 10*time.Second) {
		func() {
			tx, err := w.space.admin.Begin()
			if !assert.NoError(w.t, err) {
				return
			}
			defer func() { assert.NoError(w.t, tx.Rollback()) }()
			_, err = tx.Exec(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`)
			assert.NoError(w.t, err)
			_, err = tx.Exec(`SELECT 1`)
			assert.NoError(w.t, err)
			w.waitForLoad(ctx, 10*time.Second)
		}()
	}
}

// frontsQuery selects what must change when a lane moves on: its first batch that was never
// attempted, and the attempted batches with their versions.
const frontsQuery = `SELECT service_id, coalesce(w.first, 0) || ' ' || coalesce(a.tried, '') FROM
	(SELECT service_id, min(created_at) AS first FROM waiting_batches GROUP BY 1) w
	FULL JOIN (SELECT service_id, string_agg(seq || ':' || state || ':' || version, ' ' ORDER BY seq) AS tried FROM attempted_batches GROUP BY 1) a USING (service_id)`

// watchLanes reads the front of each lane until ctx is done.
func (w *loadCase) watchLanes(ctx context.Context) {
	type mark struct {
		front string
		looks int
	}
	marks := map[string]mark{}
	query := strings.NewReplacer("FROM waiting", "FROM "+w.space.schema+".waiting", "FROM attempted", "FROM "+w.space.schema+".attempted").Replace(frontsQuery)
	for ctx.Err() == nil {
		open := map[string]string{}
		rows, err := w.space.admin.QueryContext(ctx, query)
		if err == nil {
			for rows.Next() {
				var lane, f string
				assert.NoError(w.t, rows.Scan(&lane, &f))
				open[lane] = f
			}
			err = errors.Join(rows.Err(), rows.Close())
		}
		if ctx.Err() != nil {
			return
		}
		if !assert.NoError(w.t, err) {
			return
		}
		for lane := range marks {
			if _, is := open[lane]; !is {
				delete(marks, lane)
			}
		}
		for lane, f := range open {
			m := marks[lane]
			if m.front != f {
				m = mark{front: f}
			}
			m.looks++
			w.mostReads = max(w.mostReads, m.looks)
			if m.looks > stallBound {
				w.t.Errorf("lane %s stands still for %d looks at %q: %s", lane, m.looks, f, w.activity())
				m.looks = 0
			}
			marks[lane] = m
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// activity says what the sessions of the database do.
func (w *loadCase) activity() (all string) {
	err := w.space.admin.QueryRow(`SELECT coalesce(string_agg(state || ' since ' || (clock_timestamp() - state_change) || ': ' || left(query, 60), '; '), '')
		FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'`, w.space.schema).Scan(&all)
	return fmt.Sprint(all, " ", err)
}

// chainLedger is a ledger that commits the batches of each chain some milliseconds after it
// accepted them, in their order, and executes none twice.
type chainLedger struct {
	dlt.Unimplemented

	mu          sync.Mutex
	random      *rand.Rand
	commitTimes map[string][]time.Time // when the last batches of each chain are committed
	committed   map[string]int
	violations  []string
}

func newChainLedger(seed uint64) *chainLedger {
	return &chainLedger{random: rand.New(rand.NewPCG(seed, 2)), commitTimes: map[string][]time.Time{}, committed: map[string]int{}}
}

func chainOf(id batch.ID) (chain string, n int) {
	at := strings.LastIndex(string(id), "/")
	n, _ = strconv.Atoi(string(id[at+1:]))
	return string(id[:at]), n
}

func (*chainLedger) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "chains", ResendHarmlessFor: dlt.Forever, KeepsOrder: true}
}

// settle counts the batches of a chain that are committed by now.
func (c *chainLedger) settle(chain string) int {
	now := time.Now()
	for len(c.commitTimes[chain]) > 0 && !now.Before(c.commitTimes[chain][0]) {
		c.commitTimes[chain] = c.commitTimes[chain][1:]
		c.committed[chain]++
	}
	return c.committed[chain]
}

func (c *chainLedger) Submit(_ context.Context, a batch.Attempt) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	chain, n := chainOf(a.ID)
	next := c.settle(chain) + len(c.commitTimes[chain])
	switch {
	case n > next:
		c.violations = append(c.violations, fmt.Sprintf("%s before number %d", a.ID, next))
	case n == next:
		at := time.Now().Add(time.Duration(c.random.IntN(int(40 * time.Millisecond))))
		if last := len(c.commitTimes[chain]) - 1; last >= 0 && at.Before(c.commitTimes[chain][last]) {
			at = c.commitTimes[chain][last]
		}
		c.commitTimes[chain] = append(c.commitTimes[chain], at)
	}
	return nil
}

func (c *chainLedger) BatchStatuses(_ context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]batch.Status, len(attempts))
	for i, a := range attempts {
		chain, n := chainOf(a.ID)
		all[i] = batch.Status{ID: a.ID, Reported: batch.ReportedUnknown}
		switch committed := c.settle(chain); {
		case n < committed:
			all[i].Reported = batch.ReportedCommitted
		case n < committed+len(c.commitTimes[chain]):
			all[i].Reported = batch.ReportedPending
		}
	}
	return all, nil
}

// check compares the ledger with the batches that were added.
func (c *chainLedger) check(t *testing.T, want map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Empty(t, c.violations, "batches that came before their turn")
	for chain := range want {
		c.settle(chain)
		if want[chain] == 0 {
			delete(want, chain)
		}
	}
	for chain, n := range c.committed {
		if n == 0 {
			delete(c.committed, chain)
		}
	}
	assert.Equal(t, want, c.committed)
}

func (c *chainLedger) countCommitted() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, committed := range c.committed {
		n += committed
	}
	return n
}
