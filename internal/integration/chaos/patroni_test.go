package chaos

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

var (
	patroniTime   = flag.Duration("patroni.time", 6*time.Minute, "how long faults go on, for each mode of a cluster by Patroni")
	patroniFaults = flag.Int("patroni.faults", 90, "how many faults there are in that time, the primary's among them")
)

// TestPatroni submits to a ledger that executes every duplicate, with the database on a cluster of
// three servers that Patroni manages. Besides the other faults its primary is killed, frozen and
// cut off, in most cases while its standbys lag. What must hold depends on the mode: see
// [patroniCluster.checkResult].
func TestPatroni(t *testing.T) {
	tier.Soak(t, "a failover by Patroni takes half a minute, and many are needed")
	for _, m := range []*patroniCluster{
		{mode: "asynchronous"},
		{mode: "asynchronous, PauseOnLostCommits", pauses: true},
		{mode: "synchronous_mode", synchronous: true},
	} {
		t.Run(m.mode, func(t *testing.T) {
			w := newPatroniWorld(t, m)
			f, err := w.injectFaults(*chaosSeed, *patroniFaults, *patroniTime)
			require.NoError(t, err)
			acked := w.producer.end()
			require.NoError(t, m.waitUntilComplete())
			w.waitUntilFinal(w.store())
			m.end()
			for _, k := range w.faultKinds() {
				t.Logf("%4d %s", f.count[k.name], k.name)
			}
			if m.synchronous {
				w.check(w.store(), acked)
			}
			m.checkResult(w, acked, f)
		})
	}
}

// patroniCluster is a cluster of three servers, with the proxies between its parts.
type patroniCluster struct {
	mode                string
	synchronous, pauses bool

	cluster      *pgtest.Patroni
	nodeProxies  [3][3]*proxy // the proxies between nodes
	primaryProxy *proxy       // the test's own proxy to the primary
	stop         context.CancelFunc
	wg           sync.WaitGroup

	mu             sync.Mutex
	primary        *pgtest.Node
	isolatedWorker int // the worker on the primary's side of a partition; -1 if there is none
	failoverCount  int
	resumeCount    int // how often a person has looked and resumed everything
	endedCount     int // number of batches that this person has ended
}

// newPatroniWorld starts a cluster, a ledger and workers.
func newPatroniWorld(t *testing.T, p *patroniCluster) *world {
	p.isolatedWorker = -1
	p.cluster = pgtest.NewPatroni(t, p.synchronous, func(node, place int, own string) string {
		x := newProxy(t, own)
		if place == pgtest.NodeRaft {
			x.clientName = raftNode
		}
		p.nodeProxies[node][place] = x
		return x.addr()
	})
	p.primary = p.cluster.Primary()
	require.NotNil(t, p.primary)
	p.primaryProxy = newProxy(t, p.primary.Addr(pgtest.NodePostgres))
	w := &world{t: t, ledgerKind: unforgivingLedger, patroni: p, dbAddress: p.primaryProxy.addr()}
	w.startAll(3)
	for _, s := range w.slots {
		s.database.redirectAndCut(p.primary.Addr(pgtest.NodePostgres))
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	t.Cleanup(p.end)
	p.wg.Go(func() { p.followPrimary(ctx, w) })
	if p.pauses {
		st := w.store()
		p.wg.Go(func() { p.resumeAsPerson(ctx, w, st) })
	}
	return w
}

// end stops what follows the cluster.
func (p *patroniCluster) end() {
	p.stop()
	p.wg.Wait()
}

// raftNode returns the node that opened a connection of Raft. The first message, compressed after
// four bytes, is its address.
func raftNode(first []byte) string {
	if len(first) < 4 {
		return ""
	}
	r, err := zlib.NewReader(bytes.NewReader(first[4:]))
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(r)
	if at := bytes.Index(text, []byte("127.0.0.1:")); err == nil && at >= 0 {
		end := at + len("127.0.0.1:")
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		return string(text[at:end])
	}
	return ""
}

// followPrimary does the work of HAProxy, by Patroni's own health check: it directs the workers
// and the test to the primary. It cuts the connections of some workers to the old primary; other
// workers keep theirs until the old primary closes them.
func (p *patroniCluster) followPrimary(ctx context.Context, w *world) {
	for ctx.Err() == nil {
		sleepFor(ctx, 100*time.Millisecond)
		p.mu.Lock()
		was, beside := p.primary, p.isolatedWorker
		p.mu.Unlock()
		if beside < 0 && was.IsPrimary() {
			continue
		}
		at := slices.IndexFunc(p.cluster.Nodes, func(n *pgtest.Node) bool { return n != was && n.IsPrimary() })
		if at < 0 {
			continue
		}
		now := p.cluster.Nodes[at]
		p.mu.Lock()
		p.primary = now
		p.failoverCount++
		p.mu.Unlock()
		to := now.Addr(pgtest.NodePostgres)
		p.primaryProxy.redirectAndCut(to)
		for i, s := range w.slots {
			switch {
			case i == beside:
			case i%2 == 0:
				s.database.redirectAndCut(to)
			default:
				s.database.redirect(to)
			}
		}
	}
}

// waitUntilComplete waits until the cluster is complete.
func (p *patroniCluster) waitUntilComplete() error {
	until := time.Now().Add(4 * time.Minute)
	for !p.cluster.IsWhole() {
		if time.Now().After(until) {
			return fmt.Errorf("no primary with two standbys after 4 minutes: %w", p.cluster.LogEnds())
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil
}

// waitForOtherPrimary waits until a node other than n is the primary.
func (p *patroniCluster) waitForOtherPrimary(n *pgtest.Node) error {
	until := time.Now().Add(2 * time.Minute)
	for {
		p.mu.Lock()
		now := p.primary
		p.mu.Unlock()
		if now != n {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s is the primary after 2 minutes: %w", n.Name, p.cluster.LogEnds())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// patroniFaultKinds are the faults of a Patroni cluster.
var patroniFaultKinds = []fault{
	primaryFault("primary killed", func(p *patroniCluster, n *pgtest.Node, _ int, _ *faultInjector) error {
		n.Kill()
		return errors.Join(p.waitForOtherPrimary(n), n.Start())
	}),
	primaryFault("primary frozen", func(p *patroniCluster, n *pgtest.Node, _ int, _ *faultInjector) error {
		err := n.Freeze()
		if err == nil {
			err = p.waitForOtherPrimary(n)
		}
		time.Sleep(time.Second)
		return errors.Join(err, n.Resume())
	}),
	primaryFault("primary cut off, and a worker with it", func(p *patroniCluster, n *pgtest.Node, at int, f *faultInjector) error {
		beside := at // the number of a worker
		p.mu.Lock()
		p.isolatedWorker = beside
		p.mu.Unlock()
		for _, x := range p.nodeProxies[at] {
			x.resetAll(true)
		}
		for other := range p.nodeProxies {
			p.nodeProxies[other][pgtest.NodeRaft].barClient(p.nodeProxies[at][pgtest.NodeRaft].addr())
		}
		p.primaryProxy.resetAll(true)
		for i, s := range f.world.slots {
			if i != beside {
				s.database.resetAll(true)
			}
		}
		err := p.waitForOtherPrimary(n)
		p.primaryProxy.resetAll(false)
		for _, s := range f.world.slots {
			s.database.resetAll(false)
		}
		time.Sleep(2 * time.Second)
		for other := range p.nodeProxies {
			p.nodeProxies[other][pgtest.NodeRaft].barClient("")
		}
		for _, x := range p.nodeProxies[at] {
			x.resetAll(false)
		}
		p.mu.Lock()
		p.isolatedWorker = -1
		f.world.slots[beside].database.redirectAndCut(p.primary.Addr(pgtest.NodePostgres))
		p.mu.Unlock()
		return err
	}),
	primaryFault("PostgreSQL of the primary killed", func(p *patroniCluster, n *pgtest.Node, _ int, _ *faultInjector) error {
		n.Crash()
		time.Sleep(3 * time.Second)
		return nil
	}),
}

// primaryFault makes a fault of the primary. In three of four cases the standbys lag behind. It
// ends once the cluster is complete again.
func primaryFault(name string, do func(p *patroniCluster, n *pgtest.Node, at int, f *faultInjector) error) fault {
	return fault{name, fixedObject("primary"), func(f *faultInjector, _ string, d randomPair) error {
		p := f.world.patroni
		if err := p.waitUntilComplete(); err != nil {
			return err
		}
		p.mu.Lock()
		n := p.primary
		p.mu.Unlock()
		at := slices.Index(p.cluster.Nodes, n)
		if behind := p.nodeProxies[at][pgtest.NodePostgres]; d[1] < 0.75 {
			behind.holdBytes()
			time.Sleep(d.durationBetween(0, 300*time.Millisecond, 2*time.Second))
		}
		err := do(p, n, at, f)
		p.nodeProxies[at][pgtest.NodePostgres].resetAll(false) // the standbys never get the commits that they lack
		p.nodeProxies[at][pgtest.NodePostgres].releaseBytes()
		return errors.Join(err, p.waitUntilComplete())
	}}
}

// resumeAsPerson waits until everything is paused, compares the store with the ledger, ends the
// batches that the ledger has executed, and resumes everything.
func (p *patroniCluster) resumeAsPerson(ctx context.Context, w *world, st *postgres.Store) {
	ledger, err := childJob{Ledger: w.ledgerKind, URL: w.ledger.firstLine[0]}.newClient()
	if err != nil {
		w.t.Error(err)
		return
	}
	runner, err := dltbatch.New(st, ledger, childJob{Ledger: w.ledgerKind}.options())
	if err != nil {
		w.t.Error(err)
		return
	}
	for ctx.Err() == nil {
		sleepFor(ctx, 300*time.Millisecond)
		seen, err := st.Control(ctx, batch.Everything())
		if err != nil || seen.PausedAt.IsZero() {
			continue
		}
		sleepFor(ctx, requestTimeout+lateArrival+claimTTL) // requests under way arrive in this time
		if p.endExecuted(ctx, w, st, runner) != nil {
			continue
		}
		if seen, err = st.Control(ctx, batch.Everything()); err != nil || seen.PausedAt.IsZero() {
			continue
		}
		if _, err = runner.Resume(ctx, seen, batch.By{Actor: "a person", Reason: "compared with the ledger"}); err == nil {
			p.mu.Lock()
			p.resumeCount++
			p.mu.Unlock()
		}
	}
}

// endExecuted ends the waiting batches that the ledger has executed.
func (p *patroniCluster) endExecuted(ctx context.Context, w *world, st *postgres.Store, runner *dltbatch.Runner) error {
	var r report
	if err := w.controlLedger("GET", "/report", &r); err != nil {
		return err
	}
	executed := map[batch.ID]bool{}
	for _, e := range r.Executed {
		executed[e.ID] = true
	}
	by := batch.By{Actor: "a person", Reason: "the ledger has executed it"}
	open, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 2 * backlog})
	for _, seen := range open {
		if !executed[seen.ID] || err != nil {
			continue
		}
		_, refused := runner.Cancel(ctx, seen, by)
		if refused != nil {
			_, refused = runner.Decide(ctx, seen, batch.WasCommitted, by)
		}
		if refused == nil {
			p.mu.Lock()
			p.endedCount++
			p.mu.Unlock()
		} else if seen.State == batch.Queued {
			err = refused
		} // the monitor asks about all other batches
	}
	return err
}
