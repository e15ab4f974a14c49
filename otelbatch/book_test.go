package otelbatch

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// book is a MeterProvider that keeps what it gets: the sum of a counter, the number and the sum of
// a histogram's values, the last value of a gauge. fails and panics are for one instrument.
type book struct {
	noop.MeterProvider
	fails  string // the instrument that cannot be made; "callback" is RegisterCallback
	panics bool   // whether a measurement panics
	err    error

	mu       sync.Mutex
	values   map[string]float64 // values by series, such as name{key=value}
	counts   map[string]int
	watched  map[string]bool // the series that were observed, not measured
	callback metric.Callback
}

func newBook() *book {
	return &book{values: map[string]float64{}, counts: map[string]int{}, watched: map[string]bool{}}
}

func (b *book) Meter(string, ...metric.MeterOption) metric.Meter { return meter{b: b} }

// nameOf returns the name of a series as Prometheus has it.
func nameOf(name string, attrs attribute.Set) string {
	var all []string
	for _, a := range attrs.ToSlice() {
		all = append(all, string(a.Key)+"="+a.Value.AsString())
	}
	if len(all) == 0 {
		return name
	}
	return name + "{" + strings.Join(all, ",") + "}"
}

func (b *book) note(name string, attrs attribute.Set, v float64, add bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.panics {
		panic("the meter is broken")
	}
	name = nameOf(name, attrs)
	if !add {
		b.values[name], b.watched[name] = 0, true
	}
	b.values[name] += v
	b.counts[name]++
}

// forget removes what was observed, so that only later observations are left.
func (b *book) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.watched {
		delete(b.values, name)
		delete(b.counts, name)
	}
	clear(b.watched)
}

// of returns the value of a series.
func (b *book) of(format string, args ...any) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values[fmt.Sprintf(format, args...)]
}

// times returns how many values a series of a histogram has.
func (b *book) times(format string, args ...any) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[fmt.Sprintf(format, args...)]
}

// series returns the names of all series whose value is not 0.
func (b *book) series() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, v := range b.values {
		if v != 0 {
			all = append(all, name)
		}
	}
	return all
}

func (b *book) collect() error { return b.callback(context.Background(), watching{b: b}) }

func (b *book) made(name string) error {
	if b.fails == name {
		return b.err
	}
	return nil
}

type meter struct {
	noop.Meter
	b *book
}

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return bookHistogram{b: m.b, name: name}, m.b.made(name)
}

func (m meter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return bookGauge{name: name}, m.b.made(name)
}

func (m meter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return bookTotal{name: name}, m.b.made(name)
}

func (m meter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return bookAge{name: name}, m.b.made(name)
}

func (m meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.b.callback = f
	return noop.Registration{}, m.b.made("callback")
}

type bookHistogram struct {
	noop.Float64Histogram
	b    *book
	name string
}

func (h bookHistogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	h.b.note(h.name, metric.NewRecordConfig(o).Attributes(), v, true)
}

type bookGauge struct {
	noop.Int64ObservableGauge
	name string
}

type bookTotal struct {
	noop.Int64ObservableCounter
	name string
}

type bookAge struct {
	noop.Float64ObservableGauge
	name string
}

type watching struct {
	noop.Observer
	b *book
}

func (w watching) ObserveInt64(i metric.Int64Observable, n int64, o ...metric.ObserveOption) {
	name := ""
	switch i := i.(type) {
	case bookGauge:
		name = i.name
	case bookTotal:
		name = i.name
	}
	w.b.note(name, metric.NewObserveConfig(o).Attributes(), float64(n), false)
}

func (w watching) ObserveFloat64(i metric.Float64Observable, v float64, o ...metric.ObserveOption) {
	w.b.note(i.(bookAge).name, metric.NewObserveConfig(o).Attributes(), v, false)
}
