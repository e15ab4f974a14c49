// Package events makes the events of a Runner. It passes them to the application's observers and
// to the log, and keeps what Health shows of pauses, held services, warnings and troubles.
package events

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/internal/legible"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/traces"
	"github.com/dltbatch/dltbatch/store"
)

// Options of a [Reporter]. Package dltbatch explains those of the same name.
type Options struct {
	Instance     string
	Observer     batch.Observer
	Observers    []batch.Observer
	Calls        batch.CallObserver
	TraceParent  func(ctx context.Context) string
	TraceRequest func(ctx context.Context, traceParents []string) (_ context.Context, end func(error))
	Logger       *slog.Logger    // nil means no log
	Final        func(batch.Key) // called when this process saw a batch become final
}

// Reporter makes the events of one Runner and passes them on. Its methods may be called
// concurrently.
type Reporter struct {
	options     Options
	log         *slog.Logger
	reportOfRun atomic.Pointer[func(batch.Event)] // reports an event with the values of the present Run's context
	queues      []*queue[delivery]                // the queues of Options.Observers
	repeats     *repetitions[topic, writeLine]
	flow        eventFlow
	conditions  conditions
	traces      traces.Finder
}

// New returns a Reporter. It starts nothing.
func New(o Options) *Reporter {
	r := &Reporter{options: o, log: slog.New(slog.DiscardHandler), repeats: newSums()}
	if o.Logger != nil {
		r.log = slog.New(logHandler{legible.Handler(o.Logger.Handler()), r.conditions.setTrouble})
	}
	r.queues = r.newQueues()
	return r
}

// Logger returns Options.Logger, with panics of its handler contained.
func (r *Reporter) Logger() *slog.Logger { return r.log }

// Observe passes an event to the application's observers and to the log. It contains a panic in an
// observer.
func (r *Reporter) Observe(ctx context.Context, e batch.Event) {
	e.At, e.Instance = time.Now(), r.options.Instance
	r.flow.add(e)
	if len(r.queues) > 0 {
		r.queue(ctx, e)
	}
	if r.options.Observer != nil {
		r.deliver(ctx, r.options.Observer, "Observer", e)
	}
	r.logEvent(ctx, e)
}

// Report is Observe for an event of a Run's own work, to which no caller's context belongs.
func (r *Reporter) Report(e batch.Event) {
	if f := r.reportOfRun.Load(); f != nil {
		(*f)(e)
		return
	}
	r.Observe(context.Background(), e) // a client panicked while no Run runs
}

// Trouble reports that a part failed unexpectedly and goes on.
func (r *Reporter) Trouble(part string, err error) {
	r.conditions.setTrouble(err)
	r.Report(batch.Event{Kind: batch.EventTrouble, Part: part, Err: fmt.Errorf("%s: %w", part, err)})
}

// LaneHeld reports that nothing of a lane is sent.
func (r *Reporter) LaneHeld(s batch.ServiceID, err error) {
	r.conditions.setTrouble(err)
	r.Report(batch.Event{Kind: batch.EventLaneHeld, Key: batch.Key{Service: s}, Err: err})
}

// Warned replaces the store's earlier warnings, and reports each when it begins.
func (r *Reporter) Warned(all []store.Warning) {
	for _, w := range r.conditions.setWarnings(all) {
		r.Trouble("store", w.Err)
	}
}

// Added reports batches that this process has stored.
func (r *Reporter) Added(ctx context.Context, batches []batch.Batch) {
	for _, b := range batches {
		r.Observe(ctx, batch.Event{Kind: batch.EventAdded, Key: b.Key(), State: batch.Queued})
	}
}

// Operated reports an operator's act on a batch.
func (r *Reporter) Operated(ctx context.Context, act batch.Act, rec batch.Record) {
	r.Observe(ctx, batch.Event{
		Kind: batch.EventOperated, Key: rec.Key, State: rec.State, By: batch.ByOperator, Attempt: rec.Attempt, Act: act, SinceAdded: timeBetween(rec.CreatedAt, rec.FinalAt),
		TraceParent: rec.TraceParent,
	})
	if rec.Final() {
		r.options.Final(rec.Key)
	}
}

// Steered is Operated for an act on a lane or on everything.
func (r *Reporter) Steered(ctx context.Context, act batch.Act) {
	if act.Action == batch.ActionRelease {
		r.conditions.setReleased(act.Scope.Service)
	}
	r.Observe(ctx, batch.Event{Kind: batch.EventOperated, Key: batch.Key{Service: act.Scope.Service}, By: batch.ByOperator, Act: act})
}

// Calls returns the function that reports calls to Options.Calls, or nil if that is not set.
func (r *Reporter) Calls() func(context.Context, batch.Call) {
	o := r.options.Calls
	if o == nil {
		return nil
	}
	return func(ctx context.Context, c batch.Call) { r.contain(ctx, "Calls", func() { o.ObserveCall(ctx, c) }) }
}

// contain calls the application's code, and logs a panic in it.
func (r *Reporter) contain(ctx context.Context, name string, call func()) {
	if err := loop.Contain(func() error { call(); return nil }); err != nil {
		r.logOnce(ctx, slog.LevelError, topic{text: linePanicked, part: name}, err, slog.String("observer", name))
	}
}

// TakeFlow returns the flow of batches since it was last taken, and starts a new one. It returns
// false if that was less than a second ago: a shorter flow shows no rates.
func (r *Reporter) TakeFlow(now time.Time) (store.Flow, bool) { return r.flow.take(now) }

// Health returns the parts of Health that events show.
func (r *Reporter) Health(now time.Time) health.Health {
	h := r.conditions.health(now)
	h.LostEvents, h.DroppedTraces = r.lostEvents(), r.traces.Dropped()
	return h
}
