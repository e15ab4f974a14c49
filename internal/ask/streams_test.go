package ask_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/ask"
	"github.com/dltbatch/dltbatch/store"
)

// eventStreams has the streams that a ledger has open.
type eventStreams struct {
	mu             sync.Mutex
	open           map[batch.ServiceID]chan dlt.Event // closing a channel breaks its stream
	openedCount    int
	refusesStreams bool
	liveAfter      time.Duration // time until a stream is live
}

var errBroken = errors.New("the stream broke")

func (w *eventStreams) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	var s batch.ServiceID
	if len(services) > 0 {
		s = services[0]
	}
	c := make(chan dlt.Event)
	w.mu.Lock()
	w.openedCount++
	if w.refusesStreams {
		w.mu.Unlock()
		return errBroken
	}
	if w.open == nil {
		w.open = map[batch.ServiceID]chan dlt.Event{}
	}
	w.open[s] = c
	w.mu.Unlock()
	time.Sleep(w.liveAfter)
	if err := yield(dlt.Event{Service: s, Live: true}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-c:
			if !ok {
				return errBroken
			}
			if err := yield(e); err != nil {
				return err
			}
		}
	}
}

func (w *eventStreams) sendEvent(t *testing.T, s batch.ServiceID, e dlt.Event) {
	w.mu.Lock()
	c := w.open[w.streamKey(s)]
	w.mu.Unlock()
	require.NotNil(t, c, "a stream for %q is open", s)
	e.Service = s
	c <- e
}

// streamKey returns the service for which a stream was opened. s is "" for the stream of a whole
// ledger, which is opened in the name of any service, by which a router finds its route. w.mu is
// held.
func (w *eventStreams) streamKey(s batch.ServiceID) batch.ServiceID {
	if s == "" && len(w.open) == 1 {
		for s = range w.open {
		}
	}
	return s
}

func (w *eventStreams) breakStream(s batch.ServiceID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s = w.streamKey(s)
	if c := w.open[s]; c != nil {
		close(c)
		delete(w.open, s)
	}
}

func (w *eventStreams) openCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.openedCount
}

// eventSource is a ledger's method for events.
type eventSource interface {
	Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error
}

// withEvents gives the test's ledger the event source e.
func (w *monitorTest) withEvents(e eventSource) func(*ask.Options) {
	w.eventSource = e
	return func(o *ask.Options) { o.MaxStreams = 4 }
}

func TestAStreamedCommitIsRecordedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(time.Millisecond)
		w.addAcceptance("s", "a")
		at := w.now()
		events.sendEvent(t, "s", dlt.Event{Statuses: []batch.Status{{ID: "a", Reported: batch.ReportedCommitted}, {ID: "another's", Reported: batch.ReportedCommitted}}})
		sleepAndWait(time.Second)
		assert.Equal(t, []string{"a is committed", "another's is committed"}, w.findings())
		assert.Equal(t, at, w.putAt["a"])
		assert.Equal(t, at+20*time.Millisecond, w.putAt["another's"], "its own process writes it first")
		assert.Empty(t, w.askTimes("a"))
		stop()
	})
}

func TestAnEventWithoutAVerdictIsAReasonToAsk(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, events := newMonitorTest(), &eventStreams{}
			w.traits.Streams, w.traits.GroupsByService = true, grouped
			m, stop := w.start(t, w.withEvents(events))
			m.Follow("s")
			sleepAndWait(50 * time.Millisecond)
			w.addAcceptance("s", "a")
			w.add("other", "b", time.Hour)
			at := w.now()
			service := batch.ServiceID("")
			if grouped {
				service = "s"
			}
			events.sendEvent(t, service, dlt.Event{})
			sleepAndWait(30 * time.Millisecond)
			assert.Equal(t, []string{"a is committed"}, w.findings(), "what is followed, and nothing else")
			assert.Less(t, w.putAt["a"]-at, 2*time.Millisecond)
			stop()
		})
	}
}

// An event may come while the acceptance is being written. The batch cannot be asked about yet,
// and the event must not be forgotten.
func TestAnEventWhileTheAcceptanceIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(time.Second)
		require.Equal(t, pollInterval, w.addAnswered("s", "a", 0))
		sleepAndWait(time.Millisecond)
		events.sendEvent(t, "s", dlt.Event{Statuses: []batch.Status{{ID: "a", Reported: batch.ReportedInvalid}}})
		sleepAndWait(20 * time.Millisecond)
		require.Empty(t, w.askTimes("a"))
		w.add("s", "a", pollInterval) // now the acceptance is written
		at := w.now()
		w.addStored("s", "a")
		sleepAndWait(20 * time.Millisecond)
		require.Len(t, w.askTimes("a"), 1)
		assert.Less(t, w.askTimes("a")[0]-at, 20*time.Millisecond)
		w.addStored("not followed", "n")
		sleepAndWait(time.Second)
		require.Equal(t, pollInterval, w.addAnswered("s", "b", 0))
		w.addStored("s", "b")
		sleepAndWait(20 * time.Millisecond)
		assert.Empty(t, w.askTimes("b"), "nothing was told since")
		stop()
	})
}

func TestAsksThatEventsTriggerAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		w.answer = alwaysReported(batch.ReportedPending)
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(50 * time.Millisecond)
		w.addAcceptance("s", "a")
		n := len(w.selectTimes())
		for range 1000 {
			events.sendEvent(t, "s", dlt.Event{})
			time.Sleep(100 * time.Microsecond)
		}
		sleepAndWait(20 * time.Millisecond)
		assert.LessOrEqual(t, len(w.askTimes("a")), 13, "in a tenth of a second")
		assert.GreaterOrEqual(t, len(w.askTimes("a")), 9)
		assert.Len(t, w.selectTimes(), n, "and without a read of the store")
		stop()
	})
}

// Questions because of events cause at most two writes of the store in a PollInterval, and they
// put the polls off.
func TestAskingBecauseOfAnEventWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		var done atomic.Bool
		w.answer = func(ctx context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			if done.Load() {
				return committedStatuses(as), nil
			}
			return alwaysReported(batch.ReportedPending)(ctx, s, as)
		}
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(50 * time.Millisecond)
		w.addAcceptance("s", "a")
		for range 200 {
			events.sendEvent(t, "s", dlt.Event{})
			time.Sleep(pollInterval / 20)
		}
		sleepAndWait(0)
		assert.InDelta(t, 200, len(w.askTimes("a")), 10, "and hardly ever by the poll")
		assert.LessOrEqual(t, w.writeCount(), 22)
		done.Store(true)
		sleepAndWait(pollInterval + pollInterval/10)
		assert.Equal(t, []string{"a is committed"}, w.findings(), "polling is the floor")
		stop()
	})
}

func TestABrokenStreamIsOpenedAgainAndAskedAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(50 * time.Millisecond)
		for i := range 100 {
			id := batch.ID(fmt.Sprint("missed", i))
			w.add("s", id, time.Hour)
			at := w.now()
			events.breakStream("s") // the event of the commit is lost with the stream
			sleepAndWait(time.Second)
			assert.Len(t, w.askTimes(id), 1)
			assert.Less(t, w.putAt[id]-at, 200*time.Millisecond, "the new stream is live: what was missed is asked for")
		}
		assert.Equal(t, 101, events.openCount())
		assert.Len(t, w.troubles, 100, "one each")
		stop()
	})
}

func TestAStreamThatIsRefusedIsTriedOnAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{refusesStreams: true}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		for range 120 {
			m.Follow("s")
			sleepAndWait(time.Minute)
		}
		assert.Greater(t, events.openCount(), 120, "every 30 s, and half of it by chance")
		stop()
	})
}

func TestASilentLedgerIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{refusesStreams: true}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(time.Minute)
		assert.Less(t, events.openCount(), 16, "with pauses")
		assert.Len(t, w.troubles, 1, "told once")
		w.addAcceptance("s", "x")
		sleepAndWait(2 * firstPoll)
		assert.Len(t, w.askTimes("x"), 1, "no stream: polled as without")
		w.add("s", "a", 0)
		sleepAndWait(pollInterval)
		assert.Equal(t, []string{"x is committed", "a is committed"}, w.findings())
		stop()
	})
}

func TestALiveStreamMakesPollingTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		w.answer = alwaysReported(batch.ReportedPending)
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(time.Millisecond)
		w.add("s", "early", w.addAnswered("s", "early", 2*time.Millisecond))
		w.addStored("s", "early")
		sleepAndWait(20 * time.Millisecond)
		assert.Len(t, w.askTimes("early"), 1, "the event may have come before the answer to the POST")
		sleepAndWait(time.Second)
		assert.Equal(t, pollInterval, w.addAnswered("s", "x", 0))
		w.add("s", "a", 0)
		m.DueIn(0)
		sleepAndWait(10 * pollInterval)
		assert.InDelta(t, 10, len(w.askTimes("a")), 1, "once a poll interval, not sooner at first")
		stop()
	})
}

func TestAStreamThatEndedSlowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		w.answer = alwaysReported(batch.ReportedPending)
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		sleepAndWait(time.Second)
		require.Equal(t, pollInterval, w.addAnswered("s", "x", 0))
		events.mu.Lock()
		events.refusesStreams = true
		events.mu.Unlock()
		events.breakStream("s")
		sleepAndWait(time.Second)
		w.addAcceptance("s", "x")
		sleepAndWait(2 * firstPoll)
		assert.NotEmpty(t, w.askTimes("x"), "as without a stream")
		w.add("s", "a", 0)
		m.DueIn(0)
		sleepAndWait(10 * pollInterval)
		assert.Greater(t, len(w.askTimes("a")), 12, "as without a stream: soon at first")
		stop()
	})
}

func TestStreamsAreBoundedAndClosedWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		for i := range 10 {
			m.Follow(batch.ServiceID(fmt.Sprint(i)))
		}
		sleepAndWait(time.Second)
		assert.Equal(t, 4, events.openCount())
		sleepAndWait(6 * time.Minute)
		for i := range 10 {
			m.Follow(batch.ServiceID(fmt.Sprint(i)))
		}
		sleepAndWait(time.Second)
		assert.Equal(t, 8, events.openCount(), "the idle ones made room")
		stop()
	})
}

// Promise 9: on a ledger with one stream for all services, the cost follows the services of the
// last minutes, not the number of services that there ever were.
func TestWhatNobodyFollowsAnyMoreIsForgotten(t *testing.T) {
	for _, looks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, events := newMonitorTest(), &eventStreams{}
			w.traits.Streams = true
			w.answer = alwaysReported(batch.ReportedPending)
			m, stop := w.start(t, w.withEvents(events))
			m.Follow("new")
			sleepAndWait(time.Minute)
			for i := range 10_000 {
				m.Follow(batch.ServiceID(fmt.Sprint("old", i)))
			}
			sleepAndWait(3 * time.Minute)
			m.Follow("new")
			w.add("old7", "o", time.Hour)
			w.add("new", "n", time.Hour)
			sleepAndWait(3*time.Minute + pollInterval/2) // the old services were followed six minutes ago, and sweep looked at them when it was four
			require.Equal(t, 10_001, m.Followed())
			if looks {
				before := len(w.selectTimes())
				events.breakStream("") // once live again, the stream asks about all services that it knows
				sleepAndWait(pollInterval)
				assert.Len(t, w.askTimes("n"), 1)
				assert.Empty(t, w.askTimes("o"), "it is left to the poll")
				assert.LessOrEqual(t, len(w.selectTimes())-before, 4, "one read, and polls")
			} else {
				m.Follow("new")
				sleepAndWait(4 * time.Minute)
			}
			assert.Equal(t, 1, m.Followed())
			stop()
		})
	}
}

// The log of a stream that covers more than LateArrival settles a doubt.
func TestAStreamOutlastsLateArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newMonitorTest(), &eventStreams{}
		w.traits.Streams, w.traits.GroupsByService, w.traits.LateArrival = true, true, 11*time.Minute
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("a")
		sleepAndWait(15 * time.Minute)
		m.Follow("a")
		sleepAndWait(time.Second)
		assert.Equal(t, 1, events.openCount(), "it was closed")
		sleepAndWait(17 * time.Minute)
		m.Follow("a")
		sleepAndWait(time.Second)
		assert.Equal(t, 2, events.openCount(), "it is closed at last")
		stop()
	})
}

func TestACommitThatVanishesIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.traits.Vanish = time.Minute
		var mu sync.Mutex
		var gone []string
		word := batch.ReportedCommitted
		prepared := map[batch.ID]string{}
		w.answer = func(ctx context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, a := range as {
				prepared[a.ID] = string(a.Prepared)
			}
			return alwaysReported(word)(ctx, s, as)
		}
		_, stop := w.start(t, func(o *ask.Options) {
			o.Vanished = func(key batch.Key, now batch.Reported) { gone = append(gone, fmt.Sprint(key.ID, " ", now)) }
		})
		w.writeOutcome(store.Outcome{Ref: store.Ref{Key: batch.Key{ID: "a"}}}, store.Row{State: batch.Committed, Version: 4})
		sleepAndWait(30 * time.Second)
		assert.Empty(t, gone)
		mu.Lock()
		word = batch.ReportedUnknown
		mu.Unlock()
		sleepAndWait(7 * time.Second)
		assert.Equal(t, []string{"a unknown"}, gone)
		w.writeOutcome(store.Outcome{Ref: store.Ref{Key: batch.Key{ID: "b"}}, Prepared: []byte("kept")}, store.Row{State: batch.Committed, Version: 4})
		sleepAndWait(5 * time.Minute)
		assert.Equal(t, []string{"a unknown", "b unknown"}, gone)
		assert.Equal(t, map[batch.ID]string{"a": "", "b": "kept"}, prepared, "the ledger is asked by the bytes that found the commit")
		asked := len(w.askTimes("a"))
		sleepAndWait(5 * time.Minute)
		assert.Len(t, w.askTimes("a"), asked, "it is let go")
		stop()
	})
}
