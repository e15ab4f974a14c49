package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/shards"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// BenchmarkShards does the same work, eight adders of 100 batches a call in 400 lanes and their
// delivery, on one shard and on several of one server.
func BenchmarkShards(b *testing.B) {
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchShards(b, n) })
	}
}

func benchShards(b *testing.B, n int) {
	const adders, call, lanes = 8, 100, 400
	pool, err := pgxpool.New(b.Context(), pgtest.Start(b))
	require.NoError(b, err)
	defer pool.Close()
	var list []shard
	for i := range n {
		schema := fmt.Sprintf("bench_%d_%d", i, time.Now().UnixNano())
		st, err := native.New(pool, &postgres.Options{Schema: schema, Shard: store.Shard{Set: "bench", Number: i, Of: n}})
		require.NoError(b, err)
		require.NoError(b, st.Migrate(b.Context()))
		defer func() {
			_, err := pool.Exec(context.WithoutCancel(b.Context()), `DROP SCHEMA `+schema+` CASCADE`)
			require.NoError(b, err)
		}()
		list = append(list, shard{DB: pool, Store: st})
	}
	ledger := memory.New(nil)
	set, err := shards.New(func(s shard) (*dltbatch.Runner, error) { return dltbatch.New(s.Store, ledger, nil) }, list...)
	require.NoError(b, err)
	of := make([][]batch.ServiceID, n)
	for l := range lanes {
		lane := batch.ServiceID(fmt.Sprint("lane ", l))
		of[shards.Number(lane, n)] = append(of[shards.Number(lane, n)], lane)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx, nil) }()
	b.ResetTimer()
	var all errgroup.Group
	for a := range adders {
		all.Go(func() error {
			mine := of[a%n]
			for k := a * call; k < b.N; k += adders * call {
				batches := make([]batch.Batch, min(call, b.N-k))
				for i := range batches {
					batches[i] = batch.Batch{ID: batch.ID(fmt.Sprintf("%0128x", k+i)), Service: mine[(k/call*7+i)%len(mine)], Payload: make([]byte, 1536)}
				}
				if err := set.Add(ctx, batches...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(b, all.Wait())
	require.NoError(b, set.Idle(ctx))
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
	stop()
	require.NoError(b, <-done)
}
