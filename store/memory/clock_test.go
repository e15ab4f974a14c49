package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// If the database's clock steps forward while a request is under way, no second request goes out:
// the claim only looks expired, and the monitor waits for the first request by its own clock.
func TestClockThatStepsForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ledgermem.New(&ledgermem.Options{Fault: func(a batch.Attempt) ledgermem.Fault {
			if a.Number == 1 {
				return ledgermem.Fault{Latency: 12 * time.Second}
			}
			return ledgermem.Fault{}
		}})
		st := memory.New()
		r, err := dltbatch.New(st, l, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		b := batch.Batch{ID: "b", Service: "s", Payload: []byte("x")}
		require.NoError(t, r.Add(ctx, b))
		time.Sleep(time.Second)
		st.StepClock(2 * time.Minute)
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, l.Verify(map[batch.ServiceID][]batch.ID{"s": {"b"}}))
	})
}
