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

// wires has the streams that a ledger has open.
type wires struct {
	mu     sync.Mutex
	open   map[batch.ServiceID]chan dlt.Event // closing a channel breaks its stream
	opened int
	refuse bool
	slow   time.Duration // time until a stream is live
}

var errBroken = errors.New("the stream broke")

func (w *wires) Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error {
	var s batch.ServiceID
	if len(services) > 0 {
		s = services[0]
	}
	c := make(chan dlt.Event)
	w.mu.Lock()
	w.opened++
	if w.refuse {
		w.mu.Unlock()
		return errBroken
	}
	if w.open == nil {
		w.open = map[batch.ServiceID]chan dlt.Event{}
	}
	w.open[s] = c
	w.mu.Unlock()
	time.Sleep(w.slow)
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

func (w *wires) tell(t *testing.T, s batch.ServiceID, e dlt.Event) {
	w.mu.Lock()
	c := w.open[w.at(s)]
	w.mu.Unlock()
	require.NotNil(t, c, "a stream for %q is open", s)
	e.Service = s
	c <- e
}

// at returns the service for which a stream was opened. s is "" for the stream of a whole ledger,
// which is opened in the name of any service, by which a router finds its route. w.mu is held.
func (w *wires) at(s batch.ServiceID) batch.ServiceID {
	if s == "" && len(w.open) == 1 {
		for s = range w.open {
		}
	}
	return s
}

func (w *wires) cut(s batch.ServiceID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s = w.at(s)
	if c := w.open[s]; c != nil {
		close(c)
		delete(w.open, s)
	}
}

func (w *wires) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

// source is a ledger's method for events.
type source interface {
	Events(ctx context.Context, services []batch.ServiceID, yield func(dlt.Event) error) error
}

// withEvents gives the world's ledger the event source e.
func (w *world) withEvents(e source) func(*ask.Options) {
	w.source = e
	return func(o *ask.Options) { o.MaxStreams = 4 }
}

func TestAStreamedCommitIsRecordedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(time.Millisecond)
		w.accepted("s", "a")
		at := w.now()
		events.tell(t, "s", dlt.Event{Statuses: []batch.Status{{ID: "a", Reported: batch.ReportedCommitted}, {ID: "another's", Reported: batch.ReportedCommitted}}})
		settle(time.Second)
		assert.Equal(t, []string{"a is committed", "another's is committed"}, w.found())
		assert.Equal(t, at, w.putAt["a"])
		assert.Equal(t, at+20*time.Millisecond, w.putAt["another's"], "its own process writes it first")
		assert.Empty(t, w.asked("a"))
		stop()
	})
}

func TestAnEventWithoutAVerdictIsAReasonToAsk(t *testing.T) {
	for _, grouped := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, events := newWorld(), &wires{}
			w.traits.Streams, w.traits.GroupsByService = true, grouped
			m, stop := w.start(t, w.withEvents(events))
			m.Follow("s")
			settle(50 * time.Millisecond)
			w.accepted("s", "a")
			w.add("other", "b", time.Hour)
			at := w.now()
			service := batch.ServiceID("")
			if grouped {
				service = "s"
			}
			events.tell(t, service, dlt.Event{})
			settle(30 * time.Millisecond)
			assert.Equal(t, []string{"a is committed"}, w.found(), "what is followed, and nothing else")
			assert.Less(t, w.putAt["a"]-at, 2*time.Millisecond)
			stop()
		})
	}
}

// An event may come while the acceptance is being written. The batch cannot be asked about yet,
// and the event must not be forgotten.
func TestAnEventWhileTheAcceptanceIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(time.Second)
		require.Equal(t, poll, w.answered("s", "a", 0))
		settle(time.Millisecond)
		events.tell(t, "s", dlt.Event{Statuses: []batch.Status{{ID: "a", Reported: batch.ReportedInvalid}}})
		settle(20 * time.Millisecond)
		require.Empty(t, w.asked("a"))
		w.add("s", "a", poll) // now the acceptance is written
		at := w.now()
		w.stored("s", "a")
		settle(20 * time.Millisecond)
		require.Len(t, w.asked("a"), 1)
		assert.Less(t, w.asked("a")[0]-at, 20*time.Millisecond)
		w.stored("not followed", "n")
		settle(time.Second)
		require.Equal(t, poll, w.answered("s", "b", 0))
		w.stored("s", "b")
		settle(20 * time.Millisecond)
		assert.Empty(t, w.asked("b"), "nothing was told since")
		stop()
	})
}

func TestAsksThatEventsTriggerAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		w.answer = saying(batch.ReportedPending)
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(50 * time.Millisecond)
		w.accepted("s", "a")
		n := len(w.selected())
		for range 1000 {
			events.tell(t, "s", dlt.Event{})
			time.Sleep(100 * time.Microsecond)
		}
		settle(20 * time.Millisecond)
		assert.LessOrEqual(t, len(w.asked("a")), 13, "in a tenth of a second")
		assert.GreaterOrEqual(t, len(w.asked("a")), 9)
		assert.Len(t, w.selected(), n, "and without a read of the store")
		stop()
	})
}

// Questions because of events cause at most two writes of the store in a PollInterval, and they
// put the polls off.
func TestAskingBecauseOfAnEventWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		var done atomic.Bool
		w.answer = func(ctx context.Context, s batch.ServiceID, as []batch.Attempt) ([]batch.Status, error) {
			if done.Load() {
				return committed(as), nil
			}
			return saying(batch.ReportedPending)(ctx, s, as)
		}
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(50 * time.Millisecond)
		w.accepted("s", "a")
		for range 200 {
			events.tell(t, "s", dlt.Event{})
			time.Sleep(poll / 20)
		}
		settle(0)
		assert.InDelta(t, 200, len(w.asked("a")), 10, "and hardly ever by the poll")
		assert.LessOrEqual(t, w.written(), 22)
		done.Store(true)
		settle(poll + poll/10)
		assert.Equal(t, []string{"a is committed"}, w.found(), "polling is the floor")
		stop()
	})
}

func TestABrokenStreamIsOpenedAgainAndAskedAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(50 * time.Millisecond)
		for i := range 100 {
			id := batch.ID(fmt.Sprint("missed", i))
			w.add("s", id, time.Hour)
			at := w.now()
			events.cut("s") // the event of the commit is lost with the stream
			settle(time.Second)
			assert.Len(t, w.asked(id), 1)
			assert.Less(t, w.putAt[id]-at, 200*time.Millisecond, "the new stream is live: what was missed is asked for")
		}
		assert.Equal(t, 101, events.count())
		assert.Len(t, w.troubles, 100, "one each")
		stop()
	})
}

func TestAStreamThatIsRefusedIsTriedOnAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{refuse: true}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		for range 120 {
			m.Follow("s")
			settle(time.Minute)
		}
		assert.Greater(t, events.count(), 120, "every 30 s, and half of it by chance")
		stop()
	})
}

func TestASilentLedgerIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{refuse: true}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(time.Minute)
		assert.Less(t, events.count(), 16, "with pauses")
		assert.Len(t, w.troubles, 1, "told once")
		w.accepted("s", "x")
		settle(2 * first)
		assert.Len(t, w.asked("x"), 1, "no stream: polled as without")
		w.add("s", "a", 0)
		settle(poll)
		assert.Equal(t, []string{"x is committed", "a is committed"}, w.found())
		stop()
	})
}

func TestALiveStreamMakesPollingTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		w.answer = saying(batch.ReportedPending)
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(time.Millisecond)
		w.add("s", "early", w.answered("s", "early", 2*time.Millisecond))
		w.stored("s", "early")
		settle(20 * time.Millisecond)
		assert.Len(t, w.asked("early"), 1, "the event may have come before the answer to the POST")
		settle(time.Second)
		assert.Equal(t, poll, w.answered("s", "x", 0))
		w.add("s", "a", 0)
		m.DueIn(0)
		settle(10 * poll)
		assert.InDelta(t, 10, len(w.asked("a")), 1, "once a poll interval, not sooner at first")
		stop()
	})
}

func TestAStreamThatEndedSlowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		w.answer = saying(batch.ReportedPending)
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("s")
		settle(time.Second)
		require.Equal(t, poll, w.answered("s", "x", 0))
		events.mu.Lock()
		events.refuse = true
		events.mu.Unlock()
		events.cut("s")
		settle(time.Second)
		w.accepted("s", "x")
		settle(2 * first)
		assert.NotEmpty(t, w.asked("x"), "as without a stream")
		w.add("s", "a", 0)
		m.DueIn(0)
		settle(10 * poll)
		assert.Greater(t, len(w.asked("a")), 12, "as without a stream: soon at first")
		stop()
	})
}

func TestStreamsAreBoundedAndClosedWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService = true, true
		m, stop := w.start(t, w.withEvents(events))
		for i := range 10 {
			m.Follow(batch.ServiceID(fmt.Sprint(i)))
		}
		settle(time.Second)
		assert.Equal(t, 4, events.count())
		settle(6 * time.Minute)
		for i := range 10 {
			m.Follow(batch.ServiceID(fmt.Sprint(i)))
		}
		settle(time.Second)
		assert.Equal(t, 8, events.count(), "the idle ones made room")
		stop()
	})
}

// Promise 9: on a ledger with one stream for all services, the cost follows the services of the
// last minutes, not the number of services that there ever were.
func TestWhatNobodyFollowsAnyMoreIsForgotten(t *testing.T) {
	for _, looks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w, events := newWorld(), &wires{}
			w.traits.Streams = true
			w.answer = saying(batch.ReportedPending)
			m, stop := w.start(t, w.withEvents(events))
			m.Follow("new")
			settle(time.Minute)
			for i := range 10_000 {
				m.Follow(batch.ServiceID(fmt.Sprint("old", i)))
			}
			settle(3 * time.Minute)
			m.Follow("new")
			w.add("old7", "o", time.Hour)
			w.add("new", "n", time.Hour)
			settle(3*time.Minute + poll/2) // the old services were followed six minutes ago, and sweep looked at them when it was four
			require.Equal(t, 10_001, m.Followed())
			if looks {
				before := len(w.selected())
				events.cut("") // once live again, the stream asks about all services that it knows
				settle(poll)
				assert.Len(t, w.asked("n"), 1)
				assert.Empty(t, w.asked("o"), "it is left to the poll")
				assert.LessOrEqual(t, len(w.selected())-before, 4, "one read, and polls")
			} else {
				m.Follow("new")
				settle(4 * time.Minute)
			}
			assert.Equal(t, 1, m.Followed())
			stop()
		})
	}
}

// The log of a stream that covers more than LateArrival settles a doubt.
func TestAStreamOutlastsLateArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), &wires{}
		w.traits.Streams, w.traits.GroupsByService, w.traits.LateArrival = true, true, 11*time.Minute
		m, stop := w.start(t, w.withEvents(events))
		m.Follow("a")
		settle(15 * time.Minute)
		m.Follow("a")
		settle(time.Second)
		assert.Equal(t, 1, events.count(), "it was closed")
		settle(17 * time.Minute)
		m.Follow("a")
		settle(time.Second)
		assert.Equal(t, 2, events.count(), "it is closed at last")
		stop()
	})
}

func TestACommitThatVanishesIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
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
			return saying(word)(ctx, s, as)
		}
		_, stop := w.start(t, func(o *ask.Options) {
			o.Vanished = func(key batch.Key, now batch.Reported) { gone = append(gone, fmt.Sprint(key.ID, " ", now)) }
		})
		w.wrote(store.Outcome{Ref: store.Ref{Key: batch.Key{ID: "a"}}}, store.Row{State: batch.Committed, Version: 4})
		settle(30 * time.Second)
		assert.Empty(t, gone)
		mu.Lock()
		word = batch.ReportedUnknown
		mu.Unlock()
		settle(7 * time.Second)
		assert.Equal(t, []string{"a unknown"}, gone)
		w.wrote(store.Outcome{Ref: store.Ref{Key: batch.Key{ID: "b"}}, Prepared: []byte("kept")}, store.Row{State: batch.Committed, Version: 4})
		settle(5 * time.Minute)
		assert.Equal(t, []string{"a unknown", "b unknown"}, gone)
		assert.Equal(t, map[batch.ID]string{"a": "", "b": "kept"}, prepared, "the ledger is asked by the bytes that found the commit")
		asked := len(w.asked("a"))
		settle(5 * time.Minute)
		assert.Len(t, w.asked("a"), asked, "it is let go")
		stop()
	})
}
