package chaos

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// world holds all parts of a test.
type world struct {
	t          testing.TB
	ledgerKind string // kind of ledger
	dir        string
	cluster    *pgtest.Cluster // nil if Patroni runs the database
	patroni    *patroniCluster
	dbAddress  string // the address of the database
	ledger     *childProcess
	slots      []*workerSlot
	producer   *producer

	mu             sync.Mutex
	freezes        map[string][]timeSpan // by worker
	deaths         map[string]time.Time
	presentFaults  int       // number of present faults of workers, of their connections and of the database
	faultChangedAt time.Time // when one of these faults last began or ended
	// withdrawn are the intents that a person has withdrawn, or has tried to withdraw.
	withdrawn map[batch.ID]bool
}

type timeSpan struct{ began, ended time.Time }

// workerSlot is a place for a worker. A new worker replaces a killed one.
type workerSlot struct {
	number   int
	database *proxy
	node     *proxy

	mu         sync.Mutex
	startCount int // number of workers started in this slot
	worker     *childProcess
}

// drivers lists those of database/sql; allDrivers also has pgx's own pool.
var (
	drivers    = []string{"pgx", "postgres"}
	allDrivers = []string{"pgx", "postgres", "native"}
)

// newWorld starts a ledger and workers on a cluster of their own.
func newWorld(t testing.TB, kind string, workers int, settings ...string) *world {
	cluster := pgtest.NewCluster(t, settings...)
	w := &world{t: t, ledgerKind: kind, cluster: cluster, dbAddress: cluster.Addr()}
	w.startAll(workers)
	return w
}

// startAll starts everything except the database.
func (w *world) startAll(workers int) {
	t, kind := w.t, w.ledgerKind
	w.dir, w.freezes, w.deaths, w.withdrawn = t.TempDir(), map[string][]timeSpan{}, map[string]time.Time{}, map[batch.ID]bool{}
	require.NoError(t, w.store().Migrate(t.Context()))
	var err error
	dir := w.dir
	if kind == gethNode { // geth still writes files while it ends
		dir, err = os.MkdirTemp("", "geth")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	w.ledger, err = startChild(childJob{Role: "ledger", Name: "ledger", Ledger: kind, Seed: *chaosSeed, Dir: dir})
	require.NoError(t, err)
	t.Cleanup(w.ledger.kill)
	address, err := url.Parse(w.ledger.firstLine[0])
	require.NoError(t, err)
	for i := range workers {
		w.slots = append(w.slots, &workerSlot{number: i, database: newProxy(t, w.dbAddress), node: newProxy(t, address.Host)})
	}
	for _, s := range w.slots {
		require.NoError(t, w.start(s))
	}
	t.Cleanup(func() {
		for _, s := range w.slots {
			s.current().kill()
		}
	})
	w.producer = newProducer(w)
}

// start starts a new worker in a slot. The drivers alternate.
func (w *world) start(s *workerSlot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("worker%d-%d", s.number, s.startCount)
	p, err := startChild(childJob{
		Role: "worker", Name: name, Ledger: w.ledgerKind, URL: "http://" + s.node.addr(), Driver: allDrivers[(s.number+s.startCount)%len(allDrivers)],
		DSN: pgtest.DSN(s.database.addr()) + "&connect_timeout=2", Audit: filepath.Join(w.dir, name+".audit"),
		Seed: *chaosSeed<<16 + uint64(s.number<<8+s.startCount), Pauses: w.patroni != nil && w.patroni.pauses,
	})
	if err != nil {
		return err
	}
	s.startCount++
	s.worker = p
	return nil
}

func (s *workerSlot) current() *childProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

// store opens a store for the parent, without a proxy.
func (w *world) store() *postgres.Store { return w.storeAt(w.dbAddress) }

func (w *world) storeAt(addr string) *postgres.Store {
	db, err := sql.Open("pgx", pgtest.DSN(addr))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	st, err := postgres.New(db, nil)
	require.NoError(w.t, err)
	return st
}

// controlLedger sends a request to the ledger's process, without a proxy.
func (w *world) controlLedger(method, path string, answer any) error {
	return requestChild(method, w.ledger.firstLine[1]+path, answer)
}

// requestChild sends a request to a child.
func requestChild(method, url string, answer any) error {
	req, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return errors.Join(fmt.Errorf("%s: HTTP %d: %s", url, resp.StatusCode, bytes.TrimSpace(text)), err)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// restTimeLimit returns how long batches may take to become final after the last fault. Batches on
// a chain wait for blocks.
func (w *world) restTimeLimit() time.Duration {
	if onChain(w.ledgerKind) {
		return 15 * time.Minute
	}
	return 90 * time.Second
}

// personDelay is how often a person checks signed transactions that are not final.
const personDelay = 10 * time.Second

// decideAsPerson does what docs/ledgers/evm.md leaves to a person: anvil holds back a transaction
// until its pool is empty, and after a restart it has no old state that would prove which
// transaction used a nonce. The person finds the answer in the blocks.
func (w *world) decideAsPerson(ctx context.Context, st *postgres.Store, open []batch.Record) {
	var r report
	require.NoError(w.t, w.controlLedger("GET", "/report", &r))
	runner, err := w.runner(st)
	require.NoError(w.t, err)
	for _, seen := range open {
		if n, ours := w.producer.nonces[seen.ID]; !ours || !slices.Contains(r.Used, n) {
			continue
		}
		_, err := runner.Decide(ctx, seen, batch.NotExecutedReject, batch.By{Actor: "a person", Reason: "another transaction has the nonce"})
		w.t.Logf("a person decides that %s is Rejected: %v", seen.Key, err) // the batch may have just been claimed
	}
	w.t.Logf("%d open: a person empties the pool: %v", len(open), w.controlLedger("POST", "/forget", nil))
}

// runner returns a Runner for a person's acts. It is never run.
func (w *world) runner(st *postgres.Store) (*dltbatch.Runner, error) {
	ledger, err := childJob{Ledger: w.ledgerKind, URL: w.ledger.firstLine[0]}.newClient()
	if err != nil {
		return nil, err
	}
	return dltbatch.New(st, ledger, childJob{Ledger: w.ledgerKind}.options())
}

// withdrawIntents lets a person withdraw the intents that are under way. A withdrawal may fail
// because a claim is live or because the database restarts; the records show the result at the
// end.
func (w *world) withdrawIntents(st *postgres.Store) error {
	runner, err := w.runner(st)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*requestTimeout)
	defer cancel()
	open, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 20})
	if err != nil {
		return nil //nolint:nilerr // the database does not answer at the moment
	}
	for _, one := range open {
		seen, err := st.Get(ctx, one.Key)
		if err != nil || seen.Attempt == 0 || seen.Withdrawn {
			continue
		}
		w.mu.Lock()
		w.withdrawn[seen.ID] = true
		w.mu.Unlock()
		_, _ = runner.Withdraw(ctx, seen, batch.By{Actor: "a person", Reason: "wrong address"})
	}
	return nil
}

// stuckLooksBeforeDrop is how often a person finds that anvil has forgotten an intent before
// emptying the pool.
const stuckLooksBeforeDrop = 6

// dropStuckPool does what docs/ledgers/evm.md leaves to a person: it empties the pool for an
// intent whose fees are at their limit, and which therefore cannot replace the transaction that
// anvil holds as the successor of a mined one.
func (w *world) dropStuckPool(open []batch.Record, forgotten map[batch.Key]int) {
	for _, seen := range open {
		if seen.Attempt == 0 || !w.nodeRPC().hasStuckNext(string(seen.Service)) {
			continue
		}
		if forgotten[seen.Key]++; forgotten[seen.Key]%stuckLooksBeforeDrop == 0 {
			w.t.Log(w.nodeRPC().accountText(string(seen.Service)))
			w.t.Logf("%s is %s, attempt %d: a person empties the pool: %v", seen.Key, seen.State, seen.Attempt, w.controlLedger("POST", "/forget", nil))
		}
	}
}

// noteFault notes that a fault begins (n is 1) or ends (n is -1).
func (w *world) noteFault(object string, n int) {
	if object == "ledger" {
		return // the workers and the database are not affected
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.presentFaults, w.faultChangedAt = w.presentFaults+n, time.Now()
}

// faultlessSince returns since when no worker, connection or database has suffered a fault; zero
// if one suffers now.
func (w *world) faultlessSince() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.presentFaults > 0 {
		return time.Time{}
	}
	return w.faultChangedAt
}

// waitUntilFinal waits until all batches are final, and stops the workers. It fails if nothing has
// moved for restTimeLimit; the total time depends on the machine and is not limited.
func (w *world) waitUntilFinal(st *postgres.Store) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	still := time.AfterFunc(w.restTimeLimit(), cancel)
	defer still.Stop()
	for _, s := range w.slots {
		s.database.resetMuted()
		s.node.resetMuted()
	}
	var open []batch.Record // as last read
	begun := time.Now()
	forgotten := map[batch.Key]int{} // how often a person saw that anvil has forgotten an intent
	for {
		seen, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 10})
		if err == nil {
			if !slices.EqualFunc(seen, open, func(a, b batch.Record) bool { return a.Key == b.Key && a.Version == b.Version }) {
				still.Reset(w.restTimeLimit())
			}
			open = seen
		}
		if err == nil && len(open) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			for _, r := range open {
				w.t.Errorf("open: %s %s attempt %d doubt since %v decision %q error %v", r.Key, r.State, r.Attempt, r.DoubtSince, r.Decision, r.Error)
				if onChain(w.ledgerKind) {
					w.t.Log(w.nodeRPC().accountText(string(r.Service)))
				}
			}
			for _, s := range w.slots {
				w.t.Logf("%s", &s.current().tail)
			}
			w.t.Fatalf("not everything is final, and nothing has moved for %s: %v", w.restTimeLimit(), err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(begun) < personDelay {
			continue
		}
		begun = time.Now()
		switch w.ledgerKind {
		case evmSigned:
			w.decideAsPerson(ctx, st, open)
		case evmNode:
			w.dropStuckPool(open, forgotten)
		}
	}
	for _, s := range w.slots {
		p := s.current()
		require.NoError(w.t, p.exitError())
		require.NoError(w.t, p.stop())
	}
}

func (w *world) noteDeath(worker string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaths[worker] = time.Now()
}

// wasKilled reports whether a worker was killed.
func (w *world) wasKilled(worker string) bool { return w.wasKilledBefore(worker, time.Now()) }

func (w *world) wasKilledBefore(worker string, at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	died, dead := w.deaths[worker]
	return dead && died.Before(at)
}

func (w *world) noteFreeze(worker string, s timeSpan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freezes[worker] = append(w.freezes[worker], s)
}
