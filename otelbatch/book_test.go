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

// meterBook is a MeterProvider that keeps what it gets: the sum of a counter, the number and the
// sum of a histogram's values, the last value of a gauge. failingInstrument names one instrument.
type meterBook struct {
	noop.MeterProvider
	failingInstrument string // the instrument that cannot be made; "callback" is RegisterCallback
	isPanicking       bool   // whether a measurement panics
	err               error

	mu         sync.Mutex
	values     map[string]float64 // values by series, such as name{key=value}
	counts     map[string]int
	isObserved map[string]bool // the series that were observed, not measured
	observe    metric.Callback
}

func newMeterBook() *meterBook {
	return &meterBook{values: map[string]float64{}, counts: map[string]int{}, isObserved: map[string]bool{}}
}

func (b *meterBook) Meter(string, ...metric.MeterOption) metric.Meter { return bookMeter{book: b} }

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

func (b *meterBook) note(name string, attrs attribute.Set, v float64, add bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isPanicking {
		panic("the meter is broken")
	}
	name = nameOf(name, attrs)
	if !add {
		b.values[name], b.isObserved[name] = 0, true
	}
	b.values[name] += v
	b.counts[name]++
}

// forget removes what was observed, so that only later observations are left.
func (b *meterBook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.isObserved {
		delete(b.values, name)
		delete(b.counts, name)
	}
	clear(b.isObserved)
}

// valueOf returns the value of a series.
func (b *meterBook) valueOf(format string, args ...any) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values[fmt.Sprintf(format, args...)]
}

// countOf returns how many values a series of a histogram has.
func (b *meterBook) countOf(format string, args ...any) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[fmt.Sprintf(format, args...)]
}

// allSeries returns the names of all series whose value is not 0.
func (b *meterBook) allSeries() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, v := range b.values {
		if v != 0 {
			all = append(all, name)
		}
	}
	return all
}

func (b *meterBook) collect() error { return b.observe(context.Background(), bookObserver{book: b}) }

func (b *meterBook) makeError(name string) error {
	if b.failingInstrument == name {
		return b.err
	}
	return nil
}

type bookMeter struct {
	noop.Meter
	book *meterBook
}

func (m bookMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return bookHistogram{book: m.book, name: name}, m.book.makeError(name)
}

func (m bookMeter) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return bookGauge{name: name}, m.book.makeError(name)
}

func (m bookMeter) Int64ObservableCounter(name string, _ ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return bookTotal{name: name}, m.book.makeError(name)
}

func (m bookMeter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	return bookAge{name: name}, m.book.makeError(name)
}

func (m bookMeter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.book.observe = f
	return noop.Registration{}, m.book.makeError("callback")
}

type bookHistogram struct {
	noop.Float64Histogram
	book *meterBook
	name string
}

func (h bookHistogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	h.book.note(h.name, metric.NewRecordConfig(o).Attributes(), v, true)
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

type bookObserver struct {
	noop.Observer
	book *meterBook
}

func (w bookObserver) ObserveInt64(i metric.Int64Observable, n int64, o ...metric.ObserveOption) {
	name := ""
	switch i := i.(type) {
	case bookGauge:
		name = i.name
	case bookTotal:
		name = i.name
	}
	w.book.note(name, metric.NewObserveConfig(o).Attributes(), float64(n), false)
}

func (w bookObserver) ObserveFloat64(i metric.Float64Observable, v float64, o ...metric.ObserveOption) {
	w.book.note(i.(bookAge).name, metric.NewObserveConfig(o).Attributes(), v, false)
}
