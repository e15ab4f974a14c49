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
// [patroni.judge].
func TestPatroni(t *testing.T) {
	tier.Soak(t, "a failover by Patroni takes half a minute, and many are needed")
	for _, m := range []*patroni{
		{mode: "asynchronous"},
		{mode: "asynchronous, PauseOnLostCommits", pauses: true},
		{mode: "synchronous_mode", synchronous: true},
	} {
		t.Run(m.mode, func(t *testing.T) {
			w := newPatroniWorld(t, m)
			f, err := w.deal(*chaosSeed, *patroniFaults, *patroniTime)
			require.NoError(t, err)
			acked := w.add.end()
			require.NoError(t, m.whole())
			w.rest(w.store())
			m.end()
			for _, k := range w.kinds() {
				t.Logf("%4d %s", f.count[k.name], k.name)
			}
			if m.synchronous {
				w.check(w.store(), acked)
			}
			m.judge(w, acked, f)
		})
	}
}

// patroni is a cluster of three servers, with the proxies between its parts.
type patroni struct {
	mode                string
	synchronous, pauses bool

	cluster *pgtest.Patroni
	reach   [3][3]*proxy // the proxies between nodes
	front   *proxy       // the test's own proxy to the primary
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu        sync.Mutex
	primary   *pgtest.Node
	beside    int // the worker on the primary's side of a partition; -1 if there is none
	failovers int
	resumed   int // how often a person has looked and resumed everything
	acted     int // number of batches that this person has ended
}

// newPatroniWorld starts a cluster, a ledger and workers.
func newPatroniWorld(t *testing.T, p *patroni) *world {
	p.beside = -1
	p.cluster = pgtest.NewPatroni(t, p.synchronous, func(node, place int, own string) string {
		x := newProxy(t, own)
		if place == pgtest.NodeRaft {
			x.name = raftNode
		}
		p.reach[node][place] = x
		return x.addr()
	})
	p.primary = p.cluster.Primary()
	require.NotNil(t, p.primary)
	p.front = newProxy(t, p.primary.Addr(pgtest.NodePostgres))
	w := &world{t: t, kind: unforgiving, patroni: p, at: p.front.addr()}
	w.open(3)
	for _, s := range w.slots {
		s.database.point(p.primary.Addr(pgtest.NodePostgres))
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	t.Cleanup(p.end)
	p.wg.Go(func() { p.lead(ctx, w) })
	if p.pauses {
		st := w.store()
		p.wg.Go(func() { p.person(ctx, w, st) })
	}
	return w
}

// end stops what follows the cluster.
func (p *patroni) end() {
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

// lead does the work of HAProxy, by Patroni's own health check: it directs the workers and the
// test to the primary. It cuts the connections of some workers to the old primary; other workers
// keep theirs until the old primary closes them.
func (p *patroni) lead(ctx context.Context, w *world) {
	for ctx.Err() == nil {
		pause(ctx, 100*time.Millisecond)
		p.mu.Lock()
		was, beside := p.primary, p.beside
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
		p.failovers++
		p.mu.Unlock()
		to := now.Addr(pgtest.NodePostgres)
		p.front.point(to)
		for i, s := range w.slots {
			switch {
			case i == beside:
			case i%2 == 0:
				s.database.point(to)
			default:
				s.database.lead(to)
			}
		}
	}
}

// whole waits until the cluster is complete.
func (p *patroni) whole() error {
	until := time.Now().Add(4 * time.Minute)
	for !p.cluster.IsWhole() {
		if time.Now().After(until) {
			return fmt.Errorf("no primary with two standbys after 4 minutes: %w", p.cluster.LogEnds())
		}
		time.Sleep(200 * time.Millisecond)
	}
	return nil
}

// another waits until a node other than n is the primary.
func (p *patroni) another(n *pgtest.Node) error {
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

// patroniKinds are the faults of a Patroni cluster.
var patroniKinds = []fault{
	ofPrimary("primary killed", func(p *patroni, n *pgtest.Node, _ int, _ *faults) error {
		n.Kill()
		return errors.Join(p.another(n), n.Start())
	}),
	ofPrimary("primary frozen", func(p *patroni, n *pgtest.Node, _ int, _ *faults) error {
		err := n.Freeze()
		if err == nil {
			err = p.another(n)
		}
		time.Sleep(time.Second)
		return errors.Join(err, n.Resume())
	}),
	ofPrimary("primary cut off, and a worker with it", func(p *patroni, n *pgtest.Node, at int, f *faults) error {
		beside := at // the number of a worker
		p.mu.Lock()
		p.beside = beside
		p.mu.Unlock()
		for _, x := range p.reach[at] {
			x.cut(true)
		}
		for other := range p.reach {
			p.reach[other][pgtest.NodeRaft].bar(p.reach[at][pgtest.NodeRaft].addr())
		}
		p.front.cut(true)
		for i, s := range f.w.slots {
			if i != beside {
				s.database.cut(true)
			}
		}
		err := p.another(n)
		p.front.cut(false)
		for _, s := range f.w.slots {
			s.database.cut(false)
		}
		time.Sleep(2 * time.Second)
		for other := range p.reach {
			p.reach[other][pgtest.NodeRaft].bar("")
		}
		for _, x := range p.reach[at] {
			x.cut(false)
		}
		p.mu.Lock()
		p.beside = -1
		f.w.slots[beside].database.point(p.primary.Addr(pgtest.NodePostgres))
		p.mu.Unlock()
		return err
	}),
	ofPrimary("PostgreSQL of the primary killed", func(p *patroni, n *pgtest.Node, _ int, _ *faults) error {
		n.Crash()
		time.Sleep(3 * time.Second)
		return nil
	}),
}

// ofPrimary makes a fault of the primary. In three of four cases the standbys lag behind. It ends
// once the cluster is complete again.
func ofPrimary(name string, do func(p *patroni, n *pgtest.Node, at int, f *faults) error) fault {
	return fault{name, only("primary"), func(f *faults, _ string, d draw) error {
		p := f.w.patroni
		if err := p.whole(); err != nil {
			return err
		}
		p.mu.Lock()
		n := p.primary
		p.mu.Unlock()
		at := slices.Index(p.cluster.Nodes, n)
		if behind := p.reach[at][pgtest.NodePostgres]; d[1] < 0.75 {
			behind.swallow()
			time.Sleep(d.between(0, 300*time.Millisecond, 2*time.Second))
		}
		err := do(p, n, at, f)
		p.reach[at][pgtest.NodePostgres].cut(false) // the standbys never get the commits that they lack
		p.reach[at][pgtest.NodePostgres].open()
		return errors.Join(err, p.whole())
	}}
}

// person waits until everything is paused, compares the store with the ledger, ends the batches
// that the ledger has executed, and resumes everything.
func (p *patroni) person(ctx context.Context, w *world, st *postgres.Store) {
	ledger, err := job{Ledger: w.kind, URL: w.ledger.said[0]}.client()
	if err != nil {
		w.t.Error(err)
		return
	}
	runner, err := dltbatch.New(st, ledger, job{Ledger: w.kind}.options())
	if err != nil {
		w.t.Error(err)
		return
	}
	for ctx.Err() == nil {
		pause(ctx, 300*time.Millisecond)
		seen, err := st.Control(ctx, batch.Everything())
		if err != nil || seen.PausedAt.IsZero() {
			continue
		}
		pause(ctx, requestTimeout+lateArrival+claimTTL) // requests under way arrive in this time
		if p.compare(ctx, w, st, runner) != nil {
			continue
		}
		if seen, err = st.Control(ctx, batch.Everything()); err != nil || seen.PausedAt.IsZero() {
			continue
		}
		if _, err = runner.Resume(ctx, seen, batch.By{Actor: "a person", Reason: "compared with the ledger"}); err == nil {
			p.mu.Lock()
			p.resumed++
			p.mu.Unlock()
		}
	}
}

// compare ends the waiting batches that the ledger has executed.
func (p *patroni) compare(ctx context.Context, w *world, st *postgres.Store, runner *dltbatch.Runner) error {
	var r report
	if err := w.control("GET", "/report", &r); err != nil {
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
			p.acted++
			p.mu.Unlock()
		} else if seen.State == batch.Queued {
			err = refused
		} // the monitor asks about all other batches
	}
	return err
}
