package autobatch_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/batch/autobatch/order"
	"github.com/dltbatch/dltbatch/store/memory"
)

// An order that ends badly leaves a line with its name and the reason.
func TestTheLogOfARefusedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		refuse := order.BuilderFunc(func(context.Context, batch.ServiceID, []order.Order) (batch.Batch, error) {
			return batch.Batch{}, &batch.InputError{Field: "account", Want: "an account"}
		})
		e, err := autobatch.New(memory.New(), refuse, &autobatch.Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, e.Add(ctx, newOrder("p", 1)))
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		rec := awaitOrder(t, e, "p-001")
		cancel()
		require.NoError(t, <-ended)
		assert.Equal(t, order.Quarantined, rec.State)
		assert.Contains(t, lines.String(), `level=INFO msg="order ended badly" order=p-001 state=quarantined party=p error="rejected: invalid account: want an account"`)
	})
}
