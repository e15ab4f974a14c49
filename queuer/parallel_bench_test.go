package queuer_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/queuer"
)

// hexAddress returns a full address in a namespace.
func hexAddress(r *rand.Rand) string {
	b := []byte("1cf126")
	for len(b) < 70 {
		b = append(b, "0123456789abcdef"[r.IntN(16)])
	}
	return string(b)
}

// wideLane returns a lane of 1,000 open batches with 4 addresses each. Its strings are in memory
// about as a store would return them.
func wideLane(address func(r *rand.Rand, i int) string) batch.Lane {
	r := rand.New(rand.NewPCG(1, 2))
	lane := batch.Lane{Service: "s", Batches: make([]batch.LaneBatch, 1000)}
	for i := range lane.Batches {
		f := batch.Footprint{
			Reads:  []string{address(r, i), address(r, i)},
			Writes: []string{address(r, i), address(r, i)},
		}
		lane.Batches[i] = batch.LaneBatch{ID: batch.ID(fmt.Sprint(i)), State: batch.Queued, Ready: true, Footprint: f}
	}
	return lane
}

var benchLanes = []struct {
	name string
	lane func() batch.Lane
}{
	{"apart", func() batch.Lane { return wideLane(func(r *rand.Rand, _ int) string { return hexAddress(r) }) }},
	{"shared", func() batch.Lane {
		few := make([]string, 500)
		for i := range few {
			few[i] = hexAddress(rand.New(rand.NewPCG(3, uint64(i))))
		}
		return wideLane(func(r *rand.Rand, _ int) string { return few[r.IntN(len(few))] })
	}},
	{"nested", func() batch.Lane {
		return wideLane(func(r *rand.Rand, _ int) string { return hexAddress(r)[:6+2*r.IntN(33)] })
	}},
	{"one", func() batch.Lane {
		return wideLane(func(*rand.Rand, int) string { return "1cf126" })
	}},
}

// BenchmarkParallel selects from 1,000 open batches with 4 addresses each: at most 500 us at p99,
// and at most 64 allocations. The times are CPU times, so the work of other processes does not
// count.
func BenchmarkParallel(b *testing.B) {
	for _, w := range benchLanes {
		lane := w.lane()
		for name, choose := range map[string]func(batch.Lane) []batch.Run{
			"select": queuer.Parallel(0).Select,
			"choose": queuer.Choose(queuer.Parallel(0), nil, func(_ batch.ServiceID, err error) { b.Error(err) }),
		} {
			b.Run(w.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				var took []time.Duration
				for b.Loop() {
					start := threadTime()
					choose(lane)
					took = append(took, threadTime()-start)
				}
				slices.Sort(took)
				for _, p := range []int{0, 50, 99} {
					b.ReportMetric(float64(took[len(took)*p/100].Microseconds()), fmt.Sprintf("p%d-cpu-us", p))
				}
			})
		}
	}
}

// Select has a limit of allocations, because it runs within the claiming transaction.
func TestParallelAllocations(t *testing.T) {
	tier.Plain(t)
	for _, w := range benchLanes {
		lane := w.lane()
		s := queuer.Parallel(0)
		require.NotEmpty(t, s.Select(lane), w.name)
		require.LessOrEqual(t, testing.AllocsPerRun(20, func() { s.Select(lane) }), 64.0, w.name)
		choose := queuer.Choose(s, nil, func(_ batch.ServiceID, err error) { t.Error(err) })
		require.LessOrEqual(t, testing.AllocsPerRun(20, func() { choose(lane) }), 64.0, "%s, checked", w.name)
	}
}

// Select and the check of its answer take much less time than a comparison of all pairs, on any
// machine however busy.
func TestParallelDoesNotComparePairs(t *testing.T) {
	tier.Plain(t)
	lane := benchLanes[0].lane()
	choose := queuer.Choose(queuer.Parallel(0), nil, func(_ batch.ServiceID, err error) { t.Error(err) })
	best := func(n int, f func()) time.Duration {
		least := time.Hour
		for range n {
			start := time.Now()
			f()
			least = min(least, time.Since(start))
		}
		return least
	}
	choice := best(10, func() { choose(lane) })
	pairs := best(1, func() {
		for p, b := range lane.Batches {
			for _, o := range lane.Batches[:p] {
				require.False(t, o.Footprint.Conflicts(b.Footprint))
			}
		}
	})
	require.Less(t, 5*choice, pairs)
}
