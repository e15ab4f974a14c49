package monitor_test

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
	"github.com/dltbatch/dltbatch/monitor"
	"github.com/dltbatch/dltbatch/store"
)

func accepted(id batch.ID) store.InFlight {
	return store.InFlight{
		Ref: store.Ref{Key: batch.Key{Service: "s", ID: id}}, Version: 3, State: batch.Pending, Attempt: 1, DoubtAttempt: 1, Ended: true,
	}
}

// Batches that this process posted are asked about from memory until the store's check is due.
func TestMindsWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.answer = saying(batch.ReportedPending)
		m, stop := w.start(t, nil)
		settle(poll / 2)
		assert.Equal(t, poll, m.Minds(first))
		assert.Equal(t, poll, m.Minds(poll), "the ledger tells")
		begin, selects := w.now(), len(w.selected())
		assert.True(t, m.Mind(accepted("a")))
		w.add("s", "a", poll)
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

// Batches that fall due close together are asked about together; ages go on; and a verdict is
// for the version that was posted.
func TestMindsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.traits.MaxIDsPerQuery = 3
		m, stop := w.start(t, nil)
		settle(poll / 2)
		for _, id := range []batch.ID{"a", "b", "c", "d"} {
			m.Mind(accepted(id))
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

// Failures and a ledger that hangs leave nothing unasked for longer than its check.
func TestMindsThroughFailures(t *testing.T) {
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
		m, stop := w.start(t, nil)
		settle(poll / 2)
		m.Mind(accepted("a"))
		w.add("s", "a", poll)
		settle(2 * first)
		assert.Len(t, w.asked("a"), 1)
		fail.Store(false)
		settle(20 * poll)
		assert.Equal(t, []string{"a is committed"}, w.found())
		stop()
	})
}

// A first poll that is hardly sooner than the others is left to the store, and so is a ledger
// that streams events.
func TestMindsNothingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m, stop := w.start(t, func(o *monitor.Options) { o.Rules.FirstPoll = poll / 2 })
		assert.Equal(t, poll/2, m.Minds(poll/2))
		assert.False(t, m.Mind(accepted("a")))
		stop()

		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop = w.start(t, withEvents(events))
		m.Follow("s")
		settle(poll / 2)
		events.tell(t, "s", dlt.Event{})
		settle(first)
		assert.False(t, m.Mind(accepted("a")))
		stop()
	})
}

// A batch that was just accepted is asked about once before the acceptance is recorded:
// together with the others, and for nothing but a commit.
func TestMindsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
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
		m, stop := w.start(t, nil)
		settle(poll / 2)
		begin := w.now()
		soon := func(id batch.ID) bool {
			was := store.NewRow().Claim(time.Now(), time.Minute, store.Resend{})
			return m.MindSoon(store.Ref{Key: batch.Key{Service: "s", ID: id}, Row: 7}, &was)
		}
		for _, id := range []batch.ID{"a", "pending", "invalid"} {
			assert.True(t, soon(id))
		}
		m.Mind(accepted("b"))
		soon("none")
		settle(first)
		assert.Len(t, w.queries, 1)
		assert.Equal(t, first, w.asked("a")[0]-begin)
		assert.ElementsMatch(t, []string{"a is committed", "b is committed"}, w.found())
		for _, o := range w.outcomes {
			if o.Key.ID == "a" {
				assert.Equal(t, int64(2), o.Version, "of the claim")
				assert.Equal(t, int64(7), o.Row)
			}
		}
		var freed []batch.ID
		for _, key := range w.freed {
			freed = append(freed, key.ID)
		}
		assert.ElementsMatch(t, []batch.ID{"pending", "invalid", "none"}, freed)
		settle(20 * first)
		assert.Len(t, w.asked("pending"), 1, "the rest is for who reads the row")
		stop()
	})
}

// If the ledger cannot be asked, the acceptance does not wait.
func TestMindsSoonOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.answer = func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error) {
			return nil, &dlt.Error{Op: "batch statuses", Kind: dlt.ErrUnavailable}
		}
		m, stop := w.start(t, nil)
		settle(poll / 2)
		was := store.NewRow().Claim(time.Now(), time.Minute, store.Resend{})
		a, b := store.Ref{Key: batch.Key{Service: "s", ID: "a"}}, store.Ref{Key: batch.Key{Service: "s", ID: "b"}}
		m.MindSoon(a, &was)
		settle(first)
		assert.Equal(t, []batch.Key{a.Key}, w.freed, "the request failed")
		m.MindSoon(b, &was)
		settle(first)
		assert.Len(t, w.queries, 1)
		assert.Equal(t, []batch.Key{a.Key, b.Key}, w.freed, "the ledger is left alone for now")
		stop()

		w = newWorld()
		m, stop = w.start(t, func(o *monitor.Options) { o.Rules.FirstPoll = poll / 2 })
		assert.False(t, m.MindSoon(a, &was), "hardly sooner than the others")
		stop()
	})
}
