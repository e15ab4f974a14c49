package ask_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/ask"
)

// Batches that this process posted are asked about from memory until the store's check is due.
func TestAsksWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.answer = alwaysReported(batch.ReportedPending)
		_, stop := w.start(t, nil)
		sleepAndWait(pollInterval / 2)
		begin, selects := w.now(), len(w.selectTimes())
		assert.Equal(t, pollInterval, w.addAnswered("s", "a", 0))
		w.add("s", "a", pollInterval)
		w.addStored("s", "a")
		sleepAndWait(pollInterval - time.Millisecond)
		assert.LessOrEqual(t, len(w.selectTimes())-selects, 1, "but for the poll")
		asked := w.askTimes("a")
		for i := range asked {
			asked[i] -= begin
		}
		assert.Equal(t, []time.Duration{firstPoll, 2 * firstPoll, 4 * firstPoll}, asked[:3])
		assert.Less(t, asked[len(asked)-1], pollInterval)
		assert.Less(t, len(asked), 10, "less and less often")
		n := len(asked)
		sleepAndWait(pollInterval)
		assert.Greater(t, len(w.askTimes("a")), n, "after that it is the store's")
		stop()
	})
}

// Batches that fall due close together are asked about together, and the outcome is for the
// version that was written.
func TestAsksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits.MaxIDsPerQuery = 3
		_, stop := w.start(t, nil)
		sleepAndWait(pollInterval / 2)
		for _, id := range []batch.ID{"a", "b", "c", "d"} {
			w.addAnswered("s", id, 0)
			w.addStored("s", id)
			time.Sleep(100 * time.Microsecond)
		}
		sleepAndWait(2 * firstPoll)
		assert.Len(t, w.queries, 2)
		assert.ElementsMatch(t, []string{"a is committed", "b is committed", "c is committed", "d is committed"}, w.findings())
		for _, o := range w.outcomes {
			assert.Equal(t, int64(3), o.Version)
		}
		stop()
	})
}

// Despite failures, and a ledger that hangs, every batch is asked about by its check at the
// latest.
func TestAsksThroughFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		var fail atomic.Bool
		fail.Store(true)
		w.answer = func(ctx context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			if fail.Load() {
				return nil, &dlt.Error{Op: "batch statuses", Kind: dlt.ErrUnavailable}
			}
			return committedStatuses(as), nil
		}
		_, stop := w.start(t, nil)
		sleepAndWait(pollInterval / 2)
		w.addAcceptance("s", "a")
		sleepAndWait(2 * firstPoll)
		assert.Len(t, w.askTimes("a"), 1)
		fail.Store(false)
		sleepAndWait(20 * pollInterval)
		assert.Equal(t, []string{"a is committed"}, w.findings())
		stop()
	})
}

// If the first poll is hardly sooner than the store's check, the monitor leaves it to the check.
// It does the same if the ledger streams events.
func TestAsksNothingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		_, stop := w.start(t, func(o *ask.Options) { o.Rules.FirstPoll = pollInterval / 2 })
		assert.Equal(t, pollInterval/2, w.addAnswered("s", "a", 0))
		w.addStored("s", "a")
		sleepAndWait(pollInterval / 2)
		assert.Empty(t, w.askTimes("a"))
		stop()

		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(pollInterval / 2)
		assert.Equal(t, pollInterval, w.addAnswered("s", "a", 0))
		w.addStored("s", "a")
		sleepAndWait(4 * firstPoll)
		assert.Empty(t, w.askTimes("a"))
		stop()
	})
}

// A batch that was just accepted is asked about once before the acceptance is written, together
// with others. Of the answers only a commit counts, and acceptance and commit are then one write.
func TestAsksBeforeTheAcceptanceIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.acceptancesMayWait = true
		w.answer = func(_ context.Context, _ batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			said := committedStatuses(as)
			for i := range said {
				switch said[i].ID {
				case "pending":
					said[i].Reported = batch.ReportedPending
				case "invalid":
					said[i].Reported = batch.ReportedInvalid
				}
			}
			return slices.DeleteFunc(said, func(s batch.Status) bool { return s.ID == "none" }), nil
		}
		_, stop := w.start(t, nil)
		sleepAndWait(pollInterval / 2)
		begin := w.now()
		for _, id := range []batch.ID{"a", "pending", "invalid"} {
			w.addAnswered("s", id, 0)
		}
		w.acceptancesMayWait = false
		w.addAnswered("s", "b", 0)
		w.addStored("s", "b")
		w.acceptancesMayWait = true
		w.addAnswered("s", "none", 0)
		assert.Len(t, w.acceptances(), 1, "the others wait")
		sleepAndWait(firstPoll)
		assert.Len(t, w.queries, 1)
		assert.Equal(t, firstPoll, w.askTimes("a")[0]-begin)
		assert.ElementsMatch(t, []string{"a is committed", "b is committed"}, w.findings())
		for _, o := range w.outcomes {
			if o.Key.ID == "a" {
				assert.Equal(t, batch.BySubmitter, o.By, "it is the submitter's outcome")
				assert.Equal(t, int64(2), o.Version, "of the claim")
				assert.Equal(t, int64(7), o.Row)
			}
		}
		for _, id := range []batch.ID{"pending", "invalid", "none"} {
			assert.Contains(t, w.acceptances(), id, "it is written")
		}
		sleepAndWait(20 * firstPoll)
		assert.Len(t, w.askTimes("pending"), 1, "the rest is for who reads the row")
		stop()
	})
}

// If the ledger cannot be asked, the acceptance is written without the answer.
func TestAnAcceptanceDoesNotWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.acceptancesMayWait = true
		w.answer = func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
			return nil, &dlt.Error{Op: "batch statuses", Kind: dlt.ErrUnavailable}
		}
		_, stop := w.start(t, nil)
		sleepAndWait(pollInterval / 2)
		w.addAnswered("s", "a", 0)
		assert.Empty(t, w.acceptances())
		sleepAndWait(firstPoll)
		assert.Contains(t, w.acceptances(), batch.ID("a"), "the request failed")
		w.addAnswered("s", "b", 0)
		sleepAndWait(firstPoll)
		assert.Len(t, w.queries, 1)
		assert.Contains(t, w.acceptances(), batch.ID("b"), "the ledger is left alone for now")
		stop()

		w = newMonitorTest()
		w.acceptancesMayWait = true
		_, stop = w.start(t, func(o *ask.Options) { o.Rules.FirstPoll = pollInterval / 2 })
		w.addAnswered("s", "a", 0)
		assert.Contains(t, w.acceptances(), batch.ID("a"), "the first question is hardly sooner than the others")
		stop()
	})
}
