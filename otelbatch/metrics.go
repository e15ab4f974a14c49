package otelbatch

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/batch/autobatch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/health"
	"github.com/dltbatch/dltbatch/store"
)

// meterName is the name of the meter.
const meterName = "github.com/dltbatch/dltbatch/otelbatch"

// Metrics measures Runners. Its methods may be called concurrently.
type Metrics struct {
	instruments

	mu      sync.Mutex
	runners []runner
	engines []tracingEngine
}

// tracingEngine is an *autobatch.Engine.
type tracingEngine interface{ DroppedTraces() uint64 }

// runner is a *dltbatch.Runner.
type runner interface {
	Health() health.Health
	Stats(ctx context.Context) (store.Stats, error)
}

// NewMetrics makes the instruments of docs/metrics.md. Call it once for a provider: all Runners of
// a process share one Metrics, which adds them up. The error is a [*batch.InputError] for a nil
// provider, or the provider's own; then nothing is measured, and it is for the application to
// decide whether it goes on without.
func NewMetrics(p metric.MeterProvider) (*Metrics, error) {
	if p == nil {
		return nil, fmt.Errorf("metrics: %w", &batch.InputError{Field: "provider", Want: "a MeterProvider"})
	}
	meter := p.Meter(meterName)
	if meter == nil {
		return nil, errors.New("metrics: the provider has no meter")
	}
	m := &Metrics{}
	b := &instrumentBuilder{meter: meter}
	m.instruments = newInstruments(b)
	if b.err != nil {
		return nil, fmt.Errorf("metrics: %w", b.err)
	}
	if _, err := meter.RegisterCallback(m.collect, b.async...); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

// NewRunner is [dltbatch.New] of a Runner that is measured. The Observer and the Calls of the
// options get everything, too, after the Metrics. The Metrics keeps the Runner as long as it
// lives.
func (m *Metrics) NewRunner(s store.Store, l dlt.Ledger, o *dltbatch.Options) (*dltbatch.Runner, error) {
	var with dltbatch.Options
	if o != nil {
		with = *o
	}
	with.Observer, with.Calls = observer{m, with.Observer}, callObserver{m, with.Calls}
	r, err := dltbatch.New(s, l, &with)
	if err != nil {
		return nil, err
	}
	m.addRunner(r)
	return r, nil
}

// WatchEngine adds the trace contexts that an Engine has dropped to dltbatch.traces.dropped. Call
// it once for each Engine: the Metrics keeps it as long as it lives.
func (m *Metrics) WatchEngine(e *autobatch.Engine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.engines = append(m.engines, e)
}

func (m *Metrics) addRunner(r runner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runners = append(m.runners, r)
}

// observer calls the Metrics and then the application's Observer, which gets the event even if a
// meter panics.
type observer struct {
	metrics *Metrics
	next    batch.Observer
}

// Observe is [batch.Observer].
func (o observer) Observe(ctx context.Context, e batch.Event) {
	if o.next != nil {
		defer o.next.Observe(ctx, e)
	}
	o.metrics.countEvent(e)
}

// callObserver calls the Metrics and then the application's CallObserver.
type callObserver struct {
	metrics *Metrics
	next    batch.CallObserver
}

// ObserveCall is [batch.CallObserver].
func (c callObserver) ObserveCall(ctx context.Context, call batch.Call) {
	if c.next != nil {
		defer c.next.ObserveCall(ctx, call)
	}
	c.metrics.observeCall(ctx, call)
}
