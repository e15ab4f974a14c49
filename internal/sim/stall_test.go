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

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/internal/pipes"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// TestStallOfAnotherCircuit: a batch that no family executes blocks one circuit of a node with two
// threads for 300 s, while its client goes on asking about it. This delays the other circuits of
// the node by one request at most. Once the stall is known, no batch whose POST begins later comes
// into doubt.
func TestStallOfAnotherCircuit(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) { runStallSeed(t, 1) })
}

func runStallSeed(t *testing.T, seed uint64) {
	const timeout = 15 * time.Second
	wire := &pipes.Net{}
	o := splintertest.RealTimes()
	o.Addrs, o.Listen, o.Faults = []string{"n0.test:80", "n1.test:80"}, wire.Listen, &splintertest.Faults{Seed: seed}
	o.Circuits = nil
	var lanes []batch.ServiceID
	for i := range 4 {
		o.Circuits = append(o.Circuits, splintertest.Circuit{ID: fmt.Sprintf("aaaaa-%05d", i)})
		lanes = append(lanes, batch.ServiceID(o.Circuits[i].ID+"::a000"))
	}
	network, err := splintertest.Listen(o)
	require.NoError(t, err)
	defer network.Close()
	transport := &http.Transport{DialContext: wire.Dial}
	defer transport.CloseIdleConnections()
	c, err := splinter.New(network.URL(0), &splinter.Options{Client: &http.Client{Transport: transport}})
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	key, err := sawtooth.ParsePrivateKey("2f1e7b7a130d7ba9da0068b3bb0ba1d79e7e77110302c9f746c3c2a63fe40088")
	require.NoError(t, err)
	made := 0
	make1 := func(lane batch.ServiceID, payload []byte, address string) batch.Attempt {
		made++
		b, err := sawtooth.Build(key, lane, sawtooth.Transaction{
			FamilyName: splintertest.Family, FamilyVersion: splintertest.FamilyVersion, Nonce: fmt.Sprint(seed, made),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
		return batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}
	}
	within := func(f func(context.Context) error) (time.Duration, error) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		err := f(ctx)
		return time.Since(start), err
	}
	poison, address := splintertest.Trap("x")
	bad := make1(lanes[0], poison, address)
	_, err = within(func(ctx context.Context) error { return c.Submit(ctx, bad) })
	require.NoError(t, err)
	time.Sleep(2 * time.Second)

	var (
		mu      sync.Mutex
		doubts  int
		delayed = map[batch.ServiceID]time.Duration{}
		posted  = map[batch.ServiceID]int{}
		work    sync.WaitGroup
	)
	end := time.Now().Add(2 * time.Minute) // the stall lasts for five minutes
	work.Go(func() {
		for time.Now().Before(end) {
			_, _ = within(func(ctx context.Context) error {
				_, err := c.BatchStatuses(ctx, bad.Service, []batch.Attempt{bad})
				return err
			})
			time.Sleep(time.Second)
		}
	})
	time.Sleep(100 * time.Millisecond)
	for _, lane := range lanes[1:] {
		work.Go(func() {
			for time.Now().Before(end) {
				mu.Lock()
				payload, address := splintertest.Inc("n", 1)
				a := make1(lane, payload, address)
				mu.Unlock()
				start := time.Now()
				for time.Now().Before(end) { // as the engine does, sends a batch again that was certainly not sent
					_, err := within(func(ctx context.Context) error { return c.Submit(ctx, a) })
					if dlt.Kind(err) == batch.KindDoubt {
						mu.Lock()
						doubts++
						mu.Unlock()
					}
					if err == nil || dlt.Kind(err) == batch.KindDoubt {
						break
					}
					time.Sleep(250 * time.Millisecond)
				}
				_, _ = within(func(ctx context.Context) error {
					_, err := c.BatchStatuses(ctx, lane, []batch.Attempt{a})
					return err
				})
				mu.Lock()
				posted[lane]++
				delayed[lane] += time.Since(start)
				mu.Unlock()
				time.Sleep(time.Second)
			}
		})
	}
	work.Wait()
	t.Logf("%d doubts; posted %v, in %v", doubts, posted, delayed)
	for _, lane := range lanes[1:] {
		assert.LessOrEqual(t, delayed[lane], timeout+10*time.Second, "%s", lane)
		assert.GreaterOrEqual(t, posted[lane], 85, "%s", lane)
	}
	assert.LessOrEqual(t, doubts, len(lanes)-1)
}
