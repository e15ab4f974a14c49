package autobatch_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// slowLedgerOptions returns the options of a ledger on which a submission takes 50 ms, and nothing
// else takes time.
func slowLedgerOptions() *ledgermem.Options {
	return &ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
		return ledgermem.Fault{Latency: 50 * time.Millisecond}
	}}
}

// confirmTransfers adds n orders of one party at once, and returns the time until all are
// confirmed.
func confirmTransfers(t testing.TB, maxSize, n int) time.Duration {
	r := newEngineTest(t, orderBuilder{}, &autobatch.Options{MaxSize: maxSize}, slowLedgerOptions())
	defer r.stopAndWait()
	orders := make([]order.Order, n)
	for i := range orders {
		orders[i] = newOrder("p", i)
	}
	start := time.Now()
	require.NoError(t, r.engine.Add(context.Background(), orders...))
	var wg sync.WaitGroup
	for _, o := range orders {
		wg.Go(func() {
			rec, err := r.engine.Await(context.Background(), o.ID)
			if assert.NoError(t, err) {
				assert.Equal(t, order.Confirmed, rec.State)
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// confirmLoad adds rate orders a second for d, one by one, and returns the time that each took,
// sorted.
func confirmLoad(t testing.TB, parties, rate int, d time.Duration) []time.Duration {
	r := newEngineTest(t, orderBuilder{}, nil, slowLedgerOptions())
	defer r.stopAndWait()
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	begin, n := time.Now(), int(d.Seconds()*float64(rate))
	for i := range n {
		if wait := time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(rate))); wait > 0 {
			time.Sleep(wait) // keeps the rate that is measured
		}
		o := newOrder(batch.ServiceID(fmt.Sprint("p", i%parties)), i)
		start := time.Now()
		if !assert.NoError(t, r.engine.Add(context.Background(), o)) {
			break
		}
		wg.Go(func() {
			rec, err := r.engine.Await(context.Background(), o.ID)
			if assert.NoError(t, err) && assert.Equal(t, order.Confirmed, rec.State) {
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(start))
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took
}

// TestThroughput: with 100 transfers in each submission, transfers are at least 50 times as fast
// as with one.
func TestThroughput(t *testing.T) {
	tier.Plain(t)
	var one, many float64
	synctest.Test(t, func(t *testing.T) { one = 50 / confirmTransfers(t, 1, 50).Seconds() })
	synctest.Test(t, func(t *testing.T) { many = 5000 / confirmTransfers(t, 100, 5000).Seconds() })
	t.Logf("one in a submission: %.0f/s; up to 100: %.0f/s", one, many)
	assert.GreaterOrEqual(t, many/one, 50.0)
}

// TestLatency: with the default intervals of one second, no order waits for an interval.
func TestLatency(t *testing.T) {
	tier.Plain(t)
	for name, c := range map[string]struct {
		rate int
		p99  time.Duration
	}{
		"low": {3, 120 * time.Millisecond}, "high": {600, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			took := confirmLoad(t, 1, c.rate, 10*time.Second)
			p50, p99 := took[len(took)/2], took[len(took)*99/100]
			t.Logf("%s load: p50 %s, p99 %s", name, p50, p99)
			assert.LessOrEqual(t, p99, c.p99, name)
		})
	}
}

// BenchmarkTransfers measures one party's transfers a second, with 50 ms a submission.
func BenchmarkTransfers(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprint("size=", size), func(b *testing.B) {
			total, n := time.Duration(0), 20*size
			for b.Loop() {
				total += confirmTransfers(b, size, n)
			}
			b.ReportMetric(float64(n*b.N)/total.Seconds(), "transfers/s")
		})
	}
}

// BenchmarkLatency measures an order's time from Add to Await, of which the submission takes 50
// ms.
func BenchmarkLatency(b *testing.B) {
	for _, c := range []struct{ parties, rate int }{{1, 5}, {1, 600}, {20, 2000}} {
		b.Run(fmt.Sprintf("parties=%d,rate=%d", c.parties, c.rate), func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				all = append(all, confirmLoad(b, c.parties, c.rate, 3*time.Second)...)
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Milliseconds()), "p50-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Milliseconds()), "p99-ms")
		})
	}
}
