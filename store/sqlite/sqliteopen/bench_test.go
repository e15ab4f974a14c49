package sqliteopen_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// BenchmarkDelivery adds batches, delivers them and records them as final, with eight adders, ten
// batches a call, in 100 lanes. Run it with CGO_ENABLED=1 and with CGO_ENABLED=0 to compare the
// drivers.
func BenchmarkDelivery(b *testing.B) {
	const adders, call, lanes = 8, 10, 100
	db, err := sqliteopen.Open(filepath.Join(b.TempDir(), "q.db"))
	require.NoError(b, err)
	defer func() { _ = db.Close() }()
	st, err := sqlite.New(db, nil)
	require.NoError(b, err)
	require.NoError(b, st.Migrate(b.Context()))
	r, err := dltbatch.New(st, memory.New(nil), nil)
	require.NoError(b, err)
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	b.ResetTimer()
	var all errgroup.Group
	for a := range adders {
		all.Go(func() error {
			for n := a * call; n < b.N; n += adders * call {
				batches := make([]batch.Batch, min(call, b.N-n))
				for i := range batches {
					batches[i] = batch.Batch{
						ID: batch.ID(fmt.Sprintf("%0128x", n+i)), Service: batch.ServiceID(fmt.Sprint("lane ", (n+i)%lanes)), Payload: make([]byte, 1536),
					}
				}
				if err := r.Add(ctx, batches...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(b, all.Wait())
	require.NoError(b, r.Idle(ctx))
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
	stop()
	require.NoError(b, <-done)
}
