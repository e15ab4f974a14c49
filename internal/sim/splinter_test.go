package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/pipes"
	"github.com/dltbatch/dltbatch/store"
)

var printsEvents = flag.Bool("sim.trace", false, "print what the Runners of a network of nodes tell")

// These are scabbard's own times, divided by fifty.
const (
	unservedHold = 6 * time.Second
	lateArrival  = 2*unservedHold + 2*time.Second
)

// runSplinterSeed runs two Runners, each with its own client, against a network of scabbard nodes
// that loses requests, forgets, restarts and rolls back by seed.
func runSplinterSeed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	wire := &pipes.Net{}
	network, err := splintertest.Listen(&splintertest.Options{
		Addrs: []string{"n0.test:80", "n1.test:80"}, Listen: wire.Listen,
		Circuits:       []splintertest.Circuit{{ID: "aaaaa-bbbbb", Version: 1 + rng.IntN(2)}, {ID: "ccccc-ddddd", Version: 1 + rng.IntN(2)}},
		CommitInterval: time.Duration(1+rng.IntN(600)) * time.Millisecond,
		UnservedHold:   unservedHold, HistorySize: 4 + rng.IntN(20), SubscribeGap: time.Duration(rng.IntN(30)) * time.Millisecond,
		Before0613: rng.IntN(4) == 0,
		Faults: &splintertest.Faults{
			Seed: seed, Hang: 0.02, ResetBefore: 0.06, ResetAfter: 0.08, ErrorBefore: 0.03, ErrorAfter: 0.03, Late: 0.06, Busy: 0.05,
			StatusHang: 0.01, StatusReset: 0.03, StatusError: 0.03, StatusTruncated: 0.02,
			Latency: 0.3, MaxLatency: 300 * time.Millisecond, MaxLateDelay: unservedHold,
			Lose: 0, Reject: 0.04, Evict: 0.1, MaxPerBatch: 3,
		},
	})
	require.NoError(t, err)
	defer network.Close()
	// There are two lanes, because each circuit has its own state and its own order.
	lanes := []batch.ServiceID{"aaaaa-bbbbb::a000", "ccccc-ddddd::a000"}

	st := newFailingStore(t, seed)
	var runners []*dltbatch.Runner
	for range 2 {
		transport := &http.Transport{DialContext: wire.Dial}
		client, err := splinter.New(network.URL(0), &splinter.Options{
			Client: &http.Client{Transport: transport}, LateArrival: lateArrival, CoordinatorTimeout: 3 * time.Second,
			Journal: st, ClockMargin: 500 * time.Millisecond, ProbeInterval: 300 * time.Millisecond, StreamLease: 2 * time.Second,
		})
		require.NoError(t, err)
		defer transport.CloseIdleConnections()
		defer client.CloseIdleConnections()
		r, err := dltbatch.New(st, client, &dltbatch.Options{
			Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
				if *printsEvents {
					t.Logf("%s %s %.12s %s attempt %d %v", e.At.Format("15:04:05.000"), e.Kind, e.Key.ID, e.State, e.Attempt, e.Err)
				}
			}),
			RequestTimeout: requestTimeout, ClaimTTL: claimTTL, StuckAfter: time.Hour, Retry: dltbatch.RetryPolicy{MaxDelay: 4 * time.Second},
		})
		require.NoError(t, err)
		runners = append(runners, r)
	}
	all, stop := context.WithCancel(t.Context())
	runFor := func(r *dltbatch.Runner, d time.Duration) {
		ctx, cancel := context.WithTimeout(all, d)
		defer cancel()
		require.NoError(t, runAgainOnFault(ctx, r))
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		runFor(runners[0], time.Duration(rng.IntN(20000))*time.Millisecond)
		runFor(runners[0], 100*time.Hour)
	})

	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	require.NoError(t, err)
	order := map[batch.ServiceID][]batch.ID{}
	for i := range 10 + int(seed%10) {
		payload, address := splintertest.Inc(fmt.Sprint("n", i%3), 1)
		if i%7 == 6 {
			payload, address = splintertest.Invalid("x")
		}
		b, err := sawtooth.Build(key, lanes[i%len(lanes)], sawtooth.Transaction{
			FamilyName: "sabre", FamilyVersion: "0.5", Nonce: fmt.Sprint(seed, i), Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
		st.addUntilStored(t, runners[i%2], b)
		order[b.Service] = append(order[b.Service], b.ID)
		time.Sleep(100 * time.Millisecond)
	}
	runFor(runners[1], 10*time.Second)
	if seed%3 == 0 {
		network.Restart(0)
	}
	if seed%6 == 0 { // a second time, while batches that it forgot are under way again
		runFor(runners[1], time.Duration(rng.IntN(8000))*time.Millisecond)
		network.Restart(0)
		t.Log("the node restarted twice")
	}
	network.CutStreams(0)
	runFor(runners[1], 30*time.Second)
	st.Faults.SetCalm(true)

	decided := 0
	running.Go(func() { decided = decideDoubts(all, t, network, st, runners[1]) })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
	defer cancel()
	if err := runners[1].Idle(ctx); err != nil {
		open, _, _ := st.List(t.Context(), store.ListQuery{Open: true, Limit: 1000})
		for _, rec := range open {
			t.Logf("open: %.12s %s attempt %d, version %d, doubt since %s, decision %q; %+v, the node says %s", rec.ID, rec.State, rec.Attempt, rec.Version, rec.DoubtSince, rec.Decision, rec.Error, network.Status(rec.Service, rec.ID))
		}
		require.NoError(t, err, "promise 6")
	}
	require.NoError(t, network.Check(order), "promises 2 and 3")
	for service, ids := range order {
		committed := map[batch.ID]bool{}
		for _, id := range network.Executions(service) {
			committed[id] = true
		}
		for _, id := range ids {
			rec, err := runners[0].Await(ctx, batch.Key{Service: service, ID: id})
			require.NoError(t, err, "promise 1")
			require.Equal(t, committed[id], rec.State == batch.Committed, "promise 10: %.12s is %s", id, rec.State)
		}
	}
	stop()
	running.Wait()
	t.Logf("a person decided %d times", decided)
}

// decideDoubts is a person who reads the ledger itself, long after the last POST, and decides. The
// person also releases the lanes that the Runner has halted.
func decideDoubts(ctx context.Context, t *testing.T, network *splintertest.Network, st store.Store, r *dltbatch.Runner) (n int) {
	for {
		select {
		case <-ctx.Done():
			return n
		case <-time.After(time.Minute):
		}
		open, _, err := st.List(ctx, store.ListQuery{Open: true, Limit: 1000})
		if ctx.Err() != nil {
			return n
		}
		require.NoError(t, err)
		for _, rec := range open {
			c, err := st.Control(ctx, batch.Only(rec.Service))
			if err == nil && !c.HaltedAt.IsZero() { // two executions in a row were rolled back
				_, err = r.Release(ctx, c, batch.By{Actor: "test", Reason: "the nodes agree"})
			}
			require.True(t, err == nil || ctx.Err() != nil || errors.Is(err, batch.ErrMovedOn), "%v", err)
			if rec.Decision == "" {
				continue
			}
			ruling := batch.NotExecutedSendAgain
			for _, id := range network.Executions(rec.Service) {
				if id == rec.ID {
					ruling = batch.WasCommitted
				}
			}
			if _, err := st.Decide(ctx, rec, ruling, batch.By{Actor: "test", Reason: "looked at the ledger"}); err == nil {
				n++
			} else {
				require.True(t, errors.Is(err, batch.ErrNotAllowed) || errors.Is(err, batch.ErrMovedOn), "%v", err)
			}
		}
	}
}
