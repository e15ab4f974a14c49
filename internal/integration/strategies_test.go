package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
)

// deliverByTwoRunners lets two Runners deliver batches that are added through each of them in
// turn.
func deliverByTwoRunners(t *testing.T, d driver, ledger *memory.Ledger, strategy queuer.Strategy, batches []batch.Batch) {
	s := newSpace(t, d)
	s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
	s.store()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var runners []*dltbatch.Runner
	done := make(chan error, 2)
	for range 2 {
		st, _ := s.store()
		r, err := dltbatch.New(st, ledger, &dltbatch.Options{
			Strategy: strategy, PollInterval: 50 * time.Millisecond, ScanInterval: 50 * time.Millisecond,
		})
		require.NoError(t, err)
		runners = append(runners, r)
		go func() { done <- r.Run(ctx) }()
	}
	for i, b := range batches {
		require.NoError(t, runners[i%2].Add(ctx, b))
	}
	wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	require.NoError(t, runners[0].Idle(wait))
	stop()
	for range runners {
		require.NoError(t, <-done)
	}
}

// Two instances with pipelined lanes deliver each lane in order, each batch once, and with several
// batches of a lane under way.
func TestTwoRunnersPipelined(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			ledger := memory.New(&memory.Options{CommitAfter: 20 * time.Millisecond})
			order := map[batch.ServiceID][]batch.ID{}
			var all []batch.Batch
			for i := range 120 {
				b := newBatch(fmt.Sprint("lane", i%3), fmt.Sprint("b", 999-i))
				all, order[b.Service] = append(all, b), append(order[b.Service], b.ID)
			}
			deliverByTwoRunners(t, d, ledger, queuer.Pipelined(8), all)
			require.NoError(t, ledger.Verify(order))
			for service, ids := range order {
				assert.Equal(t, ids, ledger.Log(service))
			}
			under, most := map[batch.ServiceID]int{}, 0
			for _, e := range ledger.Journal() {
				switch {
				case e.Kind == memory.PostEnd && e.Err == nil:
					under[e.Key.Service]++
				case e.Kind == memory.Executed:
					under[e.Key.Service]--
				}
				most = max(most, under[e.Key.Service])
			}
			assert.Greater(t, most, 1, "batches of a lane under way")
		})
	}
}

// Two instances let every batch leave at once that conflicts with no batch before it. Batches that
// write the same address are executed in the order in which they were added, each once.
func TestTwoRunnersParallel(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			ledger := memory.New(&memory.Options{CommitAfter: 20 * time.Millisecond})
			order, address := map[string][]batch.ID{}, map[batch.ID]string{}
			var all []batch.Batch
			for i := range 120 {
				b := newBatch("lane", fmt.Sprint("b", 999-i))
				at := fmt.Sprint("address", i*i%7)
				b.Footprint = batch.Footprint{Writes: []string{at}}
				all, order[at], address[b.ID] = append(all, b), append(order[at], b.ID), at
			}
			deliverByTwoRunners(t, d, ledger, queuer.Parallel(0), all)
			executed := map[string][]batch.ID{}
			under, most := 0, 0
			for _, e := range ledger.Journal() {
				switch {
				case e.Kind == memory.PostStart:
					under++
				case e.Kind == memory.Executed:
					under--
					executed[address[e.Key.ID]] = append(executed[address[e.Key.ID]], e.Key.ID)
				}
				most = max(most, under)
			}
			assert.Equal(t, order, executed)
			assert.Greater(t, most, 1, "batches of the lane under way")
		})
	}
}
