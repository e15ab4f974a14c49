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
		w := newWorld()
		w.answer = saying(batch.ReportedPending)
		_, stop := w.start(t, nil)
		settle(poll / 2)
		begin, selects := w.now(), len(w.selected())
		assert.Equal(t, poll, w.answered("s", "a", 0))
		w.add("s", "a", poll)
		w.stored("s", "a")
		settle(poll - time.Millisecond)
		assert.LessOrEqual(t, len(w.selected())-selects, 1, "but for the poll")
		asked := w.asked("a")
		for i := range asked {
			asked[i] -= begin
		}
		assert.Equal(t, []time.Duration{first, 2 * first, 4 * first}, asked[:3])
		assert.Less(t, asked[len(asked)-1], poll)
		assert.Less(t, len(asked), 10, "less and less often")
		n := len(asked)
		settle(poll)
		assert.Greater(t, len(w.asked("a")), n, "after that it is the store's")
		stop()
	})
}

// Batches that fall due close together are asked about together, and the outcome is for the
// version that was written.
func TestAsksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.traits.MaxIDsPerQuery = 3
		_, stop := w.start(t, nil)
		settle(poll / 2)
		for _, id := range []batch.ID{"a", "b", "c", "d"} {
			w.answered("s", id, 0)
			w.stored("s", id)
			time.Sleep(100 * time.Microsecond)
		}
		settle(2 * first)
		assert.Len(t, w.queries, 2)
		assert.ElementsMatch(t, []string{"a is committed", "b is committed", "c is committed", "d is committed"}, w.found())
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
		w := newWorld()
		var fail atomic.Bool
		fail.Store(true)
		w.answer = func(ctx context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			if fail.Load() {
				return nil, &dlt.Error{Op: "batch statuses", Kind: dlt.ErrUnavailable}
			}
			return committed(as), nil
		}
		_, stop := w.start(t, nil)
		settle(poll / 2)
		w.accepted("s", "a")
		settle(2 * first)
		assert.Len(t, w.asked("a"), 1)
		fail.Store(false)
		settle(20 * poll)
		assert.Equal(t, []string{"a is committed"}, w.found())
		stop()
	})
}

// If the first poll is hardly sooner than the store's check, the monitor leaves it to the check.
// It does the same if the ledger streams events.
func TestAsksNothingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		_, stop := w.start(t, func(o *ask.Options) { o.Rules.FirstPoll = poll / 2 })
		assert.Equal(t, poll/2, w.answered("s", "a", 0))
		w.stored("s", "a")
		settle(poll / 2)
		assert.Empty(t, w.asked("a"))
		stop()

		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(poll / 2)
		assert.Equal(t, poll, w.answered("s", "a", 0))
		w.stored("s", "a")
		settle(4 * first)
		assert.Empty(t, w.asked("a"))
		stop()
	})
}

// A batch that was just accepted is asked about once before the acceptance is written, together
// with others. Of the answers only a commit counts, and acceptance and commit are then one write.
func TestAsksBeforeTheAcceptanceIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.mayWait = true
		w.answer = func(_ context.Context, _ batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			said := committed(as)
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
		settle(poll / 2)
		begin := w.now()
		for _, id := range []batch.ID{"a", "pending", "invalid"} {
			w.answered("s", id, 0)
		}
		w.mayWait = false
		w.answered("s", "b", 0)
		w.stored("s", "b")
		w.mayWait = true
		w.answered("s", "none", 0)
		assert.Len(t, w.acceptances(), 1, "the others wait")
		settle(first)
		assert.Len(t, w.queries, 1)
		assert.Equal(t, first, w.asked("a")[0]-begin)
		assert.ElementsMatch(t, []string{"a is committed", "b is committed"}, w.found())
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
		settle(20 * first)
		assert.Len(t, w.asked("pending"), 1, "the rest is for who reads the row")
		stop()
	})
}

// If the ledger cannot be asked, the acceptance is written without the answer.
func TestAnAcceptanceDoesNotWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.mayWait = true
		w.answer = func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
			return nil, &dlt.Error{Op: "batch statuses", Kind: dlt.ErrUnavailable}
		}
		_, stop := w.start(t, nil)
		settle(poll / 2)
		w.answered("s", "a", 0)
		assert.Empty(t, w.acceptances())
		settle(first)
		assert.Contains(t, w.acceptances(), batch.ID("a"), "the request failed")
		w.answered("s", "b", 0)
		settle(first)
		assert.Len(t, w.queries, 1)
		assert.Contains(t, w.acceptances(), batch.ID("b"), "the ledger is left alone for now")
		stop()

		w = newWorld()
		w.mayWait = true
		_, stop = w.start(t, func(o *ask.Options) { o.Rules.FirstPoll = poll / 2 })
		w.answered("s", "a", 0)
		assert.Contains(t, w.acceptances(), batch.ID("a"), "the first question is hardly sooner than the others")
		stop()
	})
}
