package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// batchPerCall makes a batch of the orders of each call.
type batchPerCall struct{}

func (batchPerCall) Build(_ context.Context, party batch.ServiceID, orders []order.Order) (batch.Batch, error) {
	if len(orders) == 0 {
		return batch.Batch{}, errors.New("no orders")
	}
	return batch.Batch{ID: batch.ID(fmt.Sprintf("batch-of-%s-%d", orders[0].ID, len(orders))), Service: party, Payload: orders[0].Payload}, nil
}

// One process adds orders, a second makes and delivers their batches, and a third awaits them.
// Each polls only once an hour, so what makes them look are hints.
func TestOrdersBetweenProcessesOnPostgres(t *testing.T) {
	t.Parallel()
	tier.Hints(t)
	s := newSpace(t, nativePool)
	s.app()
	o := autobatch.Options{BatchInterval: time.Hour, MonitorInterval: time.Hour}
	adds, err := autobatch.New(s.open(nil).driverStore(), batchPerCall{}, &o)
	require.NoError(t, err)
	awaits, err := autobatch.New(s.open(nil).driverStore(), batchPerCall{}, &o)
	require.NoError(t, err)
	delivers := s.open(nil).driverStore()
	var runner *dltbatch.Runner
	o.Wake = func(party batch.ServiceID) { runner.Wake(party) }
	engine, err := autobatch.New(delivers, batchPerCall{}, &o)
	require.NoError(t, err)
	runner, err = dltbatch.New(delivers, ledgermem.New(nil), &dltbatch.Options{Observer: engine})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- runner.Run(ctx) }()
	go func() { ended <- engine.Run(ctx) }()
	for i := range 5 {
		it := anOrder("p", order.ID(fmt.Sprint("o", i)))
		require.NoError(t, adds.Add(t.Context(), it))
		rec, err := awaits.Await(t.Context(), it.ID)
		require.NoError(t, err)
		assert.Equal(t, order.Confirmed, rec.State)
	}
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}
