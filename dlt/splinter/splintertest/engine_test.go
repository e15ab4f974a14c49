package splintertest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

// TestEngine runs the whole engine over a network that loses requests and answers, accepts
// requests late, rolls proposals back, forgets, and restarts. Scabbard executes a batch each time
// that it gets it. Still every batch must be committed once, in its lane's order.
func TestEngine(t *testing.T) {
	for name, row := range map[string]struct {
		version int
		lanes   []int // the indexes of services
		seed    uint64
	}{
		"v2 coordinators": {2, []int{0, 2}, 7},
		"v1 every node":   {1, []int{0, 1, 2, 3}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			if row.version == 1 {
				tier.Plain(t) // starts the same goroutines as version 2
			}
			t.Parallel()
			const lateBy = 50 * time.Millisecond
			n := splintertest.Start(t, &splintertest.Options{
				Circuits: circuitOfVersion(row.version), CoordinatorTimeout: lateBy,
				Faults: &splintertest.Faults{
					Seed: row.seed, MaxPerBatch: 3,
					ResetBefore: 0.05, ResetAfter: 0.1, ErrorBefore: 0.05, ErrorAfter: 0.05, Late: 0.1, MaxLateDelay: lateBy, Busy: 0.05,
					StatusReset: 0.05, StatusError: 0.05, StatusTruncated: 0.05, Latency: 0.2, MaxLatency: 5 * time.Millisecond,
					Batch: func(id batch.ID, try int) splintertest.BatchFault {
						return splintertest.BatchFault{Reject: try == 1 && id[0] == '7'}
					},
				},
			})
			st := memory.New()
			client, err := splinter.New(n.URL(0), &splinter.Options{
				Node:        func(s batch.ServiceID) string { return n.URL(n.NodeOf(s)) },
				LateArrival: lateArrival, ClockMargin: lateBy, CoordinatorTimeout: lateBy, ProbeInterval: 10 * time.Millisecond,
				Journal: st,
			})
			require.NoError(t, err)
			t.Cleanup(client.CloseIdleConnections)
			runner, stop := startRunner(t, st, client, 0)
			defer stop()

			// The engine opens a stream with the first POST of a lane, which is too late for the
			// log to prove anything about that POST. So listening opens streams before.
			defer startStreams(t, n, client)()

			key, err := sawtooth.GeneratePrivateKey()
			require.NoError(t, err)
			order := map[batch.ServiceID][]batch.ID{}
			const each = 12
			// The restart comes while no batch is under way: batches under way would need a
			// decision, since the log has a gap then and the node has no memory
			// (docs/ledgers/splinter.md#statuses, docs/ledgers/splinter.md#events).
			restart := func() {
				idle, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if err := runner.Idle(idle); err != nil {
					describeUnfinished(t, n, runner, order)
					require.NoError(t, err)
				}
				begun := time.Now()
				n.Restart(0)
				client.CloseIdleConnections()
				for _, lane := range row.lanes {
					require.Eventually(t, func() bool {
						f, err := st.FindStream(t.Context(), "scabbard "+string(n.Services()[lane]), nil)
						fresh := n.NodeOf(n.Services()[lane]) != 0 || f.Since < time.Since(begun)
						return err == nil && f.Covered && fresh && f.Since > 2*lateBy
					}, 10*time.Second, 10*time.Millisecond)
				}
			}
			restart()
			for i := range each {
				if i == each/2 {
					restart()
				}
				for _, lane := range row.lanes {
					s := n.Services()[lane]
					b, err := sawtooth.Build(key, s, newTransaction(splintertest.Inc(fmt.Sprintf("lane%d", lane), 1)))
					require.NoError(t, err)
					require.NoError(t, runner.Add(t.Context(), b))
					order[s] = append(order[s], b.ID)
				}
			}
			idle, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			err = runner.Idle(idle)
			describeUnfinished(t, n, runner, order)
			require.NoError(t, err)
			require.NoError(t, n.Check(order))
			for _, lane := range row.lanes {
				assert.EqualValues(t, each, n.State(n.Services()[lane])[fmt.Sprintf("lane%d", lane)])
			}
		})
	}
}

// describeUnfinished reports what is known about each batch that is not committed.
func describeUnfinished(t *testing.T, n *splintertest.Network, runner *dltbatch.Runner, order map[batch.ServiceID][]batch.ID) {
	t.Helper()
	journal := n.Journal()
	for i, e := range journal {
		if e.Kind == splintertest.Divided {
			t.Logf("divided: %+v", journal[max(0, i-40):min(len(journal), i+1)])
		}
	}
	for s, ids := range order {
		for i, id := range ids {
			rec, err := runner.Get(context.WithoutCancel(t.Context()), batch.Key{Service: s, ID: id})
			require.NoError(t, err)
			if rec.State != batch.Committed {
				why, err := runner.Explain(context.WithoutCancel(t.Context()), rec.Key)
				t.Errorf("%s/%d is %s: node says %s, %d POSTs: %s, %v", s, i, rec.State, n.Status(s, id), n.Posts(id), why.Cause, err)
			}
		}
	}
}

// lateArrival is far longer than a POST can be late here, because a busy machine may delay the
// network's goroutines for a second: a POST that arrives later than the client was promised is
// executed twice.
const lateArrival = 3 * time.Second

// startRunner runs an engine, as fast as possible. It resumes each lane that halts: on a slow
// machine the coordinators may give up three executions of a batch in a row.
func startRunner(t *testing.T, st *memory.Store, client *splinter.Client, streams int) (*dltbatch.Runner, func()) {
	t.Helper()
	halted := make(chan batch.ServiceID, 100)
	runner, err := dltbatch.New(st, client, &dltbatch.Options{
		Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventHalted {
				halted <- e.Key.Service
			}
		}),
		Streams: streams, RequestTimeout: 2 * time.Second, ClaimTTL: 4 * time.Second, Drain: 4 * time.Second,
		PollInterval: 50 * time.Millisecond, FirstPoll: 2 * time.Millisecond, ScanInterval: 50 * time.Millisecond,
		Retry: dltbatch.RetryPolicy{Delay: 5 * time.Millisecond, MaxDelay: 20 * time.Millisecond, QuickRetryPause: time.Millisecond},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- runner.Run(ctx) }()
	var operator sync.WaitGroup
	operator.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-halted:
				seen, err := runner.Control(ctx, batch.Only(s))
				if err == nil {
					_, err = runner.Release(ctx, seen, batch.By{Actor: "operator"})
				}
				assert.True(t, err == nil || ctx.Err() != nil, "release: %v", err)
			}
		}
	})
	return runner, func() {
		cancel()
		assert.NoError(t, <-done)
		operator.Wait()
	}
}

// startStreams keeps a stream of every service open, for the log, until stop is called.
func startStreams(t *testing.T, n *splintertest.Network, client *splinter.Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var logs sync.WaitGroup
	for _, s := range n.Services() {
		logs.Go(func() {
			for ctx.Err() == nil {
				_ = client.Events(ctx, []batch.ServiceID{s}, func(dlt.Event) error { return nil })
				pause := time.NewTimer(5 * time.Millisecond)
				<-pause.C
			}
		})
	}
	return func() { cancel(); logs.Wait() }
}

// TestNoBatchIsExecutedTwice restarts nodes while batches are under way, with histories of a few
// batches. Many batches end up needing a decision, but none takes effect twice, or out of order.
func TestNoBatchIsExecutedTwice(t *testing.T) {
	t.Run("with a log", func(t *testing.T) { t.Parallel(); runLostBatches(t, true) })
	t.Run("without", func(t *testing.T) { tier.Plain(t); t.Parallel(); runLostBatches(t, false) })
}

func runLostBatches(t *testing.T, journal bool) {
	t.Helper()
	const circuits, each, lateBy = 8, 12, 30 * time.Millisecond
	o := &splintertest.Options{
		HistorySize: 6, CommitInterval: 3 * time.Millisecond, CoordinatorTimeout: 2 * lateBy,
		Faults: &splintertest.Faults{
			Seed: 3, ResetBefore: 0.05, ResetAfter: 0.1, ErrorAfter: 0.05, ErrorBefore: 0.05, Late: 0.1, MaxLateDelay: lateBy,
			Reject: 0.05, StatusReset: 0.4, Latency: 0.2, MaxLatency: 5 * time.Millisecond,
		},
	}
	for i := range circuits {
		o.Circuits = append(o.Circuits, splintertest.Circuit{ID: fmt.Sprintf("aaaaa-bbbb%d", i), Version: 1 + i%2})
	}
	n := splintertest.Start(t, o)
	st := memory.New()
	var log dlt.Journal
	if journal {
		log = st
	}
	client, err := splinter.New(n.URL(0), &splinter.Options{
		Node:        func(s batch.ServiceID) string { return n.URL(n.NodeOf(s)) },
		LateArrival: lateArrival, ClockMargin: lateBy, CoordinatorTimeout: 2 * lateBy, ProbeInterval: 10 * time.Millisecond, Journal: log,
	})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	runner, stop := startRunner(t, st, client, -1) // no streams: a batch whose commit is reported at once is rarely in doubt
	defer startStreams(t, n, client)()
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	order := map[batch.ServiceID][]batch.ID{}
	for range each {
		for _, s := range n.Services() {
			b, err := sawtooth.Build(key, s, newTransaction(splintertest.Inc("x", 1)))
			require.NoError(t, err)
			require.NoError(t, runner.Add(t.Context(), b))
			order[s] = append(order[s], b.ID)
		}
	}
	for i := range 16 { // often enough to hit batches that were executed and not asked about yet
		idle, cancel := context.WithTimeout(t.Context(), time.Duration(50+i%4*150)*time.Millisecond)
		_ = runner.Idle(idle) // an error does not matter
		cancel()
		n.Restart(i % 2)
	}
	idle, cancel := context.WithTimeout(t.Context(), 2*lateArrival) // long enough to send again what may be sent again
	_ = runner.Idle(idle)
	cancel()
	stop()
	require.NoError(t, n.Check(order))
	committed, resent := 0, 0
	for s, ids := range order {
		for _, id := range ids {
			rec, err := runner.Get(t.Context(), batch.Key{Service: s, ID: id})
			require.NoError(t, err)
			if n.Posts(id) > 1 {
				resent++
			}
			if rec.State == batch.Committed {
				committed++
				require.Contains(t, n.Executions(s), id, "committed, and never executed")
			}
		}
	}
	t.Logf("%d of %d committed, %d sent more than once", committed, each*len(order), resent)
	assert.Positive(t, committed)
	if journal {
		assert.Positive(t, resent, "the log proves nothing any more")
	}
}
