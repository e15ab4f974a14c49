package dlttest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// eventChecks are about a ledger's own events. A missing event only costs time, but a stream that
// stops without an error costs time again and again.
func eventChecks() []Check {
	source := func(name, promise string, needs Fault, run func(e *checkRun)) Check {
		return Check{Name: "Events/" + name, Promise: promise, run: func(e *checkRun) {
			if !e.traits.Streams {
				e.Logf("declared: its traits say that it does not stream")
				return
			}
			if !e.isLacking(needs) {
				run(e)
			}
		}}
	}
	return []Check{
		source("live first", "the first event says that the stream is open, before anything is reported", None,
			func(e *checkRun) {
				e.committedBatch()
				st := e.openLiveStream(e.streamServices(0))
				assert.NoError(e, st.endStream(), "the end of ctx is no error")
			}),
		source("commit", "soon after a commit there is an event: its status, or the word to ask now", None,
			func(e *checkRun) {
				st := e.openLiveStream(e.streamServices(0))
				for range 3 { // an event about the past might report the first batch
					st.requireReports(e.acceptedBatch(e.Services[0]))
				}
				assert.NoError(e, st.endStream())
			}),
		source("second service", "a batch of another service is reported", None,
			func(e *checkRun) {
				st := e.openLiveStream(e.streamServices(1))
				st.requireReports(e.acceptedBatch(e.Services[1]))
				assert.NoError(e, st.endStream())
			}),
		source("two at once", "two streams at once, of different services, both report", None,
			func(e *checkRun) {
				one, two := e.openLiveStream(e.streamServices(0)), e.openLiveStream(e.streamServices(1))
				one.requireReports(e.acceptedBatch(e.Services[0]))
				two.requireReports(e.acceptedBatch(e.Services[1]))
				assert.NoError(e, one.endStream())
				two.requireReports(e.acceptedBatch(e.Services[1]))
				assert.NoError(e, two.endStream())
			}),
		source("done", "with a context that is done already nothing is reported, and that is no error", None,
			func(e *checkRun) {
				ctx, cancel := context.WithCancel(e.Context())
				cancel()
				st := e.startStream(ctx, cancel, e.streamServices(0))
				assert.NoError(e, st.waitForEnd(e.CancelTimeout))
				assert.Empty(e, st.events)
			}),
		source("yield", "an error of yield ends the stream and is returned", None,
			func(e *checkRun) {
				enough := errors.New("enough")
				ctx, cancel := context.WithTimeout(e.Context(), e.CommitTimeout+e.CancelTimeout)
				defer cancel()
				calls := 0
				err := e.Ledger.Events(ctx, e.streamServices(0), func(dlt.Event) error { calls++; return enough })
				assert.ErrorIs(e, err, enough)
				assert.NoError(e, ctx.Err(), "it did not return")
				assert.Equal(e, 1, calls, "events after the error")
			}),
		source("cut", "a stream that breaks ends with an error, and can be opened again", StreamCut,
			func(e *checkRun) {
				st := e.openLiveStream(e.streamServices(0))
				e.Set(StreamCut)
				assert.Error(e, st.waitForEnd(e.CommitTimeout), "a stream that broke ended without an error")
				e.Set(None)
				st = e.openLiveStream(e.streamServices(0))
				st.requireReports(e.acceptedBatch(e.Services[0]))
				assert.NoError(e, st.endStream())
			}),
		source("unreachable", "where nobody listens there is an error and no event", Unreachable,
			func(e *checkRun) {
				e.Set(Unreachable)
				ctx, cancel := context.WithCancel(e.Context())
				defer cancel()
				st := e.startStream(ctx, cancel, e.streamServices(0))
				err := st.waitForEnd(e.CommitTimeout + e.CancelTimeout)
				e.requireFitToShow(err, e.batchContent(e.batchCount))
				assert.Empty(e, st.events)
			}),
		source("no leak", "a stream that has ended leaves no goroutine behind", None, checkStreamLeak),
	}
}

const leakRounds = 20

// checkStreamLeak opens and ends streams. It notices a client that leaks one goroutine per stream.
func checkStreamLeak(e *checkRun) {
	enough := errors.New("enough")
	round := func() {
		assert.NoError(e, e.openLiveStream(e.streamServices(0)).endStream())
		assert.ErrorIs(e, e.Ledger.Events(e.Context(), e.streamServices(0), func(dlt.Event) error { return enough }), enough)
	}
	round() // starts the goroutines that the client keeps for good
	before := runtime.NumGoroutine()
	for range leakRounds {
		round()
	}
	e.retryWithin(e.CancelTimeout+e.CommitTimeout, func() error {
		if now := runtime.NumGoroutine(); now > before+leakRounds/2 {
			return errors.New("goroutines are left behind by streams that have ended")
		}
		return nil
	})
}

// streamServices returns the services that the engine passes to one stream.
func (e *checkRun) streamServices(service int) []batch.ServiceID {
	if e.traits.GroupsByService {
		return e.Services[service : service+1 : service+1]
	}
	return slices.Clone(e.Services)
}

// testStream is one call of Events in progress.
type testStream struct {
	run    *checkRun
	events chan dlt.Event
	err    chan error
	cancel context.CancelFunc
}

func (e *checkRun) startStream(ctx context.Context, cancel context.CancelFunc, services []batch.ServiceID) *testStream {
	st := &testStream{run: e, events: make(chan dlt.Event, 10_000), err: make(chan error, 1), cancel: cancel}
	e.Cleanup(cancel)
	go func() {
		st.err <- e.Ledger.Events(ctx, services, func(ev dlt.Event) error {
			select {
			case st.events <- ev:
				return nil
			default:
				return errors.New("ten thousand events, and nothing happened")
			}
		})
	}()
	return st
}

// openLiveStream starts a stream and requires a Live event first.
func (e *checkRun) openLiveStream(services []batch.ServiceID) *testStream {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	st := e.startStream(ctx, cancel, services)
	bound := time.NewTimer(e.CommitTimeout + e.CancelTimeout)
	defer bound.Stop()
	select {
	case ev := <-st.events:
		require.True(e, ev.Live, "the first event is not Live: %+v", ev)
	case err := <-st.err:
		require.Fail(e, "the stream ended before it was open", "%v", err)
	case <-bound.C:
		require.Fail(e, "the stream never said that it is open")
	}
	return st
}

// requireReports requires that a caller who asks about b only after an event learns in time that b
// is committed.
func (st *testStream) requireReports(b batch.Batch) {
	st.run.Helper()
	bound := time.NewTimer(st.run.CommitTimeout + st.run.CancelTimeout)
	defer bound.Stop()
	for {
		select {
		case ev := <-st.events:
			for _, s := range ev.Statuses {
				if s.ID != b.ID {
					continue
				}
				require.Contains(st.run, []batch.Reported{batch.ReportedPending, batch.ReportedValid, batch.ReportedCommitted}, s.Reported, "an event about %s", b.Key())
				if s.Reported == batch.ReportedCommitted {
					return
				}
			}
			if st.askUntilReported(b) {
				return
			}
		case err := <-st.err:
			require.Fail(st.run, "the stream ended", "%v", err)
		case <-bound.C:
			require.Fail(st.run, "no event", "%s was committed and nothing said so", b.Key())
		}
	}
}

// askUntilReported asks about b as the monitor does after an event: at once, and a few times more,
// since some ledgers report a commit just before their status queries know it.
func (st *testStream) askUntilReported(b batch.Batch) bool {
	st.run.Helper()
	for pause := time.Millisecond; pause < 20*time.Millisecond; pause *= 2 {
		if st.run.requireAnswers(b)[b.ID].Reported == batch.ReportedCommitted {
			return true
		}
		next := time.NewTimer(pause)
		<-next.C
	}
	return false
}

// endStream ends the stream's context and returns the error of Events, which must come soon.
func (st *testStream) endStream() error {
	st.run.Helper()
	st.cancel()
	return st.waitForEnd(st.run.CancelTimeout)
}

func (st *testStream) waitForEnd(bound time.Duration) error {
	st.run.Helper()
	late := time.NewTimer(bound)
	defer late.Stop()
	select {
	case err := <-st.err:
		return err
	case <-late.C:
		require.Fail(st.run, "the stream goes on", "Events did not return within %s", bound)
		return nil
	}
}
