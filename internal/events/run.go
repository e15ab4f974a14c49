package events

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
)

// Reads has the reads of the store that the events of a Run need.
type Reads interface {
	Get(ctx context.Context, key batch.Key) (batch.Record, error)
	List(ctx context.Context, q store.ListQuery) ([]batch.Record, store.Cursor, error)
	Attempts(ctx context.Context, key batch.Key) ([]batch.Report, error)
	History(ctx context.Context, key batch.Key) ([]batch.Act, error)
	Control(ctx context.Context, scope batch.Scope) (batch.Control, error)
}

// Run makes the events of one Run.
type Run struct {
	*Reporter
	store         Reads
	traits        func(batch.ServiceID) dlt.Traits
	reliesOnOrder bool
	hasEnded      atomic.Bool
}

// Begin begins a Run. Until the Run's end, events have the values of ctx, also after ctx is done.
// reliant is true if the strategy relies on the order in which the ledger gets batches.
func (r *Reporter) Begin(ctx context.Context, s Reads, traits func(batch.ServiceID) dlt.Traits, reliant bool) *Run {
	values := context.WithoutCancel(ctx)
	observe := func(e batch.Event) { r.Observe(values, e) }
	r.reportOfRun.Store(&observe)
	return &Run{Reporter: r, store: s, traits: traits, reliesOnOrder: reliant}
}

// End ends the Run. The queues of Options.Observers get time to become empty, and the sums are
// written to the log.
func (r *Run) End() {
	r.hasEnded.Store(true) // set before Health is cleared
	r.conditions.clearRun()
	r.drainQueues()
	r.repeats.reportAll()
	r.reportOfRun.Store(nil)
}

// Requests that ignore their context may outlast their Run, which then returns ErrDrain. Their
// answers close and open only the gates of that Run, so Paused, Resumed and Unserved then report
// nothing: Health and the events are about the present Run, and nothing would ever correct them.

// Unserved is LaneHeld for a service that this Run does not serve at all. A nil error means that
// the Run now serves it.
func (r *Run) Unserved(s batch.ServiceID, err error) {
	if r.hasEnded.Load() {
		return
	}
	r.conditions.setUnserved(s, err)
	if err != nil {
		r.LaneHeld(s, err)
	}
}

// Paused reports that nothing is posted to a ledger, or for a service. It does not read Since and
// Because of the pause.
func (r *Run) Paused(p health.Pause, err error) {
	if r.hasEnded.Load() {
		return
	}
	p = health.Pause{Ledger: p.Ledger, Service: p.Service, All: p.All}
	event := batch.Event{Kind: batch.EventPaused, Key: batch.Key{Service: p.Service}, Ledger: p.Ledger}
	if err != nil {
		event.Err = &answerError{submissionErr: dlt.Reason(err), err: err}
	}
	if e, ok := errors.AsType[*dlt.Error](err); ok && e != nil {
		addPostError(&event, batch.Report{StatusCode: e.StatusCode, Code: e.Code, Endpoint: e.Endpoint})
	}
	r.conditions.setPaused(p, event.Err)
	r.Report(event)
}

// Resumed reports that a pause reported by Paused is over.
func (r *Run) Resumed(p health.Pause) {
	if r.hasEnded.Load() {
		return
	}
	p = health.Pause{Ledger: p.Ledger, Service: p.Service, All: p.All}
	r.conditions.setResumed(p)
	r.Report(batch.Event{Kind: batch.EventResumed, Key: batch.Key{Service: p.Service}, Ledger: p.Ledger})
}

// Vanished reports a commit that the ledger no longer has.
func (r *Run) Vanished(key batch.Key, now batch.Reported) {
	r.Report(batch.Event{Kind: batch.EventVanished, Key: key, State: batch.Committed, Err: fmt.Errorf("the ledger says %s", now)})
}

// answerError is the error of a ledger's client, with its kind for readers who do not know the
// client.
type answerError struct {
	submissionErr *batch.SubmissionError
	err           error
}

func (e *answerError) Error() string   { return e.submissionErr.Error() }
func (e *answerError) Unwrap() []error { return []error{e.submissionErr, e.err} }

// addPostError adds to an event the place and the codes of a failed POST.
func addPostError(e *batch.Event, r batch.Report) {
	r = r.Fit()
	e.StatusCode, e.Code, e.Endpoint = r.StatusCode, r.Code, r.Endpoint
}
