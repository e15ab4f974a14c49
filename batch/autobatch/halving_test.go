package autobatch_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

// engineTest is a Runner and an Engine that send each other hints, as in an application.
type engineTest struct {
	st     *memory.Store
	books  *checkingLedger
	engine *autobatch.Engine
	stop   context.CancelFunc
	loops  sync.WaitGroup
}

func newEngineTest(t testing.TB, b order.Builder, o *autobatch.Options, lo *ledgermem.Options) *engineTest {
	t.Helper()
	r := &engineTest{st: memory.New()}
	r.books = newCheckingLedger(r.st, lo)
	var opts autobatch.Options
	if o != nil {
		opts = *o
	}
	var runner *dltbatch.Runner
	opts.Wake = func(s batch.ServiceID) { runner.Wake(s) }
	var err error
	r.engine, err = autobatch.New(r.st, b, &opts)
	require.NoError(t, err)
	runner, err = dltbatch.New(r.st, r.books, &dltbatch.Options{Observer: r.engine})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.loops.Go(func() { assert.NoError(t, runner.Run(ctx)) })
	r.loops.Go(func() { assert.NoError(t, r.engine.Run(ctx)) })
	return r
}

func (r *engineTest) stopAndWait() {
	r.stop()
	r.loops.Wait()
}

// TestHalving: k bad orders of n cost at most 2k(log2(n/k)+1) more submissions, and none if k is
// 0. Each bad order is quarantined, and no other order is.
func TestHalving(t *testing.T) {
	tier.Plain(t)
	const n = 256
	for _, how := range []string{invalidPayload, refusedPayload, unbuildablePayload} {
		for _, k := range []int{0, 1, 3, 16, n} {
			for seed := range uint64(2) {
				synctest.Test(t, func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, uint64(k)))
					r := newEngineTest(t, orderBuilder{}, &autobatch.Options{MaxSize: n}, nil)
					bad := map[int]bool{}
					for _, i := range rng.Perm(n)[:k] {
						bad[i] = true
					}
					var orders []order.Order
					for i := range n {
						o := order.Order{ID: order.ID(fmt.Sprintf("o%03d", i)), Party: "p", Payload: []byte(payPayload)}
						if bad[i] {
							o.Payload = []byte(how)
						}
						orders = append(orders, o)
					}
					require.NoError(t, r.engine.Add(t.Context(), orders...))
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					for i, o := range orders {
						rec, err := r.engine.Await(ctx, o.ID)
						require.NoError(t, err)
						want := order.Confirmed
						if bad[i] {
							want = order.Quarantined
							require.NotNil(t, rec.Error)
						}
						require.Equal(t, want, rec.State, o.ID)
					}
					r.stopAndWait()
					bound := 1
					if k > 0 {
						bound += int(2 * float64(k) * (math.Log2(float64(n)/float64(k)) + 1))
					}
					require.LessOrEqual(t, r.books.submissions(), bound, "%d %s", k, how)
					executed := r.books.executedOrders("p")
					require.Len(t, executed, n-k)
					require.IsIncreasing(t, executed, "halves keep the order")
					require.NoError(t, r.books.check())
				})
			}
		}
	}
}
