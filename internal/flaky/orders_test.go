package flaky_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/flaky"
	"github.com/dltbatch/dltbatch/store/memory"
)

// namingBuilder makes a batch whose id consists of the ids of its orders.
type namingBuilder struct{}

func (namingBuilder) Build(_ context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
	return batch.Batch{ID: batch.ID("b-" + string(orders[0].ID)), Service: party, Payload: []byte("x")}, nil
}

// measureOrders measures the latencies of orders on a store on which one call in every fails. If
// every is 0, none fails.
func measureOrders(t *testing.T, seed uint64, every int) (took flaky.Latencies, f *flaky.Faults) {
	synctest.Test(t, func(t *testing.T) {
		f = flaky.New(seed, max(1, every))
		inner := memory.New()
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 20 * time.Millisecond})
		e, err := autobatch.New(&flaky.Orders{Store: inner, Faults: f}, namingBuilder{}, nil)
		require.NoError(t, err)
		r, err := dltbatch.New(&flaky.Store{Store: inner, Faults: f}, ledger, &dltbatch.Options{Observer: e})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, r.Run(ctx)) })
		running.Go(func() { assert.NoError(t, e.Run(ctx)) })
		synctest.Wait()
		f.SetCalm(every == 0)
		again := func(do func() error) {
			for err := do(); err != nil; err = do() {
				if !errors.Is(err, flaky.ErrBefore) && !errors.Is(err, flaky.ErrAfter) {
					t.Error(err)
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
		var mu sync.Mutex
		var parties sync.WaitGroup
		for p := range 6 {
			parties.Go(func() {
				party := batch.ServiceID(fmt.Sprint("p", p))
				for i := range 100 {
					o := order.Order{ID: order.ID(fmt.Sprintf("%s-%04d", party, i)), Party: party, Payload: []byte("x")}
					again(func() error { return e.Add(ctx, o) })
					added := time.Now()
					again(func() error {
						rec, err := e.Await(ctx, o.ID)
						if err == nil && rec.State != order.Confirmed {
							t.Errorf("%s is %s", o.ID, rec.State)
						}
						return err
					})
					mu.Lock()
					took = append(took, time.Since(added))
					mu.Unlock()
				}
			})
		}
		parties.Wait()
		f.SetCalm(true)
		cancel()
		running.Wait()
		executed := 0
		for p := range 6 {
			log := ledger.Log(batch.ServiceID(fmt.Sprint("p", p)))
			executed += len(log)
			slices.Sort(log)
			require.Equal(t, slices.Compact(slices.Clone(log)), log, "none twice")
		}
		require.Equal(t, 600, executed)
		slices.Sort(took)
	})
	return took, f
}

// The loops of auto-batching also retry by themselves.
func TestOneCallInTenFailsOrders(t *testing.T) {
	calm, _ := measureOrders(t, 1, 0)
	t.Logf("no faults: %s", calm)
	for seed := uint64(1); seed <= 3; seed++ {
		took, f := measureOrders(t, seed, 10)
		t.Logf("%s\n%s", took, f)
		assert.LessOrEqual(t, took.Quantile(0.99)-calm.Quantile(0.99), time.Second, "p99")
	}
}
