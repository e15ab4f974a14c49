package ask_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/ask"
)

// While a stream is open, the next read may be a whole PollInterval away. When the stream ends,
// the monitor reads the store at once.
func TestAfterAStreamHasEndedTheMonitorPollsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, func(o *ask.Options) {
			w.withEvents(events)(o)
			o.Rules.PollInterval = time.Minute
		})
		m.Follow("s")
		sleepAndWait(90 * time.Second) // half of the time to the next read
		w.add("s", "a", 0)
		sleepAndWait(0)
		require.Empty(t, w.askTimes("a"), "nobody said that something is due")
		at := w.now()
		events.breakStream("s")
		sleepAndWait(10 * time.Millisecond)
		stop()
		require.Len(t, w.askTimes("a"), 1)
		assert.LessOrEqual(t, w.askTimes("a")[0]-at, 5*time.Millisecond)
	})
}

// The first sight of an expired claim is remembered for as long as the claim is asked about: the
// wait for a late arrival must not start again.
func TestTheFirstSightIsKeptWhileItIsAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits = ledgerTraits
		w.traits.LateArrival = 25 * time.Minute // longer than a sight is remembered without a question
		w.answer = alwaysReported(batch.ReportedUnknown)
		w.add("s", "a", 0, func(r *row) {
			r.State = batch.Submitting
			r.postedAt = time.Now().Add(-10 * time.Hour)
		})
		_, stop := w.start(t, nil)
		sleepAndWait(w.traits.LateArrival - time.Second)
		require.Empty(t, w.findings())
		sleepAndWait(time.Second + 2*pollInterval)
		stop()
		assert.Equal(t, []string{"a undecidable"}, w.findings())
	})
}

// A stop ends the leases of rows, so the next process asks at once and not after the leases.
func TestAStopLeavesNoRowLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		begun := make(chan struct{})
		w.answer = func(ctx context.Context, _ batch.ServiceID, _ []batch.Attempt) ([]batch.Status, error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		<-begun
		stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Len(t, w.rows, 1)
		assert.False(t, w.rows[0].dueAt.After(time.Now()), "due in %s", time.Until(w.rows[0].dueAt))
	})
}

// A search for evidence needs a free connection. Without a free one, the row is asked about again
// soon, long before its lease ends. One connection is enough for question and search.
func TestEvidenceIsLookedForWithFewConnections(t *testing.T) {
	for _, connections := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newMonitorTest()
			w.traits = ledgerTraits
			w.traits.Resolves = true
			w.answer = alwaysReported(batch.ReportedUnknown)
			busy, most := 0, 0
			w.resolve = func(context.Context, dlt.Doubt) (dlt.Evidence, error) {
				w.mu.Lock()
				busy++
				most = max(most, busy)
				w.mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				w.mu.Lock()
				busy--
				w.mu.Unlock()
				return dlt.NotCommitted, nil
			}
			for _, id := range []batch.ID{"a", "b", "c", "d"} {
				w.add("s", id, 0, func(r *row) { r.State = batch.Submitting })
			}
			_, stop := w.start(t, func(o *ask.Options) { o.Connections = connections })
			sleepAndWait(max(grace, lateArrival) + 3*time.Second)
			stop()
			assert.Len(t, w.findings(), 4, "%d connections", connections)
			assert.LessOrEqual(t, most, connections)
		})
	}
}

// If the evidence is not clear, the monitor looks for it again until a person decides, because it
// may be found later.
func TestEvidenceIsLookedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits = ledgerTraits
		w.traits.Resolves = true
		w.answer = alwaysReported(batch.ReportedUnknown)
		asked := 0
		w.resolve = func(context.Context, dlt.Doubt) (dlt.Evidence, error) {
			if asked++; asked < 5 {
				return dlt.CannotTell, nil
			}
			return dlt.NotCommitted, nil
		}
		doubtful := func(r *row) { r.State = batch.Submitting }
		w.add("s", "a", 0, doubtful)
		_, stop := w.start(t, nil)
		sleepAndWait(max(grace, lateArrival) + 3*time.Second)
		require.Equal(t, []string{"a undecidable"}, w.findings())
		w.add("s", "a", 0, doubtful, func(r *row) { r.Undecided, r.postedAt = true, time.Now().Add(-time.Hour) })
		sleepAndWait(lateArrival + claimTTL + 10*time.Second)
		stop()
		assert.Equal(t, []string{"a undecidable", "a not committed"}, w.findings())
	})
}
