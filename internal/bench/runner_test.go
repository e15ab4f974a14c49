package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

func openSQLite(b testing.TB) store.Store {
	db, err := sqliteopen.Open(filepath.Join(b.TempDir(), "queue.db"))
	require.NoError(b, err)
	b.Cleanup(func() { db.Close() })
	st, err := sqlite.New(db, nil)
	require.NoError(b, err)
	require.NoError(b, st.Migrate(context.Background()))
	return st
}

// signed returns n batches of the services, each with a payload of about 1 KB.
func signed(b testing.TB, n, services int) []batch.Batch {
	key, err := sawtooth.GeneratePrivateKey()
	require.NoError(b, err)
	out := make([]batch.Batch, n)
	for i := range out {
		payload, address := sawtoothtest.Set(fmt.Sprintf("n%d", i%services), int64(i))
		out[i], err = sawtooth.Build(key, batch.ServiceID(fmt.Sprintf("s%06d", i%services)), sawtooth.Transaction{
			FamilyName: "intkey", FamilyVersion: "1.0", Nonce: fmt.Sprint(time.Now().UnixNano(), i),
			Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
		})
		require.NoError(b, err)
	}
	return out
}

// BenchmarkRunner sends b.N batches from Add to their outcome, with default options and the
// node's own pace.
func BenchmarkRunner(b *testing.B) {
	for _, st := range []struct {
		name string
		open func(testing.TB) store.Store
	}{
		{"memory", func(testing.TB) store.Store { return memory.New() }},
		{"sqlite", openSQLite},
	} {
		for _, services := range []int{100, 10_000} {
			b.Run(fmt.Sprintf("%s/services=%d", st.name, services), func(b *testing.B) {
				node := startNode(b, "-block", "10ms", "-skip-verify", "-pool-limit", "1000000")
				ledger, err := sawtooth.New(node.url, nil)
				require.NoError(b, err)
				defer ledger.CloseIdleConnections()
				runner, err := dltbatch.New(st.open(b), ledger, nil)
				require.NoError(b, err)
				ctx, stop := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- runner.Run(ctx) }()
				batches := signed(b, b.N, services)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				b.ReportAllocs()
				b.ResetTimer()
				for rest := batches; len(rest) > 0; {
					n := min(500, len(rest))
					require.NoError(b, runner.Add(ctx, rest[:n]...))
					rest = rest[n:]
				}
				require.NoError(b, runner.Idle(ctx))
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(int64(after.HeapInuse)-int64(before.HeapInuse))/(1<<20), "MiB-grown")
				stop()
				require.NoError(b, <-done)
			})
		}
	}
}
