package dltbatch_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store/memory"
)

// refusingLedger is a ledger that accepts nothing.
type refusingLedger struct {
	*ledgermem.Ledger

	mu        sync.Mutex
	postTimes []time.Time
}

func (l *refusingLedger) Submit(context.Context, batch.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.postTimes = append(l.postTimes, time.Now())
	return &dlt.Error{Op: "submit", Kind: dlt.ErrBusy}
}

// The delay of a batch doubles after each failure in a row, up to MaxDelay, and varies by a fifth
// in either direction.
func TestRetryDelayDoubles(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		l := &refusingLedger{Ledger: ledgermem.New(nil)}
		r, err := dltbatch.New(memory.New(), l, &dltbatch.Options{Retry: dltbatch.RetryPolicy{Delay: 10 * time.Minute, MaxDelay: 75 * time.Minute, QuickRetries: -1}})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		require.NoError(t, r.Add(ctx, batch.Batch{ID: "a", Service: "s", Payload: []byte("p")}))
		time.Sleep(6 * time.Hour)
		stop()
		require.NoError(t, <-done)
		require.Greater(t, len(l.postTimes), 5)
		for i, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 75 * time.Minute, 75 * time.Minute} {
			waited := l.postTimes[i+1].Sub(l.postTimes[i])
			assert.GreaterOrEqual(t, waited, want*8/10, "after failure %d", i+1)
			assert.LessOrEqual(t, waited, want*12/10+time.Minute, "after failure %d", i+1)
		}
	})
}

// A delay near the longest duration does not overflow: the batch is not tried again at once.
func TestADelayForEverIsNotNow(t *testing.T) {
	for name, o := range map[string]dltbatch.Options{
		"from the first failure on": {Retry: dltbatch.RetryPolicy{Delay: math.MaxInt64, QuickRetries: -1}},
		"by doubling":               {Retry: dltbatch.RetryPolicy{Delay: math.MaxInt64/2 + 1, MaxDelay: math.MaxInt64, QuickRetries: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := &refusingLedger{Ledger: ledgermem.New(nil)}
				r := newStartedRunner(t, memory.New(), ledger, &o)
				require.NoError(t, r.Add(t.Context(), newBatch("s", "a")))
				time.Sleep(time.Hour)
				assert.Len(t, ledger.postTimes, 1)
			})
		})
	}
}
