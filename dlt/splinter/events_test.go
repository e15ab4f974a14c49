package splinter_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/splinter"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/store/memory"
)

// eventListener is a running stream of events.
type eventListener struct {
	t      testing.TB
	events chan dlt.Event
	err    chan error
	cancel context.CancelFunc
}

func startListener(t testing.TB, c *splinter.Client, s batch.ServiceID) *eventListener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &eventListener{t: t, events: make(chan dlt.Event, 1000), err: make(chan error, 1), cancel: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.err <- c.Events(ctx, []batch.ServiceID{s}, func(e dlt.Event) error { l.events <- e; return nil })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

// waitForEvent returns the next event that is accepts, and drops the others.
func (l *eventListener) waitForEvent(want string, is func(dlt.Event) bool) dlt.Event {
	l.t.Helper()
	bound := time.NewTimer(5 * time.Second)
	defer bound.Stop()
	for {
		select {
		case e := <-l.events:
			if is(e) {
				return e
			}
		case err := <-l.err:
			l.err <- err
			select {
			case e := <-l.events:
				if is(e) {
					return e
				}
			default:
				require.Fail(l.t, "the stream ended before "+want, "%v", err)
			}
		case <-bound.C:
			require.Fail(l.t, "never "+want)
		}
	}
}

func (l *eventListener) waitForLive() {
	l.t.Helper()
	l.waitForEvent("live", func(e dlt.Event) bool { return e.Live })
}

func (l *eventListener) waitForCommit(id batch.ID) {
	l.t.Helper()
	l.waitForEvent("committed", func(e dlt.Event) bool {
		return slices.ContainsFunc(e.Statuses, func(s batch.Status) bool { return s.ID == id && s.Reported == batch.ReportedCommitted })
	})
}

func isHint(e dlt.Event) bool { return !e.Live && len(e.Statuses) == 0 }

func (l *eventListener) waitForEnd() error {
	l.t.Helper()
	select {
	case err := <-l.err:
		l.err <- err
		return err
	case <-time.After(10 * time.Second):
		require.Fail(l.t, "the stream goes on")
		return nil
	}
}

func TestEventsStream(t *testing.T) {
	net := splintertest.Start(t, &splintertest.Options{PingInterval: 2 * time.Millisecond})
	ours := newClient(t, net.URL(0), clientOptions(nil))
	theirs := newClient(t, net.URL(1), clientOptions(nil))
	l := startListener(t, ours, net.Service(0))
	l.waitForLive()
	for range 3 { // longer than many pings take
		b := buildBatch(t, net.Service(0), newTransaction(splintertest.Inc("x", 1)), newTransaction(splintertest.Inc("x", 1)))
		require.NoError(t, ours.Submit(t.Context(), firstAttempt(b)))
		l.waitForCommit(b.ID)
	}
	require.NoError(t, theirs.Submit(t.Context(), firstAttempt(incBatch(t, net.Service(1), "x"))))
	assert.Equal(t, net.Service(0), l.waitForEvent("a hint", isHint).Service)
	l.cancel()
	assert.NoError(t, l.waitForEnd())
}

// A POST's events may come before its answer.
func TestEventsBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, nil)
		l := startListener(t, w.client, w.service)
		l.waitForLive()
		d := w.postWithoutAnswer(splintertest.AcceptedFirst)
		l.waitForCommit(d.ID)
	})
}

// The event of a transaction that is in two batches does not say which of them was committed.
func TestEventsOfATransactionInTwoBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestNetwork(t, splintertest.Options{}, nil)
		x := newTransaction(splintertest.Set("x", 1))
		one, two := buildBatch(t, w.service, x), buildBatch(t, w.service, x, newTransaction(splintertest.Invalid("y")))
		w.fault.Store(&splintertest.Fault{Answer: splintertest.AnswerError, Status: 429})
		for _, b := range []batch.Batch{one, two} {
			_, err := w.post(b, time.Second)
			require.Error(t, err)
		}
		w.fault.Store(nil)
		l := startListener(t, w.client, w.service)
		l.waitForLive()
		_, err := w.post(one, time.Second)
		require.NoError(t, err)
		e := l.waitForEvent("an event", func(e dlt.Event) bool { return !e.Live })
		assert.Empty(t, e.Statuses)
	})
}

func TestEventsReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		w := newTestNetwork(t, splintertest.Options{CommitInterval: time.Millisecond, HistorySize: 1000}, st)
		var last batch.Batch
		for range 100 { // more than a page, so that some are skipped and some repeated
			last = incBatch(t, w.service, "x")
			require.Eventually(t, func() bool {
				_, err := w.post(last, time.Second)
				if err != nil {
					require.Equal(t, batch.KindBusy, dlt.Kind(err))
				}
				return err == nil
			}, 30*time.Second, time.Millisecond)
		}
		w.waitForStatus(last, batch.ReportedCommitted)
		w.startEvents(w.client)
		waitUntilLogCovers(t, st, w.service, 0, time.Time{})
		require.Eventually(t, func() bool {
			found, err := st.FindStream(t.Context(), "scabbard "+string(w.service), w.network.Transactions(w.service))
			return err == nil && len(found.IDs) >= 64
		}, 30*time.Second, time.Millisecond, "a page at least")
		b := w.newCommittedBatch()
		require.Eventually(t, func() bool {
			found, err := st.FindStream(t.Context(), "scabbard "+string(w.service), w.network.Transactions(w.service)[100:])
			return err == nil && len(found.IDs) == 1
		}, 30*time.Second, time.Millisecond, "%s is not in the log", b.ID)
	})
}

func TestWhenEventsAreReplayed(t *testing.T) {
	w := newTestNetwork(t, splintertest.Options{}, nil)
	w.newCommittedBatch()
	for name, replay := range map[string]bool{"all": true, "from now on": false} {
		t.Run(name, func(t *testing.T) {
			o := clientOptions(nil)
			o.Replay = replay
			l := startListener(t, w.newClient(o), w.service)
			l.waitForLive()
			came := pollUntil(time.Millisecond, 100*time.Millisecond, func() bool { return len(l.events) > 0 })
			assert.Equal(t, replay, came)
			w.newCommittedBatch()
			l.waitForEvent("a hint", isHint)
		})
	}
}

// A transaction that is committed between the reading of an empty history and the registration has
// no event (docs/ledgers/splinter.md#events). The log's span must not cover that time.
func TestEventsLostWhileSubscribing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gap = 400 * time.Millisecond
		st := memory.New()
		w := newTestNetwork(t, splintertest.Options{SubscribeGap: gap}, st)
		d, b := make(chan postedAttempt, 1), incBatch(t, w.service, "x")
		go func() {
			timer := time.NewTimer(gap / 8)
			<-timer.C
			w.fault.Store(&splintertest.Fault{Answer: splintertest.AnswerReset, Acceptance: splintertest.AcceptedFirst})
			x, _ := w.post(b, time.Second)
			w.fault.Store(nil)
			d <- x
		}()
		w.startEvents(w.client)
		x := <-d
		require.Len(t, w.network.Executions(w.service), 1, "in the gap")
		waitUntilLogCovers(t, st, w.service, 0, time.Time{})
		w.network.Evict(w.service, x.ID)
		w.hidesStatuses.Store(true)
		w.requireNoEvidence(x)
	})
}

// One of several processes writes the log. When it has ended, another process writes it, in a new
// span.
func TestEventsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		w := newTestNetwork(t, splintertest.Options{}, st)
		one := startListener(t, w.client, w.service)
		one.waitForLive()
		waitUntilLogCovers(t, st, w.service, 0, time.Time{})
		begun := time.Now()
		other := w.newClient(clientOptions(st))
		two := startListener(t, other, w.service)
		two.waitForLive()
		waitUntilLogCovers(t, st, w.service, 200*time.Millisecond, time.Time{})
		found, err := st.FindStream(t.Context(), "scabbard "+string(w.service), nil)
		require.NoError(t, err)
		assert.Greater(t, found.Since, time.Since(begun), "the first one's span goes on")

		logged := func(want int) {
			t.Helper()
			require.True(t, pollUntil(time.Millisecond, 5*time.Second, func() bool {
				found, err := st.FindStream(t.Context(), "scabbard "+string(w.service), w.network.Transactions(w.service))
				require.NoError(t, err)
				return len(found.IDs) == want
			}), "transactions in the log")
		}
		w.newCommittedBatch()
		two.waitForEvent("an event", func(e dlt.Event) bool { return !e.Live }) // it gets events, although it does not write the log
		logged(1)
		one.cancel()
		require.NoError(t, one.waitForEnd())
		taken := time.Now()
		waitUntilLogCovers(t, st, w.service, 0, taken)
		c := incBatch(t, w.service, "x")
		require.NoError(t, other.Submit(t.Context(), firstAttempt(c)))
		two.waitForCommit(c.ID)
		logged(2)
	})
}

// Of two streams of one service in one process only one writes the log.
func TestTwoStreamsOfAServiceInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faultyJournal{Store: memory.New()}
		w := newTestNetwork(t, splintertest.Options{}, j)
		one, two := startListener(t, w.client, w.service), startListener(t, w.client, w.service)
		one.waitForLive()
		two.waitForLive()
		waitUntilLogCovers(t, j.Store, w.service, 50*time.Millisecond, time.Time{})
		j.mu.Lock()
		defer j.mu.Unlock()
		assert.Equal(t, 1, j.spanStarts)
	})
}

// faultyJournal is a journal that counts calls, and fails when the test says so.
type faultyJournal struct {
	*memory.Store
	mu           sync.Mutex
	spanStarts   int
	failsAppends bool
	losesLease   bool // refuse to append entries
}

func (j *faultyJournal) AppendStream(ctx context.Context, e batch.StreamEntry) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.failsAppends:
		return false, errJournal
	case j.losesLease:
		return false, nil
	case e.Restart:
		j.spanStarts++
	}
	return j.Store.AppendStream(ctx, e)
}

func (j *faultyJournal) setFaults(fail, steal bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failsAppends, j.losesLease = fail, steal
}

// A journal that fails for a while only delays the writing of the log.
func TestEventsJournalFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faultyJournal{Store: memory.New()}
		w := newTestNetwork(t, splintertest.Options{}, j)
		w.startEvents(w.client)
		waitUntilLogCovers(t, j.Store, w.service, 0, time.Time{})
		begun := time.Now()
		j.setFaults(true, false)
		w.newCommittedBatch()
		w.newCommittedBatch()
		j.setFaults(false, false)
		require.Eventually(t, func() bool {
			found, err := j.FindStream(t.Context(), "scabbard "+string(w.service), w.network.Transactions(w.service))
			return err == nil && len(found.IDs) == 2 && found.Since > time.Since(begun) && found.Until < 100*time.Millisecond
		}, 30*time.Second, time.Millisecond)
		assert.Equal(t, 1, j.spanStarts)

		broken := w.newClient(clientOptions(brokenJournal{}))
		l := startListener(t, broken, w.service)
		l.waitForLive()
		w.newCommittedBatch()
		l.waitForEvent("an event", func(e dlt.Event) bool { return !e.Live })
		l.cancel()
		assert.NoError(t, l.waitForEnd())
	})
}

// A writer that has lost its lease begins a new span, which does not cover the events of the time
// without the lease.
func TestEventsLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &faultyJournal{Store: memory.New()}
		w := newTestNetwork(t, splintertest.Options{}, j)
		w.startEvents(w.client)
		waitUntilLogCovers(t, j.Store, w.service, 0, time.Time{})
		j.setFaults(false, true)
		w.newCommittedBatch()
		lost := time.Now()
		require.True(t, pollUntil(time.Millisecond, 5*time.Second, func() bool {
			found, err := j.FindStream(t.Context(), "scabbard "+string(w.service), nil)
			require.NoError(t, err)
			return found.Until > 50*time.Millisecond // the log ends a while ago, because nobody writes it
		}))
		j.setFaults(false, false)
		waitUntilLogCovers(t, j.Store, w.service, 0, lost)
	})
}
