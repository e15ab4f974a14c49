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
	t       testing.TB
	kind    string // kind of ledger
	dir     string
	cluster *pgtest.Cluster // nil if Patroni runs the database
	patroni *patroni
	at      string // the address of the database
	ledger  *process
	slots   []*slot
	add     *producer

	mu      sync.Mutex
	freezes map[string][]span // by worker
	deaths  map[string]time.Time
	hurt    int       // number of present faults of workers, of their connections and of the database
	hurtAt  time.Time // when one of these faults last began or ended
	// withdrawn are the intents that a person has withdrawn, or has tried to withdraw.
	withdrawn map[batch.ID]bool
}

type span struct{ from, to time.Time }

// slot is a place for a worker. A new worker replaces a killed one.
type slot struct {
	number   int
	database *proxy
	node     *proxy

	mu     sync.Mutex
	born   int // number of workers started in this slot
	worker *process
}

// drivers lists those of database/sql; allDrivers also has pgx's own pool.
var (
	drivers    = []string{"pgx", "postgres"}
	allDrivers = []string{"pgx", "postgres", "native"}
)

// newWorld starts a ledger and workers on a cluster of their own.
func newWorld(t testing.TB, kind string, workers int, settings ...string) *world {
	cluster := pgtest.NewCluster(t, settings...)
	w := &world{t: t, kind: kind, cluster: cluster, at: cluster.Addr()}
	w.open(workers)
	return w
}

// open starts everything except the database.
func (w *world) open(workers int) {
	t, kind := w.t, w.kind
	w.dir, w.freezes, w.deaths, w.withdrawn = t.TempDir(), map[string][]span{}, map[string]time.Time{}, map[batch.ID]bool{}
	require.NoError(t, w.store().Migrate(t.Context()))
	var err error
	dir := w.dir
	if kind == gethNode { // geth still writes files while it ends
		dir, err = os.MkdirTemp("", "geth")
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
	}
	w.ledger, err = spawn(job{Role: "ledger", Name: "ledger", Ledger: kind, Seed: *chaosSeed, Dir: dir})
	require.NoError(t, err)
	t.Cleanup(w.ledger.kill)
	address, err := url.Parse(w.ledger.said[0])
	require.NoError(t, err)
	for i := range workers {
		w.slots = append(w.slots, &slot{number: i, database: newProxy(t, w.at), node: newProxy(t, address.Host)})
	}
	for _, s := range w.slots {
		require.NoError(t, w.start(s))
	}
	t.Cleanup(func() {
		for _, s := range w.slots {
			s.current().kill()
		}
	})
	w.add = newProducer(w)
}

// start starts a new worker in a slot. The drivers alternate.
func (w *world) start(s *slot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("worker%d-%d", s.number, s.born)
	p, err := spawn(job{
		Role: "worker", Name: name, Ledger: w.kind, URL: "http://" + s.node.addr(), Driver: allDrivers[(s.number+s.born)%len(allDrivers)],
		DSN: pgtest.DSN(s.database.addr()) + "&connect_timeout=2", Audit: filepath.Join(w.dir, name+".audit"),
		Seed: *chaosSeed<<16 + uint64(s.number<<8+s.born), Pauses: w.patroni != nil && w.patroni.pauses,
	})
	if err != nil {
		return err
	}
	s.born++
	s.worker = p
	return nil
}

func (s *slot) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.worker
}

// store opens a store for the parent, without a proxy.
func (w *world) store() *postgres.Store { return w.storeAt(w.at) }

func (w *world) storeAt(addr string) *postgres.Store {
	db, err := sql.Open("pgx", pgtest.DSN(addr))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	st, err := postgres.New(db, nil)
	require.NoError(w.t, err)
	return st
}

// control sends a request to the ledger's process, without a proxy.
func (w *world) control(method, path string, answer any) error {
	return ask(method, w.ledger.said[1]+path, answer)
}

// ask sends a request to a child.
func ask(method, url string, answer any) error {
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

// restFor returns how long batches may take to become final after the last fault. Batches on a
// chain wait for blocks.
func (w *world) restFor() time.Duration {
	if onChain(w.kind) {
		return 15 * time.Minute
	}
	return 90 * time.Second
}

// helpAfter is how often a person checks signed transactions that are not final.
const helpAfter = 10 * time.Second

// person does what docs/ledgers/evm.md leaves to a person: anvil holds back a transaction until
// its pool is empty, and after a restart it has no old state that would prove which transaction
// used a nonce. The person finds the answer in the blocks.
func (w *world) person(ctx context.Context, st *postgres.Store, open []batch.Record) {
	var r report
	require.NoError(w.t, w.control("GET", "/report", &r))
	runner, err := w.runner(st)
	require.NoError(w.t, err)
	for _, seen := range open {
		if n, ours := w.add.nonces[seen.ID]; !ours || !slices.Contains(r.Used, n) {
			continue
		}
		_, err := runner.Decide(ctx, seen, batch.NotExecutedReject, batch.By{Actor: "a person", Reason: "another transaction has the nonce"})
		w.t.Logf("a person decides that %s is Rejected: %v", seen.Key, err) // the batch may have just been claimed
	}
	w.t.Logf("%d open: a person empties the pool: %v", len(open), w.control("POST", "/forget", nil))
}

// runner returns a Runner for a person's acts. It is never run.
func (w *world) runner(st *postgres.Store) (*dltbatch.Runner, error) {
	ledger, err := job{Ledger: w.kind, URL: w.ledger.said[0]}.client()
	if err != nil {
		return nil, err
	}
	return dltbatch.New(st, ledger, job{Ledger: w.kind}.options())
}

// withdraw lets a person withdraw the intents that are under way. A withdrawal may fail because a
// claim is live or because the database restarts; the records show the result at the end.
func (w *world) withdraw(st *postgres.Store) error {
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

// patience is how often a person finds that anvil has forgotten an intent before emptying the
// pool.
const patience = 6

// unlock does what docs/ledgers/evm.md leaves to a person: it empties the pool for an intent whose
// fees are at their limit, and which therefore cannot replace the transaction that anvil holds as
// the successor of a mined one.
func (w *world) unlock(open []batch.Record, forgotten map[batch.Key]int) {
	for _, seen := range open {
		if seen.Attempt == 0 || !w.chain().forgets(string(seen.Service)) {
			continue
		}
		if forgotten[seen.Key]++; forgotten[seen.Key]%patience == 0 {
			w.t.Log(w.chain().about(string(seen.Service)))
			w.t.Logf("%s is %s, attempt %d: a person empties the pool: %v", seen.Key, seen.State, seen.Attempt, w.control("POST", "/forget", nil))
		}
	}
}

// suffers notes that a fault begins (n is 1) or ends (n is -1).
func (w *world) suffers(object string, n int) {
	if object == "ledger" {
		return // the workers and the database are not affected
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hurt, w.hurtAt = w.hurt+n, time.Now()
}

// well returns since when no worker, connection or database has suffered a fault; zero if one
// suffers now.
func (w *world) well() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hurt > 0 {
		return time.Time{}
	}
	return w.hurtAt
}

// rest waits until all batches are final, and stops the workers. It fails if nothing has moved for
// restFor; the total time depends on the machine and is not limited.
func (w *world) rest(st *postgres.Store) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	still := time.AfterFunc(w.restFor(), cancel)
	defer still.Stop()
	for _, s := range w.slots {
		s.database.found()
		s.node.found()
	}
	var open []batch.Record // as last read
	begun := time.Now()
	forgotten := map[batch.Key]int{} // how often a person saw that anvil has forgotten an intent
	for {
		seen, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 10})
		if err == nil {
			if !slices.EqualFunc(seen, open, func(a, b batch.Record) bool { return a.Key == b.Key && a.Version == b.Version }) {
				still.Reset(w.restFor())
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
				if onChain(w.kind) {
					w.t.Log(w.chain().about(string(r.Service)))
				}
			}
			for _, s := range w.slots {
				w.t.Logf("%s", &s.current().tail)
			}
			w.t.Fatalf("not everything is final, and nothing has moved for %s: %v", w.restFor(), err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(begun) < helpAfter {
			continue
		}
		begun = time.Now()
		switch w.kind {
		case evmSigned:
			w.person(ctx, st, open)
		case evmNode:
			w.unlock(open, forgotten)
		}
	}
	for _, s := range w.slots {
		p := s.current()
		require.NoError(w.t, p.died())
		require.NoError(w.t, p.stop())
	}
}

func (w *world) dies(worker string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaths[worker] = time.Now()
}

// killed reports whether a worker was killed.
func (w *world) killed(worker string) bool { return w.killedBefore(worker, time.Now()) }

func (w *world) killedBefore(worker string, at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	died, dead := w.deaths[worker]
	return dead && died.Before(at)
}

func (w *world) froze(worker string, s span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.freezes[worker] = append(w.freezes[worker], s)
}
