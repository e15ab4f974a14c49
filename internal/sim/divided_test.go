package sim

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/pipes"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

// A node dies between its check of a batch and its commit. From then on the services of that
// circuit have different states, and every batch of the circuit that depends on the difference is
// rolled back, for good. The library halts the lane after two executions that were rolled back,
// and reports why. Another circuit goes on.
func TestADividedCircuitIsReported(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		wire := &pipes.Net{}
		nodes := splintertest.RealTimes()
		nodes.Addrs, nodes.Listen = []string{"n0.test:80", "n1.test:80"}, wire.Listen
		nodes.Circuits = []splintertest.Circuit{{ID: "aaaaa-00000"}, {ID: "aaaaa-00001"}}
		divided, whole := batch.ServiceID("aaaaa-00000::a000"), batch.ServiceID("aaaaa-00001::a000")
		var mu sync.Mutex
		deadly := map[batch.ID]bool{}
		nodes.Faults = &splintertest.Faults{DownTime: 2 * time.Second, Batch: func(id batch.ID, _ int) (f splintertest.BatchFault) {
			mu.Lock()
			defer mu.Unlock()
			if deadly[id] {
				f.Crash = splintertest.CrashPeerBeforeCommit
			}
			return f
		}}
		network, err := splintertest.Listen(nodes)
		require.NoError(t, err)
		defer network.Close()

		st := memory.New()
		transport := &http.Transport{DialContext: wire.Dial}
		defer transport.CloseIdleConnections()
		client, err := splinter.New(network.URL(0), &splinter.Options{Client: &http.Client{Transport: transport}, Journal: st})
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		var halted []batch.Event
		var when []time.Time
		runner, err := dltbatch.New(st, client, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			if e.Kind == batch.EventHalted {
				mu.Lock()
				defer mu.Unlock()
				halted, when = append(halted, e), append(when, time.Now())
			}
		})})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { assert.NoError(t, runner.Run(ctx)) })

		key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
		require.NoError(t, err)
		made := 0
		add := func(lane batch.ServiceID, kills bool) batch.ID {
			made++
			payload, address := splintertest.Inc("x", 1)
			b, err := sawtooth.Build(key, lane, sawtooth.Transaction{
				FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Nonce: fmt.Sprint(made),
				Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
			})
			require.NoError(t, err)
			mu.Lock()
			deadly[b.ID] = kills
			mu.Unlock()
			require.NoError(t, runner.Add(t.Context(), b))
			return b.ID
		}
		// until waits until a condition holds, and then for its effects.
		until := func(so func() bool) {
			for range 36 {
				if so() {
					break
				}
				time.Sleep(5 * time.Minute)
			}
			time.Sleep(20 * time.Minute)
		}
		halts := func(n int) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(halted) >= n
			}
		}
		for _, lane := range []batch.ServiceID{divided, whole} {
			add(lane, false)
		}
		time.Sleep(time.Minute) // until the streams are open
		first := add(divided, true)
		until(func() bool { _, differ := network.Divided(divided); return differ })
		_, differ := network.Divided(divided)
		require.True(t, differ)
		stuck := add(divided, false)
		const others = 5
		for range others {
			add(whole, false)
		}
		added := time.Now()
		until(halts(1))
		mu.Lock()
		require.Len(t, halted, 1)
		assert.Less(t, when[0].Sub(added), 15*time.Minute)
		mu.Unlock()

		rec, err := runner.Get(t.Context(), batch.Key{Service: divided, ID: first})
		require.NoError(t, err)
		assert.Equal(t, batch.Committed, rec.State, "the coordinator has it")
		posts := network.Posts(stuck)
		assert.Equal(t, 2, posts)
		control, err := runner.Control(t.Context(), batch.Only(divided))
		require.NoError(t, err)
		assert.Contains(t, control.HaltReason, "disagree")
		why, err := runner.Explain(t.Context(), batch.Key{Service: divided, ID: stuck})
		require.NoError(t, err)
		assert.Equal(t, batch.CauseHalted, why.Cause)
		assert.Equal(t, []batch.ServiceID{divided}, runner.Health().HaltedServices)
		mu.Lock()
		if assert.Len(t, halted, 1) {
			assert.Equal(t, stuck, halted[0].Key.ID)
		}
		mu.Unlock()
		assert.Len(t, network.Applied(whole), others+1, "the circuit beside it")

		_, err = runner.Release(t.Context(), control, batch.By{Actor: "operator"})
		require.NoError(t, err)
		until(halts(2))
		assert.Equal(t, 2*posts, network.Posts(stuck), "it was released, and is halted again")
		assert.Len(t, network.Applied(divided), 2, "nothing twice")
	})
}
