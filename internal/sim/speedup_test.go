package sim

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

var measuresAllRates = flag.Bool("sim.curve", false, "measure the speed-up of Parallel at every conflict rate, not at its ends only")

// batchesWithConflicts returns n signed batches of one lane. percent of them, evenly spread, set
// the same name; each of the others sets a name of its own.
func batchesWithConflicts(t *testing.T, n, percent int) []batch.Batch {
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(t, err)
	bs := make([]batch.Batch, n)
	for i := range bs {
		name := fmt.Sprintf("own%d", i)
		if (i+1)*percent/100 > i*percent/100 {
			name = "shared"
		}
		payload, address := sawtoothtest.Set(name, int64(i))
		bs[i], err = sawtooth.Build(key, "busy", sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: fmt.Sprint(i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(t, err)
	}
	return bs
}

// claimCounter counts the claims, and the batches that they show to the strategy.
type claimCounter struct {
	store.Store
	claims, batches int
}

func (r *claimCounter) Claim(ctx context.Context, q store.ClaimQuery, choose store.Choose) (store.Claimed, error) {
	r.claims++ // only one goroutine claims at a time
	return r.Store.Claim(ctx, q, func(l batch.Lane) []batch.Run {
		r.batches += len(l.Batches)
		return choose(l)
	})
}

// timeUntilEmpty returns the virtual time until one busy lane is empty, on a simulated node with a
// latency of 0 to 40 ms that makes a block each second, with default options except the strategy.
func timeUntilEmpty(t *testing.T, s queuer.Strategy, bs []batch.Batch) (took time.Duration, read claimCounter) {
	synctest.Test(t, func(t *testing.T) {
		n, err := sawtoothtest.Listen(&sawtoothtest.Options{
			InMemory: true, BlockInterval: time.Second, SkipVerify: true,
			Faults: &sawtoothtest.Faults{Latency: 1, MaxLatency: 40 * time.Millisecond},
		})
		require.NoError(t, err)
		defer n.Close()
		ledger, err := sawtooth.New(n.URL(), &sawtooth.Options{Client: n.Client()})
		require.NoError(t, err)
		read.Store = memory.New()
		r, err := dltbatch.New(&read, ledger, &dltbatch.Options{Strategy: s})
		require.NoError(t, err)
		require.NoError(t, r.Add(t.Context(), bs...))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- r.Run(ctx) }()
		require.NoError(t, r.Idle(ctx))
		took = time.Since(start)
		cancel()
		require.NoError(t, <-done)
		require.Len(t, n.Chain(), len(bs))
	})
	return took, read
}

// TestSpeedUp: if no batches conflict, one busy lane is at least 50 times as fast as with Serial.
// If all conflict, it is at most a hundredth slower.
func TestSpeedUp(t *testing.T) {
	tier.Long(t)
	tier.Plain(t)
	n, rates := 200, []int{0, 100}
	if *measuresAllRates {
		n, rates = 1000, []int{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d batches of one lane, a block a second; read: rows for each batch\n", n)
	fmt.Fprintf(&table, "%12s%12s%12s%12s%14s%14s\n", "conflicts %", "Serial s", "Parallel s", "speed-up", "Serial read", "Parallel read")
	for _, rate := range rates {
		bs := batchesWithConflicts(t, n, rate)
		one, readOne := timeUntilEmpty(t, queuer.Serial(), bs)
		all, readAll := timeUntilEmpty(t, queuer.Parallel(0), bs)
		speedUp := one.Seconds() / all.Seconds()
		fmt.Fprintf(&table, "%12d%12.1f%12.1f%12.1f%14.1f%14.1f\n", rate, one.Seconds(), all.Seconds(), speedUp,
			float64(readOne.batches)/float64(n), float64(readAll.batches)/float64(n))
		switch rate {
		case 0:
			assert.GreaterOrEqual(t, speedUp, 50.0)
		case 100:
			assert.GreaterOrEqual(t, speedUp, 1/1.01)
		}
	}
	t.Log("\n" + table.String())
}
