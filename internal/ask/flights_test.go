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
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/store"
)

// runStreaming runs a monitor on a ledger that streams events, long after the stream was opened.
func runStreaming(t *testing.T, answer func(context.Context, batch.ServiceID, []batch.Attempt) ([]batch.Status, error), f func(w *monitorTest, m *ask.Monitor, events *eventStreams)) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.answer = true, answer
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(time.Second)
		f(w, m, events)
		stop()
	})
}

// After an event, the monitor asks about the batches that this process posted without a read of
// the store.
func TestAFlightIsAskedAboutWithoutTheStore(t *testing.T) {
	runStreaming(t, nil, func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		w.addAcceptance("s", "a")
		w.add("s", "another's", time.Hour)
		reads := len(w.selectTimes())
		at := w.now()
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(0)
		assert.Equal(t, []string{"a is committed"}, w.findings())
		assert.Equal(t, at, w.putAt["a"])
		assert.Equal(t, int64(3), w.outcomes[0].Version)
		assert.Len(t, w.selectTimes(), reads)
		assert.Equal(t, []int{1}, w.queries[0].attempts)
	})
}

// Nothing is asked about a batch while its claim is live, because an answer from before the POST
// would count.
func TestWhatIsNotStoredAsAcceptedIsNotAskedAbout(t *testing.T) {
	runStreaming(t, nil, func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		w.addAnswered("s", "a", 0)
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(time.Second)
		assert.Empty(t, w.askTimes("a"))
		w.dueIn(w.table.Written([]inhand.Recorded{{Outcome: store.Outcome{Ref: store.Ref{Key: key("s", "a")}, Version: 2}, Applied: store.Applied{Result: store.Fenced}}})) // the row now belongs to another process
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(time.Second)
		assert.Empty(t, w.askTimes("a"))
	})
}

func TestACommitIsRecordedOnce(t *testing.T) {
	runStreaming(t, nil, func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		w.addAcceptance("s", "a")
		for range 5 {
			events.sendEvent(t, "", dlt.Event{})
			sleepAndWait(20 * time.Millisecond)
		}
		assert.Len(t, w.askTimes("a"), 1, "while it is being recorded")
		w.addStored("s", "a", func(r *store.Row) { r.State, r.Version = batch.Committed, 4 })
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(time.Second)
		assert.Len(t, w.askTimes("a"), 1, "and after")
		assert.Len(t, w.findings(), 1)
	})
}

// Questions have the batches in the order of their POSTs. A ledger commits roughly in that order,
// so its newest commits are in one answer, and in one write, however many more batches are under
// way.
func TestFlightsAreAskedAboutInTheOrderOfTheirPosts(t *testing.T) {
	runStreaming(t, nil, func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		w.mu.Lock()
		w.traits.MaxIDsPerQuery = 2
		w.mu.Unlock()
		rows := map[batch.ID]int64{"first": 4, "second": 2, "third": 3, "fourth": 1}
		for _, id := range []batch.ID{"first", "second", "third", "fourth"} {
			w.addAnswered("s", id, 0, func(o *store.Outcome) { o.Row = rows[id] })
			sleepAndWait(time.Millisecond)
		}
		for id := range rows {
			w.addStored("s", id)
		}
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(20 * time.Millisecond)
		require.Len(t, w.queries, 2)
		asked := [][]batch.ID{w.queries[0].ids, w.queries[1].ids}
		assert.ElementsMatch(t, [][]batch.ID{{"first", "second"}, {"third", "fourth"}}, asked, "both requests go out at once")
	})
}

// Any answer about a row in hand is decided about at once, for the version in hand.
func TestAnotherWordIsDecidedAbout(t *testing.T) {
	for said, finding := range map[batch.Reported]string{
		batch.ReportedInvalid: "a is invalid", batch.ReportedValid: "a is valid", batch.ReportedFailed: "a failed",
	} {
		runStreaming(t, alwaysReported(said), func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
			w.addAcceptance("s", "a")
			reads := len(w.selectTimes())
			events.sendEvent(t, "", dlt.Event{})
			sleepAndWait(30 * time.Millisecond)
			require.Equal(t, []string{finding}, w.findings())
			assert.Equal(t, int64(3), w.outcomes[0].Version)
			assert.Len(t, w.selectTimes(), reads)
		})
	}
}

// The endpoint that showed a resend is remembered, though events put the polls off.
func TestWhoHasShownAResendIsKept(t *testing.T) {
	pending := func(_ context.Context, _ batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
		return []batch.Status{{ID: as[0].ID, Reported: batch.ReportedPending, Endpoint: "node"}}, nil
	}
	runStreaming(t, pending, func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		w.mu.Lock()
		w.traits.ResendQuiet = resendQuiet
		w.mu.Unlock()
		w.add("s", "a", w.addAnswered("s", "a", 0), func(r *row) { r.Attempt, r.Resends = 2, 1 })
		resent := func(r *store.Row) { r.Attempt, r.Resends = 2, 1 }
		w.addStored("s", "a", resent)
		for range 2 {
			events.sendEvent(t, "", dlt.Event{})
			sleepAndWait(20 * time.Millisecond)
		}
		require.Equal(t, []string{"a is pending"}, w.findings())
		assert.Equal(t, "node", w.outcomes[0].Endpoint)
		w.addStored("s", "a", resent, func(r *store.Row) { r.Version, r.SeenAttempt, r.SeenEndpoint = 4, 2, "node" })
		reads := len(w.selectTimes())
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(20 * time.Millisecond)
		assert.Len(t, w.findings(), 1, "once")
		assert.Len(t, w.selectTimes(), reads, "and nobody looks again")
	})
}

func TestWhatIsUnclearIsLeftToThePoll(t *testing.T) {
	runStreaming(t, alwaysReported(batch.ReportedUnknown), func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		w.mu.Lock()
		w.traits.Grace = time.Hour
		w.mu.Unlock()
		w.addAcceptance("s", "a")
		writes := w.writeCount()
		for range 5 {
			events.sendEvent(t, "", dlt.Event{})
			sleepAndWait(20 * time.Millisecond)
		}
		assert.Len(t, w.askTimes("a"), 5)
		assert.Equal(t, writes, w.writeCount())
		sleepAndWait(pollInterval)
		assert.Len(t, w.askTimes("a"), 6)
	})
}

// A poll that is needed for the age of a batch takes place, however many events there are.
func TestPollsAreNotPutOffForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.answer = true, alwaysReported(batch.ReportedPending)
		m, stop := w.start(t, func(o *ask.Options) {
			w.withEvents(events)(o)
			o.Rules.StuckAfter = 10 * pollInterval
		})
		m.Follow("s")
		sleepAndWait(time.Second)
		w.addAcceptance("s", "a")
		for range 65 {
			events.sendEvent(t, "", dlt.Event{})
			sleepAndWait(pollInterval / 5)
		}
		assert.Equal(t, []string{"a undecidable"}, w.findings())
		stop()
	})
}

// A poll that looks for evidence takes place, however many events there are.
func TestEventsDoNotPutOffEvidence(t *testing.T) {
	for _, said := range []batch.Reported{batch.ReportedValid, batch.ReportedUnknown} {
		runStreaming(t, alwaysReported(said), func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
			w.mu.Lock()
			w.traits.Resolves, w.traits.Stale, w.traits.Grace = true, 3*pollInterval, 10*time.Millisecond
			w.mu.Unlock()
			w.resolve = func(context.Context, dlt.Doubt) (dlt.Evidence, error) { return dlt.NotCommitted, nil }
			w.add("s", "a", w.addAnswered("s", "a", 0), func(r *row) { r.State, r.RolledBack = batch.Valid, true })
			w.addStored("s", "a", func(r *store.Row) {
				r.State, r.ResendUntil = batch.Valid, time.Now()
				r.SeenAttempt, r.SeenEndpoint = r.Attempt, store.TakenBack
			})
			for range 60 {
				events.sendEvent(t, "", dlt.Event{})
				sleepAndWait(pollInterval / 5)
			}
			assert.Contains(t, w.findings(), "a not committed", said)
		})
	}
}

// A batch that was accepted before the stream was live is asked about after events, like the
// others, from its next poll on.
func TestARowFromBeforeTheStreamIsAdopted(t *testing.T) {
	runStreaming(t, alwaysReported(batch.ReportedPending), func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		w.add("s", "a", 0)
		w.add("not followed", "b", 0)
		sleepAndWait(2*pollInterval + firstPoll)
		polls := len(w.askTimes("b"))
		require.Len(t, w.askTimes("a"), polls)
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(0)
		assert.Len(t, w.askTimes("a"), polls+1)
		assert.Len(t, w.askTimes("b"), polls)
	})
}

// An event before a POST begins is not about the batch of that POST, even if the batch is accepted
// soon after. A question would find nothing, and the next event's question would have to wait for
// a pause.
func TestAnEventBeforeThePostIsNoReasonToAsk(t *testing.T) {
	runStreaming(t, nil, func(w *monitorTest, m *ask.Monitor, events *eventStreams) {
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(3 * time.Millisecond)
		w.addAnswered("s", "a", 2*time.Millisecond)
		w.add("s", "a", pollInterval)
		w.addStored("s", "a")
		sleepAndWait(20 * time.Millisecond)
		assert.Empty(t, w.askTimes("a"))
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(3 * time.Millisecond)
		assert.Len(t, w.askTimes("a"), 1)
		w.addAnswered("s", "b", 4*time.Millisecond)
		w.add("s", "b", pollInterval)
		w.addStored("s", "b")
		sleepAndWait(20 * time.Millisecond)
		assert.Len(t, w.askTimes("b"), 1, "that one came while it was posted")
	})
}

// A stream may become live while an acceptance is being written. It then had no event about the
// batch yet, and the batch is asked about.
func TestAStreamThatComesAliveWhileTheAcceptanceIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{liveAfter: time.Second}
		w.traits.Streams = true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(time.Second - time.Millisecond)
		require.Equal(t, pollInterval, w.addAnswered("s", "a", time.Millisecond), "it is asked about from memory")
		sleepAndWait(5 * time.Millisecond)
		w.add("s", "a", pollInterval)
		at := w.now()
		w.addStored("s", "a")
		sleepAndWait(2 * firstPoll)
		if assert.Len(t, w.askTimes("a"), 1) {
			assert.LessOrEqual(t, w.askTimes("a")[0]-at, firstPoll)
		}
		assert.Equal(t, []string{"a is committed"}, w.findings())
		stop()
	})
}

// A stream that becomes live while an acceptance is written follows the batch, however long
// FirstPoll is.
func TestAStreamThatComesAliveIsFollowedWhateverFirstPollIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{liveAfter: time.Second}
		w.traits.Streams = true
		late := w.withEvents(events)
		m, stop := w.start(t, func(o *ask.Options) {
			late(o)
			o.Rules.FirstPoll = pollInterval
		})
		m.Follow("s")
		sleepAndWait(time.Second - time.Millisecond)
		require.Equal(t, pollInterval, w.addAnswered("s", "a", time.Millisecond), "nothing is told yet")
		sleepAndWait(5 * time.Millisecond)
		w.add("s", "a", pollInterval)
		w.addStored("s", "a")
		at := w.now()
		events.sendEvent(t, "", dlt.Event{})
		sleepAndWait(2 * firstPoll)
		if assert.Len(t, w.askTimes("a"), 1) {
			assert.LessOrEqual(t, w.askTimes("a")[0]-at, firstPoll)
		}
		assert.Equal(t, []string{"a is committed"}, w.findings())
		stop()
	})
}
