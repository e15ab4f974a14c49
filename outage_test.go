package dltbatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// unreachableLedger is a ledger without events whose status queries fail while it is down.
type unreachableLedger struct {
	*ledgermem.Ledger
	isDown atomic.Bool
}

func newUnreachableLedger() *unreachableLedger {
	traits := ledgermem.Unforgiving(time.Second)
	traits.Streams = false
	s := &unreachableLedger{Ledger: ledgermem.New(&ledgermem.Options{Traits: &traits})}
	s.isDown.Store(true)
	return s
}

func (s *unreachableLedger) BatchStatuses(ctx context.Context, service batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	if s.isDown.Load() {
		return nil, errors.New("still starting")
	}
	return s.Ledger.BatchStatuses(ctx, service, attempts)
}

// Everything was off for two hours, and the service starts a few seconds before the ledger: no
// person is called.
func TestARestartCallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, st, seen := newUnreachableLedger(), memory.New(), &eventRecorder{}
		b := newBatch("s", "a")
		r := newRunner(t, st, ledger, nil)
		stop := startRun(t, r)
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Second)
		require.Equal(t, batch.Pending, recordOf(t, r, b).State)
		require.NoError(t, stop())
		time.Sleep(2 * time.Hour)
		r = newRunner(t, st, ledger, &dltbatch.Options{Observer: seen})
		stop = startRun(t, r)
		time.Sleep(3 * time.Second)
		ledger.isDown.Store(false)
		awaitFinal(t, r, b)
		require.NoError(t, stop())
		assert.Empty(t, seen.ofKind(batch.EventDecision))
	})
}

// The database's clock is a day ahead for a minute, and a batch is posted in that minute. Once the
// clock is right, the batch is asked about within minutes, not a day later.
func TestAClockThatWasAheadSilencesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, st, b := newUnreachableLedger(), memory.New(), newBatch("s", "a")
		r := newStartedRunner(t, st, ledger, nil)
		st.StepClock(24 * time.Hour)
		require.NoError(t, r.Add(t.Context(), b))
		time.Sleep(time.Minute)
		st.StepClock(-24 * time.Hour)
		ledger.isDown.Store(false)
		began := time.Now()
		awaitFinal(t, r, b)
		assert.Less(t, time.Since(began), 15*time.Minute)
	})
}
