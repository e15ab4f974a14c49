package dltbatch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store/memory"
)

// onlyEvent returns the event of a kind in a state, and fails the test unless there is exactly
// one.
func (e *eventRecorder) onlyEvent(t *testing.T, kind batch.EventKind, s batch.State) batch.Event {
	t.Helper()
	var found []batch.Event
	for _, ev := range e.ofKind(kind) {
		if ev.State == s {
			found = append(found, ev)
		}
	}
	require.Len(t, found, 1, "%s to %s", kind, s)
	return found[0]
}

// timeTolerance is the time for which writes wait for one another.
const timeTolerance = 20 * time.Millisecond

// Events have the time that the batch waited, by the database's clock, and the time that the POST
// took.
func TestEventsHaveTimes(t *testing.T) {
	for name, c := range map[string]struct {
		commitAfter time.Duration
		inOneWrite  bool // true if acceptance and outcome are one write
	}{"a slow commit": {2 * time.Second, false}, "a quick commit": {0, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const waited, post = 5 * time.Second, 300 * time.Millisecond
				seen := &eventRecorder{}
				traits := ledgermem.Unforgiving(0)
				traits.ResendHarmlessFor = dlt.Forever // lets an acceptance wait for the outcome
				ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, IgnoreDuplicates: true, CommitAfter: c.commitAfter, Fault: func(batch.Attempt) ledgermem.Fault {
					return ledgermem.Fault{Latency: post}
				}})
				r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen, Instance: "here"})
				b := newBatch("s", "a")
				require.NoError(t, r.Add(t.Context(), b))
				time.Sleep(waited)
				stop := startRun(t, r)
				rec := awaitFinal(t, r, b)
				synctest.Wait()
				require.NoError(t, stop())

				added := seen.onlyEvent(t, batch.EventAdded, batch.Queued)
				assert.Equal(t, batch.Event{Kind: batch.EventAdded, Key: b.Key(), State: batch.Queued, At: added.At, Instance: "here"}, added)
				claimed := seen.onlyEvent(t, batch.EventClaimed, batch.Submitting)
				assert.InDelta(t, waited, claimed.SinceAdded, float64(timeTolerance))
				assert.Equal(t, []any{batch.Queued, batch.ByQueuer, false}, []any{claimed.From, claimed.By, claimed.Again})
				assert.Zero(t, claimed.Took)
				accepted := seen.onlyEvent(t, batch.EventState, batch.Pending)
				assert.Equal(t, []any{batch.Submitting, batch.BySubmitter}, []any{accepted.From, accepted.By})
				assert.Equal(t, post, accepted.Took)
				assert.Equal(t, 1, accepted.InRequest)
				assert.Equal(t, rec.LastPost.Sub(rec.CreatedAt), accepted.SinceAdded)
				assert.Zero(t, accepted.SincePosted)
				assert.Zero(t, accepted.StatusCode)
				final := seen.onlyEvent(t, batch.EventFinal, batch.Committed)
				assert.Equal(t, rec.FinalAt.Sub(rec.CreatedAt), final.SinceAdded)
				assert.Greater(t, final.SinceAdded, waited+post+c.commitAfter)
				assert.False(t, final.TakenOver)
				assert.Zero(t, final.Took, "it is a question that was answered")
				assert.Zero(t, final.InRequest)
				if c.inOneWrite {
					require.Equal(t, rec.FinalAt, rec.LastPost)
					assert.InDelta(t, 10*time.Millisecond, final.SincePosted, float64(5*time.Millisecond), "until the first question was answered")
				} else {
					assert.Equal(t, []any{batch.Pending, batch.ByMonitor}, []any{final.From, final.By})
					assert.Equal(t, rec.FinalAt.Sub(rec.LastPost), final.SincePosted)
					assert.Greater(t, final.SincePosted, c.commitAfter)
				}
				for _, ev := range seen.all {
					assert.Equal(t, "here", ev.Instance)
				}
			})
		})
	}
}

// failingSubmitLedger is a ledger whose Submit fails at first, after a while.
type failingSubmitLedger struct {
	*ledgermem.Ledger
	err          error
	answerTime   time.Duration
	failuresLeft atomic.Int64
}

func (l *failingSubmitLedger) Submit(ctx context.Context, a batch.Attempt) error {
	if l.failuresLeft.Add(-1) >= 0 {
		time.Sleep(l.answerTime)
		return l.err
	}
	return l.Ledger.Submit(ctx, a)
}

func newFailingSubmitLedger(err error, times int64) *failingSubmitLedger {
	l := &failingSubmitLedger{Ledger: ledgermem.New(nil), err: err, answerTime: 200 * time.Millisecond}
	l.failuresLeft.Store(times)
	return l
}

// An event of a failed attempt has the kind, the codes and the place of the error, and no
// credentials.
func TestEventsHaveFailures(t *testing.T) {
	for name, c := range map[string]struct {
		postErr   error
		wantKind  batch.ErrorKind
		wantEvent batch.EventKind
		wantState batch.State
	}{
		"not reached":      {dlt.ErrUnavailable, batch.KindUnavailable, batch.EventState, batch.Delayed},
		"busy":             {dlt.ErrBusy, batch.KindBusy, batch.EventState, batch.Delayed},
		"misconfigured":    {dlt.ErrMisconfigured, batch.KindMisconfigured, batch.EventState, batch.Delayed},
		"doubt":            {dlt.ErrDoubt, batch.KindDoubt, batch.EventInDoubt, batch.Submitting},
		"refused for good": {dlt.ErrRejected, batch.KindRejected, batch.EventFinal, batch.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := &eventRecorder{}
				ledger := newFailingSubmitLedger(&dlt.Error{
					Op: "submit", Kind: c.postErr, StatusCode: 503, Code: 17, Endpoint: "http://ann:secret@node:8008/batches?key=secret",
				}, 1)
				r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen, Retry: dltbatch.RetryPolicy{QuickRetries: -1}})
				stop := startRun(t, r)
				b := newBatch("s", "a")
				require.NoError(t, r.Add(t.Context(), b))
				rec := awaitFinal(t, r, b)
				synctest.Wait()
				require.NoError(t, stop())

				failed := seen.onlyEvent(t, c.wantEvent, c.wantState)
				postErr, ok := errors.AsType[*batch.SubmissionError](failed.Err)
				require.True(t, ok, "%T", failed.Err)
				assert.Equal(t, c.wantKind, postErr.Kind)
				const node = "http://node:8008/batches"
				assert.Equal(t, []any{503, 17, node, 200 * time.Millisecond, 1},
					[]any{failed.StatusCode, failed.Code, failed.Endpoint, failed.Took, failed.InRequest})
				assert.InDelta(t, 200*time.Millisecond, failed.SinceAdded, float64(timeTolerance))
				assert.Zero(t, failed.SincePosted)
				if c.wantKind != batch.KindRejected {
					assert.Equal(t, batch.Committed, rec.State)
					accepted := seen.ofKind(batch.EventState)
					last := accepted[len(accepted)-1]
					assert.Equal(t, batch.Pending, last.State)
					assert.Equal(t, []any{0, 0, "", 1}, []any{last.StatusCode, last.Code, last.Endpoint, last.InRequest}, "of the attempt that went well")
				}
				for _, paused := range seen.ofKind(batch.EventPaused) {
					postErr, ok := errors.AsType[*batch.SubmissionError](paused.Err)
					require.True(t, ok)
					assert.Equal(t, c.wantKind, postErr.Kind)
					require.ErrorIs(t, paused.Err, c.postErr, "and the client's own error")
					require.EqualError(t, paused.Err, string(c.wantKind)+": submit: HTTP 503: code 17", "each thing once")
					assert.Equal(t, []any{503, 17, node, 0}, []any{paused.StatusCode, paused.Code, paused.Endpoint, paused.InRequest})
				}
				pauses := 0
				if c.wantKind == batch.KindUnavailable || c.wantKind == batch.KindBusy || c.wantKind == batch.KindMisconfigured {
					pauses = 1
				}
				assert.Len(t, seen.ofKind(batch.EventPaused), pauses)
			})
		})
	}
}

// Exactly one event has the request of each posted attempt, with the number of batches in the
// request.
func TestEventsHaveRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(time.Second)
		traits.MaxList = 4
		seen := &eventRecorder{}
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, CommitAfter: time.Second})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Strategy: queuer.Pipelined(4), Observer: seen})
		for i := range 8 {
			require.NoError(t, r.Add(t.Context(), newBatch("s", batch.ID(fmt.Sprint(i)))))
		}
		stop := startRun(t, r)
		waitIdle(t, r)
		require.NoError(t, stop())
		in := map[batch.ID]int{}
		for _, ev := range seen.all {
			if ev.InRequest > 0 {
				assert.Equal(t, batch.EventState, ev.Kind)
				assert.Zero(t, in[ev.Key.ID], "once")
				in[ev.Key.ID] = ev.InRequest
			}
		}
		want := map[batch.ID]int{}
		for _, e := range ledger.Journal() {
			if e.Kind == ledgermem.PostStart {
				want[e.Key.ID] = max(1, e.List)
			}
		}
		require.Len(t, want, 8)
		require.Contains(t, slices.Collect(maps.Values(want)), 4, "lists")
		assert.Equal(t, want, in)
	})
}

// A process that finds the outcome of another process's attempt reports when the batch was added.
func TestAnotherProcessKnowsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := memory.New(), &eventRecorder{}
		ledger := ledgermem.New(&ledgermem.Options{CommitAfter: time.Minute})
		b := newBatch("s", "a")
		stop := startRun(t, newRunner(t, st, ledger, nil))
		other := newRunner(t, st, ledger, &dltbatch.Options{Observer: seen})
		require.NoError(t, other.Add(t.Context(), b))
		time.Sleep(5 * time.Second)
		require.NoError(t, stop())
		stop = startRun(t, other)
		rec := awaitFinal(t, other, b)
		synctest.Wait()
		require.NoError(t, stop())
		final := seen.onlyEvent(t, batch.EventFinal, batch.Committed)
		assert.Equal(t, rec.FinalAt.Sub(rec.CreatedAt), final.SinceAdded)
		assert.Equal(t, rec.FinalAt.Sub(rec.LastPost), final.SincePosted)
		assert.Greater(t, final.SincePosted, 50*time.Second)
	})
}

// A decision has the kind of its cause. The event of a batch that a person ends has the batch's
// age, and a batch that is put back keeps its age.
func TestEventsOfPeopleHaveTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traits := ledgermem.Unforgiving(0)
		traits.Resolves = false
		seen := &eventRecorder{}
		var lost atomic.Bool
		lost.Store(true)
		ledger := ledgermem.New(&ledgermem.Options{Traits: &traits, Fault: func(batch.Attempt) ledgermem.Fault {
			if lost.Load() {
				return ledgermem.Fault{Kind: ledgermem.LostRequest}
			}
			return ledgermem.Fault{}
		}})
		r := newRunner(t, memory.New(), ledger, &dltbatch.Options{Observer: seen})
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		stop := startRun(t, r)
		time.Sleep(time.Minute)
		synctest.Wait()
		undecided := seen.onlyEvent(t, batch.EventDecision, batch.Submitting)
		kind, ok := errors.AsType[*batch.SubmissionError](undecided.Err)
		require.True(t, ok)
		assert.Equal(t, batch.KindDoubt, kind.Kind)
		assert.Equal(t, recordOf(t, r, b).Decision, undecided.Err.Error())
		assert.Positive(t, undecided.SinceAdded)
		assert.Positive(t, undecided.SincePosted)

		rec, err := r.Decide(t.Context(), recordOf(t, r, b), batch.NotExecutedReject, somebody)
		require.NoError(t, err)
		decided := seen.onlyEvent(t, batch.EventOperated, batch.Rejected)
		assert.Equal(t, rec.FinalAt.Sub(rec.CreatedAt), decided.SinceAdded)
		assert.InDelta(t, time.Minute, decided.SinceAdded, float64(timeTolerance))

		lost.Store(false)
		rec, err = r.Requeue(t.Context(), recordOf(t, r, b), somebody)
		require.NoError(t, err)
		assert.Zero(t, seen.onlyEvent(t, batch.EventOperated, rec.State).SinceAdded, "it is open")
		awaitFinal(t, r, b)
		synctest.Wait()
		require.NoError(t, stop())
		assert.InDelta(t, time.Minute, seen.onlyEvent(t, batch.EventFinal, batch.Committed).SinceAdded, float64(timeTolerance))
	})
}

// If the database's clock steps back, no time in an event is negative.
func TestEventsWhenTheClockStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := memory.New(), &eventRecorder{}
		r := newRunner(t, st, ledgermem.New(&ledgermem.Options{CommitAfter: time.Second}), &dltbatch.Options{Observer: seen})
		b := newBatch("s", "b")
		require.NoError(t, r.Add(t.Context(), b))
		st.StepClock(-time.Hour)
		stop := startRun(t, r)
		awaitFinal(t, r, b)
		synctest.Wait()
		require.NoError(t, stop())
		for _, ev := range seen.all {
			assert.Zero(t, ev.SinceAdded, "%s", ev.Kind)
			assert.GreaterOrEqual(t, ev.SincePosted, time.Duration(0))
		}
	})
}

// The event of the outcome of an attempt that another instance left behind has TakenOver, and the
// event of a batch that is sent again has Again. An attempt that is shared, or whose doubt is
// recorded, is not taken over.
func TestEventsTellWhatIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := memory.New(), &eventRecorder{}
		ledger := firstAttemptLoser{harmlessResendLedger(minHarmlessTime)}
		dead := newRunner(t, recordsNothing{st}, ledger, &dltbatch.Options{Drain: time.Millisecond, RequestTimeout: time.Millisecond, Instance: "dead"})
		b := newBatch("s", "a")
		require.NoError(t, dead.Add(t.Context(), b))
		stop := startRun(t, dead)
		time.Sleep(time.Millisecond)
		_ = stop()
		r := newRunner(t, st, ledger, &dltbatch.Options{Observer: seen})
		stop = startRun(t, r)
		time.Sleep(2 * time.Minute)
		require.NoError(t, stop())
		unknown := seen.onlyEvent(t, batch.EventState, batch.Unknown)
		assert.Equal(t, []any{batch.Submitting, batch.ByMonitor, true}, []any{unknown.From, unknown.By, unknown.TakenOver})
		claimed := seen.onlyEvent(t, batch.EventClaimed, batch.Submitting)
		assert.Equal(t, []any{batch.Unknown, true}, []any{claimed.From, claimed.Again})
		require.Equal(t, batch.Committed, recordOf(t, r, b).State)
		for _, e := range seen.all {
			assert.Equal(t, e.State == batch.Unknown, e.TakenOver, "%s %s", e.Kind, e.State)
		}
	})
	synctest.Test(t, func(t *testing.T) { // here the doubt is recorded
		st, seen := memory.New(), &eventRecorder{}
		ledger := ledgermem.New(&ledgermem.Options{Fault: func(batch.Attempt) ledgermem.Fault {
			return ledgermem.Fault{Kind: ledgermem.LostReply}
		}})
		first := newRunner(t, st, &alwaysPendingLedger{Ledger: ledger, statusesHang: true}, nil)
		b := newBatch("s", "a")
		require.NoError(t, first.Add(t.Context(), b))
		stop := startRun(t, first)
		time.Sleep(time.Second)
		require.NoError(t, stop())
		require.Equal(t, batch.Submitting, recordOf(t, first, b).State)
		stop = startRun(t, newRunner(t, st, ledger, &dltbatch.Options{Observer: seen}))
		awaitFinal(t, first, b)
		synctest.Wait()
		require.NoError(t, stop())
		committed := seen.onlyEvent(t, batch.EventFinal, batch.Committed)
		assert.Equal(t, []any{batch.Submitting, batch.ByMonitor, false}, []any{committed.From, committed.By, committed.TakenOver})
	})
}

// The event of a trouble names the part of the Runner in trouble.
func TestTroubleNamesItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, seen := outageStore{memory.New(), &fault{}}, &eventRecorder{}
		stop := startRun(t, newRunner(t, st, ledgermem.New(nil), &dltbatch.Options{Observer: seen}))
		synctest.Wait()
		st.setFault(errDown, false)
		time.Sleep(10 * time.Second)
		require.NoError(t, stop())
		parts := map[string]bool{}
		for _, e := range seen.ofKind(batch.EventTrouble) {
			parts[e.Part] = true
		}
		assert.Equal(t, map[string]bool{"queuer": true, "monitor": true, "retention": true}, parts)
	})
}
