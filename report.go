package dltbatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/engine"
	"github.com/dltbatch/dltbatch/store"
)

// observe passes an event to the caller's observers and to the log. It contains a panic in an
// observer.
func (r *Runner) observe(ctx context.Context, e batch.Event) {
	e.At, e.Instance = time.Now(), r.o.Instance
	r.flow.saw(e)
	if len(r.queues) > 0 {
		r.queue(ctx, e)
	}
	if r.o.Observer != nil {
		r.give(ctx, r.o.Observer, "Observer", e)
	}
	r.logEvent(ctx, e)
}

// report is observe for an event that no caller's context belongs to: the work of a Run.
func (r *Runner) report(e batch.Event) {
	if f := r.reporter.Load(); f != nil {
		(*f)(e)
		return
	}
	r.observe(context.Background(), e) // a client panicked while no Run runs
}

func (r *Runner) trouble(where string, err error) {
	r.news.troubled(err)
	r.report(batch.Event{Kind: batch.EventTrouble, Part: where, Err: fmt.Errorf("%s: %w", where, err)})
}

func (r *Runner) laneHeld(s batch.ServiceID, err error) {
	r.news.troubled(err)
	r.report(batch.Event{Kind: batch.EventLaneHeld, Key: batch.Key{Service: s}, Err: err})
}

// Requests that ignore their context may outlive their Run, which then returns ErrDrain. Their answers
// close and open only the gates of that Run, so Paused, Resumed and Unserved say nothing then: Health
// and the events are about the Run of now, and nobody would ever take the news back.

// Unserved is laneHeld for a service that this Run does not serve at all. A nil error means
// that the Run serves it by now.
func (n *notices) Unserved(s batch.ServiceID, err error) {
	if !n.over.Load() {
		n.r.unserved(s, err)
	}
}

// Paused says that nothing is posted for a service, or at all.
func (n *notices) Paused(s batch.ServiceID, all bool, err error) {
	if !n.over.Load() {
		n.r.paused(s, all, err)
	}
}

// Resumed ends the pause.
func (n *notices) Resumed(s batch.ServiceID, all bool) {
	if !n.over.Load() {
		n.r.resumed(s, all)
	}
}

// End ends the notices of a Run.
func (n *notices) End() {
	n.over.Store(true) // before Health is cleared
	n.r.news.stopped()
	n.r.rest()
	n.r.sums.End()
	n.r.reporter.Store(nil)
}

// events is what the engine tells its Runner.
type events struct{ r *Runner }

func (e events) Begin(ctx context.Context, reliant bool) engine.Notices {
	reporter := func(event batch.Event) { e.r.observe(ctx, event) }
	e.r.reporter.Store(&reporter)
	return &notices{r: e.r, reliant: reliant}
}

func (e events) Report(event batch.Event)                  { e.r.report(event) }
func (e events) Trouble(part string, err error)            { e.r.trouble(part, err) }
func (e events) LaneHeld(s batch.ServiceID, err error)     { e.r.laneHeld(s, err) }
func (e events) TakeFlow(now time.Time) (store.Flow, bool) { return e.r.flow.take(now) }
func (e events) Calls() func(context.Context, batch.Call)  { return e.r.newCalls() }

func (e events) TraceRequest() func(context.Context, []store.Claim) (context.Context, func(error)) {
	return e.r.traceRequest()
}

func (e events) Warned(all []store.Warning) {
	for _, w := range e.r.news.warned(all) {
		e.r.trouble("store", w.Err)
	}
}

func (e events) Health(now time.Time) health.Health {
	h := e.r.news.look(now)
	h.LostEvents, h.DroppedTraces = e.r.lostEvents(), e.r.droppedTraces.Load()
	return h
}

func (r *Runner) unserved(s batch.ServiceID, err error) {
	r.news.mark(&r.news.held, s, err != nil)
	if err != nil {
		r.laneHeld(s, err)
	}
}

func (r *Runner) paused(s batch.ServiceID, all bool, err error) {
	r.news.pause(s, all, true, err)
	event := batch.Event{Kind: batch.EventPaused, Key: batch.Key{Service: s}, Err: err}
	if err != nil {
		text := batch.Excerpt(err.Error(), batch.MaxErrorText)
		event.Err = &answerError{kind: &batch.SubmissionError{Kind: dlt.Kind(err), Message: text}, err: err}
	}
	if e, ok := errors.AsType[*dlt.Error](err); ok && e != nil {
		blame(&event, batch.Report{StatusCode: e.StatusCode, Code: e.Code, Endpoint: e.Endpoint})
	}
	r.report(event)
}

// answerError is the error of a ledger's client, with its kind for readers who do not know the client.
type answerError struct {
	kind *batch.SubmissionError
	err  error
}

func (e *answerError) Error() string   { return e.err.Error() }
func (e *answerError) Unwrap() []error { return []error{e.kind, e.err} }

// blame adds to an event where, and by which codes, a POST failed.
func blame(e *batch.Event, r batch.Report) {
	r = r.Fit()
	e.StatusCode, e.Code, e.Endpoint = r.StatusCode, r.Code, r.Endpoint
}

func (r *Runner) resumed(s batch.ServiceID, all bool) {
	r.news.pause(s, all, false, nil)
	r.report(batch.Event{Kind: batch.EventResumed, Key: batch.Key{Service: s}})
}
